"""Login against a local server: with a browser callback and with a device code."""

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from mainspring.errors import AuthenticationError, ModelTimeoutError, ProviderConfigError
from mainspring.models.auth import OAuthClient, TokenFile, device_login, login
from tests.unit.models.auth.test_oauth import form, given
from tests.unit.models.server import Server, plain, serve


def make_client(server: Server, **changes: Any) -> OAuthClient:
    client_settings = OAuthClient(
        "codex",
        "app-1",
        f"{server.url}/token",
        f"{server.url}/authorize",
        f"{server.url}/device",
        scope="openid",
        parameters={"originator": "mainspring"},
        account=lambda tokens: f"account of {tokens.access}",
    )
    return replace(client_settings, **changes)


async def get(url: str) -> str:
    """Return the page that a browser shows."""
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    writer.write(f"GET {target.path}?{target.query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    displayed = (await reader.read()).decode()
    writer.close()
    return displayed


class Browser:
    """A browser that opens the callback with each answer; STATE is replaced by the state of the login."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.query: dict[str, str] = {}
        self.pages: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def __call__(self, url: str) -> None:
        self.query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.task = asyncio.get_running_loop().create_task(self._come_back())

    async def _come_back(self) -> None:
        back = self.query["redirect_uri"]
        for answer in self.answers:
            self.pages.append(await get(back.replace("/callback", answer.replace("STATE", self.query["state"]))))


@pytest.mark.covers("PRV-33")
async def test_browser_login_uses_pkce_and_ignores_forged_callbacks(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "t.json")
    browser = Browser("/favicon.ico", "/callback?code=stolen&state=other", "/callback?code=the-code&state=STATE")
    async with serve(given(access_token="a", refresh_token="r", expires_in=60)) as server:
        tokens = await login(make_client(server), file, browser)

    assert (tokens.access, tokens.refresh, tokens.account) == ("a", "r", "account of a")
    assert file.read() == tokens
    query, sent = browser.query, form(server.requests[0])
    challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert query["code_challenge"] == challenge
    assert query["code_challenge_method"] == "S256"
    assert (query["client_id"], query["scope"], query["originator"]) == ("app-1", "openid", "mainspring")
    assert (sent["grant_type"], sent["code"]) == ("authorization_code", "the-code")
    assert sent["redirect_uri"] == query["redirect_uri"]
    assert browser.task is not None
    await browser.task
    assert ["404" in browser.pages[0], "400" in browser.pages[1], "logged in" in browser.pages[2]] == [True] * 3


async def test_malformed_request_does_not_disturb_the_login(tmp_path: Path) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    browser = Browser("/callback?code=the-code&state=STATE")
    tasks: list[asyncio.Task[None]] = []

    async def disturb(url: str) -> None:
        port = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET //[ HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        browser(url)

    def show(url: str) -> None:
        tasks.append(asyncio.get_running_loop().create_task(disturb(url)))

    async with serve(given(access_token="a", refresh_token="r", expires_in=60)) as server:
        assert (await login(make_client(server), TokenFile(tmp_path / "t.json"), show)).access == "a"
    assert browser.task is not None
    await browser.task
    assert problems == []


async def test_denied_login_is_reported(tmp_path: Path) -> None:
    browser = Browser("/callback?error=access_denied&error_description=%3Cb%3ENo%3C/b%3E&state=STATE")
    async with serve(given(access_token="a")) as server:
        with pytest.raises(AuthenticationError, match="rejected the login: <b>No</b>"):
            await login(make_client(server), TokenFile(tmp_path / "t.json"), browser)
        assert browser.task is not None
        await browser.task
        assert "&lt;b&gt;No" in browser.pages[0]
        assert server.requests == []


async def test_browser_login_times_out(tmp_path: Path) -> None:
    async with serve(plain()) as server:
        with pytest.raises(ModelTimeoutError, match="timed out"):
            await login(make_client(server), TokenFile(tmp_path / "t.json"), lambda url: None, timeout=0.05)


async def test_port_in_use_is_named(tmp_path: Path) -> None:
    async with serve(plain()) as server:
        with pytest.raises(ProviderConfigError, match=f"Port {server.port} is in use"):
            await login(make_client(server, port=server.port), TokenFile(tmp_path / "t.json"), lambda url: None)


async def test_device_login_polls_until_the_code_is_entered(tmp_path: Path) -> None:
    displayed: list[tuple[str, str]] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    started = given(device_code="d", user_code="ABCD", verification_uri="https://example.com/device", interval=2)
    pending = plain(json.dumps({"error": "authorization_pending"}).encode(), "400 Bad Request")
    slower = plain(json.dumps({"error": "slow_down"}).encode(), "400 Bad Request")
    async with serve(started, pending, slower, given(access_token="a", expires_in=60)) as server:
        file = TokenFile(tmp_path / "t.json")
        tokens = await device_login(make_client(server), file, lambda *prompt: displayed.append(prompt), sleep=sleep)

    assert displayed == [("https://example.com/device", "ABCD")]
    assert slept == [2, 2, 7]
    assert file.read() == tokens
    assert form(server.requests[1])["grant_type"] == "urn:ietf:params:oauth:grant-type:device_code"


async def test_device_login_times_out_or_fails(tmp_path: Path) -> None:
    async def sleep(seconds: float) -> None:
        return None

    file = TokenFile(tmp_path / "t.json")
    started = given(device_code="d", user_code="ABCD", verification_uri="https://example.com/device")
    pending = plain(json.dumps({"error": "authorization_pending"}).encode(), "400 Bad Request")
    async with serve(started, pending) as server:
        with pytest.raises(ModelTimeoutError):
            await device_login(make_client(server), file, lambda *prompt: None, sleep=sleep, timeout=20)
    denied = plain(json.dumps({"error": "access_denied"}).encode(), "400 Bad Request")
    async with serve(started, denied) as server:
        with pytest.raises(AuthenticationError):
            await device_login(make_client(server), file, lambda *prompt: None, sleep=sleep)
    async with serve(given(hello="world")) as server:
        with pytest.raises(AuthenticationError, match="did not start the device login"):
            await device_login(make_client(server), file, lambda *prompt: None, sleep=sleep)
