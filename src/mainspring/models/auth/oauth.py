"""OAuth tokens that are refreshed before they expire or when a host rejects them, with events for listeners."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct

from mainspring.errors import AuthenticationError, InvalidResponseError, ProviderConfigError
from mainspring.locks import lock_file
from mainspring.models.auth.credentials import RefreshCallback, TokenRefreshed, current_listener
from mainspring.models.auth.tokens import REFRESH_MARGIN, OAuthTokens, Token, TokenCredential, TokenFile, token_expiry
from mainspring.models.errors import classify_error
from mainspring.models.json_values import as_dict, as_number
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.errors import host_and_port
from mainspring.models.transport.port import Timeouts, Transport

TOKEN_REQUEST_TIMEOUTS = Timeouts(connect=10.0, first_byte=30.0, idle=30.0, total=60.0)
"""Time limits of a token request."""


_MAX_BODY = 256 * 1024
_logger = logging.getLogger(__name__)


class OAuthClient(Struct, frozen=True):
    """An application registered with an OAuth server.

    Attributes:
        provider: Name of the provider, for texts and for `TokenRefreshed`.
        client_id: Client ID.
        token_url: URL that issues and refreshes tokens.
        authorize_url: URL on which the user approves a login.
        device_url: URL that issues device codes, for a login without a browser on this machine.
        scope: Requested scope.
        parameters: Additional parameters of the authorize URL.
        port: Port of this machine for the redirect; 0 uses any free port.
        path: Path of the redirect.
        account: Function that extracts the account ID from the tokens.
    """

    provider: str
    client_id: str
    token_url: str
    authorize_url: str = ""
    device_url: str = ""
    scope: str = ""
    parameters: Mapping[str, str] = {}
    port: int = 0
    path: str = "/callback"
    account: Callable[[OAuthTokens], str] | None = None


async def token_request(
    client: OAuthClient,
    url: str,
    form: Mapping[str, str],
    *,
    transport: Transport | None = None,
    expected_errors: tuple[str, ...] = (),
) -> dict[str, object]:
    """Send a request to an OAuth server.

    Args:
        client: OAuth client.
        url: URL of the request.
        form: Form fields of the request.
        transport: Transport for the request.
        expected_errors: Values of ``error`` to return instead of raise, for example ``authorization_pending``.

    Raises:
        AuthenticationError: The server rejected the request.
        NetworkError: The server is unreachable or failed.
        InvalidResponseError: The response is not JSON.
    """
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    body = urlencode(form).encode()
    secrets = tuple(value for name, value in form.items() if name in ("refresh_token", "code", "code_verifier"))
    async with (transport or default_transport()).open("POST", url, headers, body, TOKEN_REQUEST_TIMEOUTS) as response:
        data = bytearray()
        async for chunk in response.chunks():
            data += chunk
            if len(data) > _MAX_BODY:
                break
    try:
        fields = as_dict(json.loads(data)) or {}
    except ValueError:
        fields = {}
    error = fields.get("error")
    if response.status < 300 and fields:
        return fields
    if isinstance(error, str) and error in expected_errors:
        return fields
    failure = classify_error(
        response.status,
        response.headers,
        bytes(data),
        provider=client.provider,
        host=host_and_port(url),
        secrets=secrets,
    )
    if 400 <= response.status < 500 and response.status not in (408, 429):
        raise AuthenticationError(
            f"{client.provider} returned no token: {failure.message}. Log in again with `mainspring login {client.provider}`.",
            reason="oauth",
            status=response.status,
            provider=client.provider,
        )
    if response.status < 400:
        raise InvalidResponseError(
            f"{host_and_port(url)} returned an unexpected response instead of a token.", provider=client.provider
        )
    raise failure


def parse_tokens(client: OAuthClient, response: Mapping[str, object], before: OAuthTokens | None = None) -> OAuthTokens:
    """Parse the tokens of a response; missing fields keep their old values.

    Raises:
        InvalidResponseError: The response contains no token.
    """
    access = response.get("access_token")
    if not isinstance(access, str) or not access:
        raise InvalidResponseError(f"The response of {client.provider} contains no token.", provider=client.provider)
    before = before or OAuthTokens("")
    lasting = as_number(response.get("expires_in"))
    refresh, id_token = response.get("refresh_token"), response.get("id_token")
    tokens = OAuthTokens(
        access,
        refresh if isinstance(refresh, str) and refresh else before.refresh,
        token_expiry(access) if lasting is None else time.time() + lasting,
        before.account,
        id_token if isinstance(id_token, str) and id_token else before.id_token,
    )
    account = client.account(tokens) if client.account else ""
    return OAuthTokens(tokens.access, tokens.refresh, tokens.expires, account or before.account, tokens.id_token)


class OAuthCredential(TokenCredential):
    """A `CredentialResolver` for the tokens of a login.

    A refresh token works only once. Therefore, the file is read again before a refresh, under a lock shared with other
    processes: tokens that another process has refreshed are used.

    Args:
        client: OAuth client.
        file: File of the tokens.
        headers: Additional headers to send with a token.
        on_refresh: Callback for each refreshed token.
        transport: Transport for token requests.
        refresh_margin: Seconds before expiry at which a token is refreshed.
        clock: Function that returns the seconds since 1970.
    """

    def __init__(
        self,
        client: OAuthClient,
        file: TokenFile,
        *,
        headers: Callable[[OAuthTokens], Mapping[str, str]] | None = None,
        on_refresh: RefreshCallback | None = None,
        transport: Transport | None = None,
        refresh_margin: float = REFRESH_MARGIN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(self._next, refresh_margin=refresh_margin, clock=clock)
        self._client = client
        self._file = file
        self._headers = headers
        self._transport = transport
        self.on_refresh: RefreshCallback | None = on_refresh

    async def _next(self, rejected_token: str | None) -> Token:
        tokens = await self._read_valid_tokens(rejected_token)
        if tokens is not None:
            return self._as_token(tokens)
        async with _token_file_lock(self._file.path):
            tokens = await self._read_valid_tokens(rejected_token)
            if tokens is None:
                tokens = await self._renewed(rejected_token)
        return self._as_token(tokens)

    async def _read_valid_tokens(self, rejected_token: str | None) -> OAuthTokens | None:
        tokens = await asyncio.to_thread(self._file.read)
        if tokens is None or tokens.access == rejected_token:
            return None
        return tokens if self._as_token(tokens).is_valid(self._clock(), self._refresh_margin) else None

    async def _renewed(self, rejected_token: str | None) -> OAuthTokens:
        client = self._client
        old = await asyncio.to_thread(self._file.read)
        if old is None:
            raise ProviderConfigError(
                f"Not logged in to {client.provider}: {self._file.path} contains no tokens. Run "
                f"`mainspring login {client.provider}` (in code: `login` of mainspring.models.auth), or set token_file to the token "
                "file of another program.",
                reason="not_logged_in",
                provider=client.provider,
            )
        if not old.refresh:
            raise AuthenticationError(
                f"The login to {client.provider} has expired and cannot be refreshed. Log in again with `mainspring login {client.provider}`.",
                reason="oauth",
                provider=client.provider,
            )
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh, "client_id": client.client_id}
        if client.scope:
            form["scope"] = client.scope
        fields = await token_request(client, client.token_url, form, transport=self._transport)
        tokens = parse_tokens(client, fields, old)
        await asyncio.to_thread(self._file.write, tokens)
        reason = "refused" if old.access == rejected_token else "expired"
        await self._notify_refresh(TokenRefreshed(client.provider, tokens.account, tokens.expires, reason))
        return tokens

    async def _notify_refresh(self, refreshed: TokenRefreshed) -> None:
        for callback in (self.on_refresh, current_listener()):
            if callback is None:
                continue
            try:
                result = callback(refreshed)
                if inspect.isawaitable(result):
                    await result
            except Exception:  # A failing listener must not discard the new token.
                _logger.exception("A listener for refreshed tokens of %s failed.", refreshed.provider)

    def _as_token(self, tokens: OAuthTokens) -> Token:
        return Token(tokens.access, tokens.expires, self._headers(tokens) if self._headers else {})


@asynccontextmanager
async def _token_file_lock(path: Path) -> AsyncGenerator[None]:
    """Lock a token file."""
    lock = path.with_name(f".{path.name}.lock")
    await asyncio.to_thread(lock.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    async with lock_file(lock, lambda: None):
        yield
