"""Logins at servers: their storage, and how requests use them.

The SDK implements the OAuth flow.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.mcp.config import McpServerConfig
from mainspring.state_files import write_text_atomically

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


async def needs_new_login(context: OAuthContext, file: LoginFile, response: httpx2.Response) -> bool:
    """Return True if a new login is required, which needs a user; the response is then final.

    Missing scopes are stored.
    """
    from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

    if response.status_code == 401:
        return not context.can_refresh_token()
    if response.status_code != 403 or extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return False
    stored = await asyncio.to_thread(file.read)
    scopes = f"{stored.tokens.get('scope') or ''} {extract_scope_from_www_auth(response) or ''}"
    await asyncio.to_thread(file.update, wanted=scopes.strip())
    return True


async def set_requested_scopes(context: OAuthContext, config: McpServerConfig, file: LoginFile) -> None:
    """Request the configured scopes, otherwise those that the server names, and the scopes that the last login lacked."""
    stored = await asyncio.to_thread(file.read)
    request = config.scope or context.client_metadata.scope
    context.client_metadata.scope = " ".join(dict.fromkeys(f"{request or ''} {stored.wanted}".split())) or None


def expire_sent_token(context: OAuthContext, request: httpx2.Request) -> None:
    """Let a token be refreshed if it is still the one of a rejected request."""
    tokens = context.current_tokens
    if tokens is not None and request.headers.get("Authorization") == f"Bearer {tokens.access_token}":
        context.token_expiry_time = 1.0


class Issuer(str):
    """An issuer, equal to itself with a slash at its end: the two documents of many servers differ in it, and both name one URL."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.rstrip("/") == other.rstrip("/")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.rstrip("/"))


def set_client_secret_method(context: OAuthContext, config: McpServerConfig) -> None:
    """Send a configured secret in the way that the server supports; in a header by default."""
    found, info = context.oauth_metadata, context.client_info
    if config.client_secret and info is not None:
        methods = (found and found.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        way = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        context.client_info = info.model_copy(update={"token_endpoint_auth_method": way})


async def repair_token_response(response: httpx2.Response) -> httpx2.Response:
    """Return a successful response of a token endpoint in the form that the SDK requires; any other response unchanged.

    Servers write numbers as text or fractions, scopes as lists or with commas, and tokens in form encoding or in an inner object.
    """
    import httpx2

    if not response.is_success:
        return response
    content = await response.aread()
    try:
        decoded = msgspec.json.decode(content)
    except msgspec.DecodeError:
        is_page = content.lstrip().startswith(b"<")
        decoded = {} if is_page else dict(parse_qsl(content.decode("utf-8", "replace")))
    outer = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    is_error = bool(outer.get("error") or outer.get("errors"))  # It may name the field access_token.
    objects = [outer, *(cast("dict[str, Any]", value) for value in outer.values() if isinstance(value, dict))]
    fields = next((each for each in objects if each.get("access_token")), None)
    if fields is None or is_error:
        return httpx2.Response(400 if is_error else response.status_code, content=content)
    scope: Any = fields.get("scope")
    words = [str(each) for each in cast("list[Any]", scope)] if isinstance(scope, list) else [str(scope or "")]
    tokens = {
        "access_token": fields["access_token"],
        "token_type": fields.get("token_type") or "Bearer",
        "expires_in": _to_lifetime(fields.get("expires_in")),
        "scope": " ".join(" ".join(words).replace(",", " ").split()) or None,
        "refresh_token": fields.get("refresh_token") or None,
    }
    return httpx2.Response(200, content=msgspec.json.encode(tokens))


async def retry_without_resource(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response],
) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
    """Repeat a refused refresh of a token without the parameter ``resource``, which some servers reject as unknown."""
    import httpx2

    async with _closing_flow(flow):
        sent = await anext(flow, None)
        while sent is not None:
            response = yield sent
            is_form = sent.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
            if is_form and response.status_code == 400 and b"grant_type=refresh_token" in sent.content:
                fields = parse_qsl(sent.content.decode())
                rest = {name: value for name, value in fields if name != "resource"}
                if len(rest) < len(fields) and b"invalid_grant" not in await response.aread():
                    headers = {name: value for name, value in sent.headers.items() if name != "content-length"}
                    response = yield httpx2.Request(sent.method, sent.url, headers=headers, data=rest)
            if is_form and b"grant_type=" in sent.content:
                response = await repair_token_response(response)
            sent = await _send(flow, response)


def _to_lifetime(value: Any) -> int | None:
    """Return a lifetime in seconds; None if unknown: such a token is used until the server rejects it."""
    try:
        return int(float(value)) or None
    except (TypeError, ValueError, OverflowError):
        return None


def select_issuer(self: object, advertised: list[str]) -> str:
    """Return the first of the authorization servers that an endpoint names."""
    return Issuer(advertised[0])


_REFRESH_MARGIN_SECONDS = 60.0
"""Seconds before its expiry at which a token is refreshed."""


class StoredLogin(Struct, frozen=True, omit_defaults=True):
    """A stored login.

    Attributes:
        url: URL of the server.
        tokens: Tokens of the login.
        expires: Expiry of the access token, in seconds since 1970.
        client: Client registration; without it, each run would register again.
        metadata: OAuth metadata with the URL for refreshing tokens.
        port: Registered port of the callback.
        wanted: Space-separated scopes of a rejected request, for the next login.
    """

    url: str = ""
    tokens: dict[str, Any] = {}
    expires: float | None = None
    client: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    port: int = 0
    wanted: str = ""

    def __repr__(self) -> str:
        return f"<StoredLogin {self.url} expires={self.expires}>"


class LoginFile:
    """The login at a server, in a file that only its owner can read.

    Args:
        folder: Folder of logins.
        config: Configuration of the server; its URL identifies the login, since names change.
    """

    def __init__(self, folder: Path, config: McpServerConfig) -> None:
        key = hashlib.sha256(f"{config.url}\n{config.client_id}".encode()).hexdigest()[:20]
        self.path = folder / f"{key}.json"
        self._config = config

    def read(self) -> StoredLogin:
        """Return the stored login; empty if the file is missing or unreadable. Blocks."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=StoredLogin)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return StoredLogin()

    def update(self, **fields: Any) -> None:
        """Update the stored login. Blocks."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = replace(self.read(), url=self._config.url, **fields)
        write_text_atomically(self.path, msgspec.json.format(msgspec.json.encode(new)).decode() + "\n")

    def remove(self) -> bool:
        """Delete the stored login. Return True if it existed. Blocks."""
        known = self.path.exists()
        self.path.unlink(missing_ok=True)
        return known

    # --- storage interface of the SDK -------------------------------------------------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        from mcp.shared.auth import OAuthToken

        stored = await asyncio.to_thread(self.read)
        return OAuthToken.model_validate(stored.tokens) if stored.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        given = tokens.model_dump(mode="json", exclude_none=True)
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await asyncio.to_thread(self.update, tokens=given, expires=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client registration, or the configured client."""
        from mcp.shared.auth import OAuthClientInformationFull

        stored = await asyncio.to_thread(self.read)
        if self._config.client_id:
            port = stored.port or 0
            return OAuthClientInformationFull.model_validate(
                {
                    "client_id": self._config.client_id,
                    "client_secret": self._config.client_secret or None,
                    "redirect_uris": [callback_url(port)],
                    "token_endpoint_auth_method": "client_secret_post" if self._config.client_secret else "none",
                }
            )
        return OAuthClientInformationFull.model_validate(stored.client) if stored.client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the client registration."""
        given = client_info.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self.update, client=given)


def logins_path(home: Path) -> Path:
    """Return the folder of logins in the user's folder."""
    return home / "mcp" / "logins"


def callback_url(port: int) -> str:
    """Return the URL of the browser's callback."""
    return f"http://127.0.0.1:{port}/callback"


def load_auth(config: McpServerConfig, folder: Path | None) -> httpx2.Auth | None:
    """Return the authentication for requests with a stored login; ``None`` if no login is stored.

    Blocks.
    """
    own = any(name.lower() == "authorization" for name in config.headers)
    if folder is None or own or config.auth == "none":
        return None
    file = LoginFile(folder, config)
    return create_oauth_provider(config, file, file.read().port) if file.read().tokens else None


def create_oauth_provider(config: McpServerConfig, file: LoginFile, port: int, **handlers: Any) -> OAuthClientProvider:
    """Create the SDK's OAuth provider with a file that other processes share.

    Args:
        config: Configuration of the server.
        file: File of the login.
        port: Port of the callback.
        **handlers: Further options of the provider: the handlers that show the page and wait for the callback.
    """
    from mcp.shared.auth import OAuthClientMetadata

    metadata: dict[str, Any] = {
        "client_name": "mainspring",
        "redirect_uris": [callback_url(port)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_post" if config.client_secret else "none",
        "scope": config.scope or None,
    }
    provider = _provider_class()(config.url, OAuthClientMetadata.model_validate(metadata), file, **handlers)
    provider.file, provider.config, provider.alone = file, config, not handlers
    return provider


def _provider_class() -> Any:
    """Return a subclass of the SDK's provider; created on demand, since the SDK is imported lazily."""
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthMetadata

    class Shared(OAuthClientProvider):
        """Provider that reads the file before each request, refreshes under a lock, and retries a rejected request once."""

        file: LoginFile
        config: McpServerConfig
        alone: bool
        _select_authorization_server = select_issuer

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            await self._reload()
            is_refresh_due = not self.context.is_token_valid() and self.context.can_refresh_token()
            rejected = False
            async with _refresh_lock(self.file, is_refresh_due):
                if is_refresh_due:
                    await self._reload()
                async with _closing_flow(retry_without_resource(super().async_auth_flow(request))) as flow:
                    sent = first = await anext(flow, None)
                    while sent is not None and not rejected:
                        response = yield sent
                        if sent is first and self.alone and await needs_new_login(self.context, self.file, response):
                            return
                        rejected = (
                            sent is first
                            and response.status_code == 401
                            and not is_refresh_due
                            and self.context.can_refresh_token()
                        )
                        sent = None if rejected else await _send(flow, response)
            if rejected:  # The token was revoked before its expiry: refresh it unless another client has, and repeat.
                async with _refresh_lock(self.file, True):
                    await self._reload()
                    expire_sent_token(self.context, request)
                    async with _closing_flow(retry_without_resource(super().async_auth_flow(request))) as flow:
                        sent = await anext(flow, None)
                        while sent is not None:
                            sent = await _send(flow, (yield sent))

        async def _perform_authorization(self) -> httpx2.Request:
            await set_requested_scopes(self.context, self.config, self.file)
            return await super()._perform_authorization()

        async def _exchange_token_authorization_code(self, auth_code: str, code_verifier: str) -> httpx2.Request:
            set_client_secret_method(self.context, self.config)
            return await super()._exchange_token_authorization_code(auth_code, code_verifier)

        async def _refresh_token(self) -> httpx2.Request:
            set_client_secret_method(self.context, self.config)
            return await super()._refresh_token()

        async def _reload(self) -> None:
            stored = await asyncio.to_thread(self.file.read)
            context = self.context
            context.current_tokens = await self.file.get_tokens()
            context.client_info = context.client_info or await self.file.get_client_info()
            if stored.metadata and context.oauth_metadata is None:
                context.oauth_metadata = OAuthMetadata.model_validate(stored.metadata)
            context.token_expiry_time = None if stored.expires is None else stored.expires - _REFRESH_MARGIN_SECONDS
            self._initialized = True

    return Shared


@asynccontextmanager
async def _closing_flow(flow: AsyncGenerator[Any, Any]) -> AsyncGenerator[AsyncGenerator[Any, Any]]:
    try:
        yield flow
    finally:
        await flow.aclose()


async def _send(flow: AsyncGenerator[Any, Any], response: httpx2.Response) -> Any:
    try:
        return await flow.asend(response)
    except StopAsyncIteration:
        return None


@asynccontextmanager
async def _refresh_lock(file: LoginFile, is_due: bool) -> AsyncGenerator[None]:
    """Block other processes while a token is refreshed: a refresh token can often be used only once."""
    if not is_due:
        yield
        return
    file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = lock_directory(file.path.parent)
    try:
        await asyncio.to_thread(lock.__enter__)
    except LockTimeoutError:  # the lock's owner hangs; a second refresh is better than none
        yield
        return
    try:
        yield
    finally:
        await asyncio.to_thread(lock.__exit__, None, None, None)
