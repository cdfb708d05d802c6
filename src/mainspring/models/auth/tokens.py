"""Expiring tokens, fetched once for concurrent requests, and the private file of a login's tokens."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.credentials import CredentialValue
from mainspring.models.json_values import as_dict, as_number
from mainspring.state_files import read_regular_file, write_atomically

REFRESH_MARGIN = 300.0
"""Seconds before expiry at which a token is no longer used: minutes may pass until the host checks it."""


class Token(Struct, frozen=True):
    """A token.

    Attributes:
        value: The token.
        expires: Expiry in seconds since 1970; ``None`` if unknown.
        headers: Additional headers to send with the token.
    """

    value: str
    expires: float | None = None
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"<Token expires={self.expires}>"

    def is_valid(self, now: float, refresh_margin: float = REFRESH_MARGIN) -> bool:
        """Return True if the token is still valid."""
        return self.expires is None or now < self.expires - refresh_margin

    def as_headers(self) -> dict[str, str]:
        """Return the request headers with the token."""
        return {"authorization": f"Bearer {self.value}", **self.headers}


class TokenCredential:
    """A `CredentialResolver` based on a function that fetches a token.

    Concurrent requests wait for the same fetch. It continues if the first request is cancelled, because the host may already
    have revoked the old token.

    Args:
        fetch: Function that fetches a token; receives the rejected token, if any.
        refresh_margin: Seconds before expiry at which the next token is fetched.
        clock: Function that returns the seconds since 1970.
    """

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[Token]],
        *,
        refresh_margin: float = REFRESH_MARGIN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._refresh_margin = refresh_margin
        self._clock = clock
        self._token: Token | None = None
        self._use_until = 0.0
        self._rejected_token: str | None = None
        self._refreshes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Token]] = WeakKeyDictionary()

    async def __call__(self) -> CredentialValue:
        """Return the headers with a valid token."""
        return (await self.token()).as_headers()

    async def token(self) -> Token:
        """Return a valid token."""
        token = self._token
        if token is not None and token.value != self._rejected_token and self._clock() < self._use_until:
            return token
        loop = asyncio.get_running_loop()
        task = self._refreshes.get(loop)
        if task is None or task.done():
            task = self._refreshes[loop] = loop.create_task(self._refresh())
            task.add_done_callback(_ignore_exception)
        return await asyncio.shield(task)

    def invalidate(self, given: CredentialValue) -> None:
        """Discard the token in these headers, which the host rejected."""
        token = self._token
        if token is not None and not isinstance(given, str) and given.get("authorization") == f"Bearer {token.value}":
            self._rejected_token = token.value

    async def _refresh(self) -> Token:
        token = await self._fetch(self._rejected_token)
        now = self._clock()
        lifetime = math.inf if token.expires is None else token.expires - now
        self._token = token
        self._use_until = now + max(
            lifetime - self._refresh_margin, lifetime / 2
        )  # Short-lived tokens are not refreshed at each request.
        return token


def _ignore_exception(task: asyncio.Task[Token]) -> None:
    """Retrieve the exception so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


class OAuthTokens(Struct, frozen=True, omit_defaults=True):
    """Tokens of a login.

    Attributes:
        access: Access token.
        refresh: Refresh token; empty if missing.
        expires: Expiry of ``access``, in seconds since 1970; ``None`` if unknown.
        account: Account ID, if the host requires it.
        id_token: ID token, signed by the host.
    """

    access: str
    refresh: str = ""
    expires: float | None = None
    account: str = ""
    id_token: str = ""

    def __repr__(self) -> str:
        return f"<OAuthTokens account={self.account!r} expires={self.expires}>"


def decode_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token; empty if it is invalid. The signature is not checked."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        data = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return as_dict(json.loads(data)) or {}
    except (ValueError, binascii.Error):
        return {}


def token_expiry(token: str) -> float | None:
    """Return the expiry of a JSON Web Token in seconds since 1970; ``None`` if it has none."""
    return as_number(decode_claims(token).get("exp"))


class TokenFile:
    """A JSON file with the tokens of one login.

    The files of other programs are supported: tokens may be stored under ``tokens``, as ``access_token`` and so on, and the
    other contents of the file are preserved.

    Args:
        path: Path of the file. Its folder is created when tokens are saved.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self) -> OAuthTokens | None:
        """Return the tokens; ``None`` if the file is missing or contains none. Blocking.

        Raises:
            ProviderConfigError: The file cannot be read or is not a JSON object.
        """
        content = self._content()
        fields = as_dict(content.get("tokens")) or content
        access = _text(fields, "access_token", "access")
        if not access:
            return None
        expires = as_number(fields.get("expires_at", fields.get("expires")))
        return OAuthTokens(
            access,
            _text(fields, "refresh_token", "refresh"),
            token_expiry(access) if expires is None else expires,
            _text(fields, "account_id", "account"),
            _text(fields, "id_token"),
        )

    def write(self, tokens: OAuthTokens) -> None:
        """Save the tokens atomically, readable only by the owner. Blocking.

        Raises:
            ProviderConfigError: The file cannot be written.
        """
        try:
            content = self._content()
        except ProviderConfigError:
            content = {}  # An unreadable file contains nothing to preserve.
        nested = as_dict(content.get("tokens"))
        fields = {
            "access_token": tokens.access,
            "refresh_token": tokens.refresh,
            "expires_at": tokens.expires,
            "account_id": tokens.account,
            "id_token": tokens.id_token,
        }
        merged = {**(content if nested is None else nested), **{name: value for name, value in fields.items() if value}}
        document = merged if nested is None else {**content, "tokens": merged}
        try:
            self._replace(json.dumps(document, indent=2).encode())
        except OSError as error:
            raise ProviderConfigError(
                f"Cannot save the tokens in {self.path}: {error.strerror or error}", reason="token_file"
            ) from error

    def _content(self) -> dict[str, Any]:
        try:
            content = as_dict(json.loads(read_regular_file(self.path)))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ProviderConfigError(
                f"Cannot read the tokens in {self.path}: {error}. Log in again.", reason="token_file"
            ) from error
        if content is None:
            raise ProviderConfigError(f"{self.path} is not a JSON object. Log in again.", reason="token_file")
        return content

    def _replace(self, data: bytes) -> None:
        target = self.path.resolve()  # Preserve a symbolic link.
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(target, data)


def _text(fields: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")
