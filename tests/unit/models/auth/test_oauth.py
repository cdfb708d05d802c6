"""OAuth against a server on this machine: tokens in a file, renewed in time, once, and announced."""

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


def web_token(**told: Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, told)]
    return ".".join([*parts, "signature"])


def client(server: Server) -> OAuthClient:
    return OAuthClient("codex", "app-1", f"{server.url}/token", scope="openid")


def given(**fields: Any) -> Answer:
    return plain(json.dumps(fields).encode())


def form(request: Received) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


OLD = OAuthTokens("old", "refresh-1", time.time() - 10, "acc")


# --- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-33")
def test_tokens_are_saved_for_the_owners_eyes_only(tmp_path: Path) -> None:
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


def test_the_file_of_another_program_keeps_its_form(tmp_path: Path) -> None:
    end = int(time.time()) + 100
    file = TokenFile(tmp_path / "auth.json")
    file.path.write_text(
        json.dumps(
            {"OPENAI_API_KEY": None, "tokens": {"access_token": web_token(exp=end), "refresh_token": "r", "x": 1}}
        )
    )
    known = file.read()
    assert known is not None
    assert (known.refresh, known.expires) == ("r", end)

    file.write(OAuthTokens("new", "r2", 5.0, "acc"))

    assert json.loads(file.path.read_text()) == {
        "OPENAI_API_KEY": None,
        "tokens": {"access_token": "new", "refresh_token": "r2", "x": 1, "expires_at": 5.0, "account_id": "acc"},
    }


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")

    TokenFile(tmp_path / "link.json").write(OLD)

    assert (tmp_path / "link.json").is_symlink()
    assert TokenFile(tmp_path / "real.json").read() is not None


@pytest.mark.parametrize("content", ["", "{", "[]", "5"])
def test_a_broken_file_is_named_and_can_be_written_over(tmp_path: Path, content: str) -> None:
    file = TokenFile(tmp_path / "t.json")
    file.path.write_text(content)

    with pytest.raises(ProviderConfigError, match=r"t\.json.*Log in again"):
        file.read()
    file.write(OLD)
    assert file.read() is not None


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ProviderConfigError, match="Cannot save the tokens in"):
        TokenFile(tmp_path / "file" / "t.json").write(OLD)


def test_what_a_web_token_says() -> None:
    assert decode_claims(web_token(exp=5, a="b")) == {"exp": 5, "a": "b"}
    assert token_expiry(web_token(exp=5)) == 5
    for broken in ("", "a.b", "a.b.c", "a.!!.c", f"x.{base64.urlsafe_b64encode(b'[1]').decode()}.y"):
        assert decode_claims(broken) == {}
        assert token_expiry(broken) is None


# --- renewing ----------------------------------------------------------------------------------------------------------


def stored(tmp_path: Path, tokens: OAuthTokens = OLD) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.write(tokens)
    return file


async def test_a_token_that_can_be_used_is_used(tmp_path: Path) -> None:
    async with serve(given(access_token="new")) as server:
        file = stored(tmp_path, OAuthTokens("good", "r", time.time() + 3600, "acc"))
        credential = OAuthCredential(client(server), file, headers=lambda t: {"x-account": t.account})

        assert await credential() == {"authorization": "Bearer good", "x-account": "acc"}
        assert server.requests == []


@pytest.mark.covers("PRV-29", "PRV-33")
async def test_a_token_is_renewed_before_its_end_saved_and_announced(tmp_path: Path) -> None:
    told: list[TokenRefreshed] = []
    heard: list[TokenRefreshed] = []

    async def listener(refreshed: TokenRefreshed) -> None:
        heard.append(refreshed)

    async with serve(given(access_token="new", refresh_token="refresh-2", expires_in=3600)) as server:
        file = stored(tmp_path, OAuthTokens("soon-over", "refresh-1", time.time() + 60, "acc", "id"))
        credential = OAuthCredential(client(server), file, on_refresh=told.append)
        with token_refresh_listener(listener):
            given_now = await credential()

    assert given_now == {"authorization": "Bearer new"}
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
    assert told == heard == [TokenRefreshed("codex", "acc", saved.expires, "expired")]


@pytest.mark.covers("PRV-29")
async def test_a_token_that_the_host_refused_is_renewed(tmp_path: Path) -> None:
    told: list[TokenRefreshed] = []
    async with serve(given(access_token=web_token(exp=time.time() + 3600))) as server:
        file = stored(tmp_path, OAuthTokens("revoked", "refresh-1", time.time() + 3600))
        credential = OAuthCredential(client(server), file, on_refresh=told.append)
        old = await credential()
        credential.invalidate(old)

        assert await credential() != old
        assert len(server.requests) == 1
    saved = file.read()
    assert saved is not None
    assert saved.refresh == "refresh-1"  # The server gave no other one.
    assert [r.reason for r in told] == ["refused"]


async def test_all_who_need_it_share_one_renewal(tmp_path: Path) -> None:
    async with serve(given(access_token="new", refresh_token="refresh-2", expires_in=3600)) as server:
        file = stored(tmp_path)
        first, second = OAuthCredential(client(server), file), OAuthCredential(client(server), TokenFile(file.path))

        all_given = await asyncio.gather(*[source() for source in [first, second] * 5])

        assert all(g == {"authorization": "Bearer new"} for g in all_given)
        assert len(server.requests) == 1


async def test_what_another_process_renewed_meanwhile_is_used(tmp_path: Path) -> None:
    async with serve(given(access_token="x")) as server:
        file = stored(tmp_path, OAuthTokens("mine", "refresh-1", time.time() + 3600))
        credential = OAuthCredential(client(server), file)
        old = await credential()
        await asyncio.to_thread(file.write, OAuthTokens("theirs", "refresh-2", time.time() + 3600))
        credential.invalidate(old)

        assert await credential() == {"authorization": "Bearer theirs"}
        assert server.requests == []


async def test_a_listener_that_fails_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(refreshed: TokenRefreshed) -> None:
        raise RuntimeError("deaf")

    async with serve(given(access_token="new", expires_in=3600)) as server:
        credential = OAuthCredential(client(server), stored(tmp_path), on_refresh=broken)
        assert await credential() == {"authorization": "Bearer new"}
    assert "listener" in caplog.text


@pytest.mark.covers("PRV-29")
async def test_a_login_that_has_ended_says_so_without_showing_tokens(tmp_path: Path) -> None:
    rejected = plain(b'{"error":"invalid_grant","error_description":"refresh-1 was revoked"}', "400 Bad Request")
    async with serve(rejected) as server:
        with pytest.raises(AuthenticationError, match="codex returned no token.*Log in again") as caught:
            await OAuthCredential(client(server), stored(tmp_path))()
    assert "refresh-1" not in str(caught.value)
    async with serve(plain(b"oops", "500 Internal Server Error")) as server:
        with pytest.raises(NetworkError):
            await OAuthCredential(client(server), stored(tmp_path))()
    async with serve(given(token_type="Bearer")) as server:
        with pytest.raises(Exception, match="contains no token"):
            await OAuthCredential(client(server), stored(tmp_path))()


async def test_nobody_logged_in_is_said(tmp_path: Path) -> None:
    nowhere = OAuthClient("codex", "app-1", "http://127.0.0.1:1/token")

    with pytest.raises(ProviderConfigError, match="Not logged in to codex"):
        await OAuthCredential(nowhere, TokenFile(tmp_path / "none.json"))()
    with pytest.raises(AuthenticationError, match="cannot be refreshed"):
        await OAuthCredential(nowhere, stored(tmp_path, OAuthTokens("a", "", 1.0)))()
    with pytest.raises(NetworkError):
        await OAuthCredential(nowhere, stored(tmp_path))()
    assert os.listdir(tmp_path)
