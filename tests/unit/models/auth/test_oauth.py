"""OAuth against a local server: tokens in a file, refreshed once before they expire, and reported."""

import asyncio
import base64
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from mainspring.errors import AuthenticationError, NetworkError, ProviderConfigError
from mainspring.models.auth import (
    OAuthClient,
    OAuthCredential,
    OAuthTokens,
    TokenFile,
    TokenRefreshed,
    token_refresh_listener,
)
from mainspring.models.auth.tokens import decode_claims, token_expiry
from tests.unit.models.server import Answer, Received, Server, plain, serve


def make_web_token(**callback_events: Any) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, callback_events)
    ]
    return ".".join([*parts, "signature"])


def make_client(server: Server) -> OAuthClient:
    return OAuthClient("codex", "app-1", f"{server.url}/token", scope="openid")


def given(**fields: Any) -> Answer:
    return plain(json.dumps(fields).encode())


def form(request: Received) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


OLD = OAuthTokens("old", "refresh-1", time.time() - 10, "acc")


# --- the token file ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-33")
def test_token_file_is_private_to_the_user(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "auth" / "codex.json")
    tokens = OAuthTokens("a", "r", 1000.0, "acc", "id")

    assert file.read() is None
    file.write(tokens)

    assert file.read() == tokens
    assert "secret" not in repr(OAuthTokens("secret", "secret"))
    assert [p.name for p in file.path.parent.iterdir()] == ["codex.json"]
    if sys.platform != "win32":
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_token_file_of_another_program_keeps_its_format(tmp_path: Path) -> None:
    end = int(time.time()) + 100
    file = TokenFile(tmp_path / "auth.json")
    file.path.write_text(
        json.dumps(
            {"OPENAI_API_KEY": None, "tokens": {"access_token": make_web_token(exp=end), "refresh_token": "r", "x": 1}}
        )
    )
    stored_tokens = file.read()
    assert stored_tokens is not None
    assert (stored_tokens.refresh, stored_tokens.expires) == ("r", end)

    file.write(OAuthTokens("new", "r2", 5.0, "acc"))

    assert json.loads(file.path.read_text()) == {
        "OPENAI_API_KEY": None,
        "tokens": {"access_token": "new", "refresh_token": "r2", "x": 1, "expires_at": 5.0, "account_id": "acc"},
    }


def test_symlink_to_a_token_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")

    TokenFile(tmp_path / "link.json").write(OLD)

    assert (tmp_path / "link.json").is_symlink()
    assert TokenFile(tmp_path / "real.json").read() is not None


@pytest.mark.parametrize("content", ["", "{", "[]", "5"])
def test_damaged_token_file_is_reported_and_can_be_overwritten(tmp_path: Path, content: str) -> None:
    file = TokenFile(tmp_path / "t.json")
    file.path.write_text(content)

    with pytest.raises(ProviderConfigError, match=r"t\.json.*Log in again"):
        file.read()
    file.write(OLD)
    assert file.read() is not None


def test_unwritable_token_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ProviderConfigError, match="Cannot save the tokens in"):
        TokenFile(tmp_path / "file" / "t.json").write(OLD)


def test_claims_of_a_web_token_are_decoded() -> None:
    assert decode_claims(make_web_token(exp=5, a="b")) == {"exp": 5, "a": "b"}
    assert token_expiry(make_web_token(exp=5)) == 5
    for broken in ("", "a.b", "a.b.c", "a.!!.c", f"x.{base64.urlsafe_b64encode(b'[1]').decode()}.y"):
        assert decode_claims(broken) == {}
        assert token_expiry(broken) is None


# --- refresh -----------------------------------------------------------------------------------------------------------


def save_tokens(tmp_path: Path, tokens: OAuthTokens = OLD) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.write(tokens)
    return file


async def test_valid_token_is_used_without_a_request(tmp_path: Path) -> None:
    async with serve(given(access_token="new")) as server:
        file = save_tokens(tmp_path, OAuthTokens("good", "r", time.time() + 3600, "acc"))
        credential = OAuthCredential(make_client(server), file, headers=lambda t: {"x-account": t.account})

        assert await credential() == {"authorization": "Bearer good", "x-account": "acc"}
        assert server.requests == []


@pytest.mark.covers("PRV-29", "PRV-33")
async def test_token_is_refreshed_before_it_expires_saved_and_reported(tmp_path: Path) -> None:
    callback_events: list[TokenRefreshed] = []
    listener_events: list[TokenRefreshed] = []

    async def listener(refreshed: TokenRefreshed) -> None:
        listener_events.append(refreshed)

    async with serve(given(access_token="new", refresh_token="refresh-2", expires_in=3600)) as server:
        file = save_tokens(tmp_path, OAuthTokens("soon-over", "refresh-1", time.time() + 60, "acc", "id"))
        credential = OAuthCredential(make_client(server), file, on_refresh=callback_events.append)
        with token_refresh_listener(listener):
            request_headers = await credential()

    assert request_headers == {"authorization": "Bearer new"}
    assert form(server.requests[0]) == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-1",
        "client_id": "app-1",
        "scope": "openid",
    }
    saved = file.read()
    assert saved is not None
    assert (saved.access, saved.refresh, saved.account, saved.id_token) == ("new", "refresh-2", "acc", "id")
    assert saved.expires == pytest.approx(time.time() + 3600, abs=30)
    assert callback_events == listener_events == [TokenRefreshed("codex", "acc", saved.expires, "expired")]


@pytest.mark.covers("PRV-29")
async def test_rejected_token_is_refreshed(tmp_path: Path) -> None:
    callback_events: list[TokenRefreshed] = []
    async with serve(given(access_token=make_web_token(exp=time.time() + 3600))) as server:
        file = save_tokens(tmp_path, OAuthTokens("revoked", "refresh-1", time.time() + 3600))
        credential = OAuthCredential(make_client(server), file, on_refresh=callback_events.append)
        old = await credential()
        credential.invalidate(old)

        assert await credential() != old
        assert len(server.requests) == 1
    saved = file.read()
    assert saved is not None
    assert saved.refresh == "refresh-1"  # The server returned no new refresh token.
    assert [r.reason for r in callback_events] == ["refused"]


async def test_concurrent_refreshes_are_shared(tmp_path: Path) -> None:
    async with serve(given(access_token="new", refresh_token="refresh-2", expires_in=3600)) as server:
        file = save_tokens(tmp_path)
        first, second = (
            OAuthCredential(make_client(server), file),
            OAuthCredential(make_client(server), TokenFile(file.path)),
        )

        all_headers = await asyncio.gather(*[source() for source in [first, second] * 5])

        assert all(g == {"authorization": "Bearer new"} for g in all_headers)
        assert len(server.requests) == 1


async def test_token_refreshed_by_another_process_is_used(tmp_path: Path) -> None:
    async with serve(given(access_token="x")) as server:
        file = save_tokens(tmp_path, OAuthTokens("mine", "refresh-1", time.time() + 3600))
        credential = OAuthCredential(make_client(server), file)
        old = await credential()
        await asyncio.to_thread(file.write, OAuthTokens("theirs", "refresh-2", time.time() + 3600))
        credential.invalidate(old)

        assert await credential() == {"authorization": "Bearer theirs"}
        assert server.requests == []


async def test_failing_refresh_listener_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(refreshed: TokenRefreshed) -> None:
        raise RuntimeError("deaf")

    async with serve(given(access_token="new", expires_in=3600)) as server:
        credential = OAuthCredential(make_client(server), save_tokens(tmp_path), on_refresh=broken)
        assert await credential() == {"authorization": "Bearer new"}
    assert "listener" in caplog.text


@pytest.mark.covers("PRV-29")
async def test_revoked_refresh_token_is_reported_without_tokens(tmp_path: Path) -> None:
    rejected = plain(b'{"error":"invalid_grant","error_description":"refresh-1 was revoked"}', "400 Bad Request")
    async with serve(rejected) as server:
        with pytest.raises(AuthenticationError, match="codex returned no token.*Log in again") as caught:
            await OAuthCredential(make_client(server), save_tokens(tmp_path))()
    assert "refresh-1" not in str(caught.value)
    async with serve(plain(b"oops", "500 Internal Server Error")) as server:
        with pytest.raises(NetworkError):
            await OAuthCredential(make_client(server), save_tokens(tmp_path))()
    async with serve(given(token_type="Bearer")) as server:
        with pytest.raises(Exception, match="contains no token"):
            await OAuthCredential(make_client(server), save_tokens(tmp_path))()


async def test_missing_or_unrefreshable_login_is_reported(tmp_path: Path) -> None:
    nowhere = OAuthClient("codex", "app-1", "http://127.0.0.1:1/token")

    with pytest.raises(ProviderConfigError, match="Not logged in to codex"):
        await OAuthCredential(nowhere, TokenFile(tmp_path / "none.json"))()
    with pytest.raises(AuthenticationError, match="cannot be refreshed"):
        await OAuthCredential(nowhere, save_tokens(tmp_path, OAuthTokens("a", "", 1.0)))()
    with pytest.raises(NetworkError):
        await OAuthCredential(nowhere, save_tokens(tmp_path))()
    assert os.listdir(tmp_path)
