"""Log in to a server with the user's browser and a callback on this machine."""

from __future__ import annotations

import asyncio
import html
import inspect
import secrets
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mainspring.errors import ConfigError
from mainspring.mcp.config import McpServerConfig, expand_config
from mainspring.mcp.errors import EndpointState, first_error, to_mcp_error
from mainspring.mcp.oauth import LoginFile, StoredLogin, callback_url, create_oauth_provider
from mainspring.mcp.sdk import load_sdk
from mainspring.mcp.types import McpError
from mainspring.redaction import redact_environment
from mainspring.text import escape_invisible

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

_LOGIN_TIMEOUT = 300.0
"""Maximum seconds for the user to log in."""

ShowUrl = Callable[[str], Awaitable[None] | None]
"""Function that shows the URL of the login page."""

_MAX_REQUEST_BYTES = 16 << 10


async def login_mcp(
    config: McpServerConfig,
    tokens: Path,
    *,
    show: ShowUrl,
    environ: Mapping[str, str] | None = None,
    browser: bool = True,
    seconds: float = _LOGIN_TIMEOUT,
) -> bool:
    """Log in to a server, and store the login for later runs.

    Args:
        config: Configuration of the server.
        tokens: Folder of logins.
        show: Function that shows the URL of the login page, since not every machine has a browser.
        environ: Variables for ``${VAR}`` in the configuration; without it, they are not expanded.
        browser: Whether to open the page in a browser.
        seconds: Maximum seconds for the user to log in.

    Returns:
        Whether the server required a login.

    Raises:
        ConfigError: The server is a program or has an Authorization header, or the SDK is not installed.
        McpError: The server cannot be reached, or the login timed out.
    """
    _check_supported(config)
    await asyncio.to_thread(load_sdk)
    config = expand_config(config, environ) if environ is not None else config
    file = LoginFile(tokens, config)
    stored = await asyncio.to_thread(file.read)
    async with _CallbackServer.listening(stored.port) as callback:
        await asyncio.to_thread(_reset_stale, file, stored, callback.port)

        async def wait() -> AuthorizationCodeResult:
            try:
                return await asyncio.wait_for(callback.wait_for_code(), seconds)
            except TimeoutError:
                raise McpError(
                    config.name, f"Login timed out after {seconds:g} seconds. Run the login again.", "login"
                ) from None

        login = create_oauth_provider(
            config, file, callback.port, redirect_handler=_url_handler(show, browser, callback), callback_handler=wait
        )
        end = EndpointState(config)
        try:
            await _trigger_login(config, login)
        except Exception as error:
            raise await _login_error(error, end) from error
        found = login.context.oauth_metadata
        known = {"metadata": found.model_dump(mode="json", exclude_none=True)} if found is not None else {}
        await asyncio.to_thread(file.update, wanted="", **known)
    return login.context.current_tokens is not None


async def _login_error(error: Exception, end: EndpointState) -> McpError:
    """Convert an exception of a login, whose advice cannot be to log in."""
    found, name = first_error(error), end.config.name
    kind = type(found).__name__
    if not kind.startswith("OAuth"):
        return await to_mcp_error(error, end, "refused")
    text = escape_invisible(redact_environment(str(found)), limit=500)
    fix = ""
    if kind == "OAuthRegistrationError" and not end.config.client_id:
        fix = ". Register a client at the server by hand, and set its ID: clientId in the configuration of the server"
    return McpError(name, f"Login to MCP server {name!r} failed: {text.rstrip(' .')}{fix}", "login")


def _reset_stale(file: LoginFile, login: StoredLogin, port: int) -> None:
    """Remove stored data that does not fit this login."""
    if port != login.port:  # the registration contains another port
        file.update(client={}, port=port)
    if login.wanted:  # the stored login has too few scopes
        file.update(tokens={}, expires=None)


def _check_supported(config: McpServerConfig) -> None:
    if config.transport == "stdio":
        raise ConfigError(f"MCP server {config.name!r} is a program, which has no login. Set its credentials in env.")
    if any(name.lower() == "authorization" for name in config.headers):
        raise ConfigError(f"MCP server {config.name!r} has an Authorization header. Remove the header to log in.")


def _url_handler(show: ShowUrl, browser: bool, callback: _CallbackServer) -> Callable[[str], Awaitable[None]]:
    async def redirect(url: str) -> None:
        callback.state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        shown = show(url)
        if inspect.isawaitable(shown):
            await shown
        if browser:
            await asyncio.to_thread(webbrowser.open, url)

    return redirect


async def logout_mcp(config: McpServerConfig, tokens: Path) -> bool:
    """Delete the login at a server. Return True if a login was stored."""
    return await asyncio.to_thread(LoginFile(tokens, config).remove)


async def _trigger_login(config: McpServerConfig, login: Any) -> None:
    """Send a request that makes the server require a login, if it has one."""
    import httpx2
    from mcp import Client
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if config.transport == "sse":
        async with Client(
            sse_client(config.url, headers=dict(config.headers), auth=login), mode=config.mode, cache=None
        ) as server:
            await server.list_tools()
        return
    async with httpx2.AsyncClient(headers=dict(config.headers), timeout=config.connect_timeout, auth=login) as client:
        streams = streamable_http_client(config.url, http_client=client)
        async with Client(streams, mode=config.mode, cache=None) as server:
            await (
                server.list_tools()
            )  # some servers accept the connection from any client, and require the login only now


class _CallbackServer:
    """Local server that waits for the browser's callback.

    Attributes:
        port: Port of the server.
        state: State parameter of the most recent login; empty before a login.
        result: Result of the callback.
    """

    def __init__(self) -> None:
        self.port = 0
        self.state = ""
        self.result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int) -> AsyncGenerator[_CallbackServer]:
        """Listen, on the registered port if it is free."""
        self = cls()
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_REQUEST_BYTES)
        except OSError:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MAX_REQUEST_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            if self.result.done() and not self.result.cancelled():
                self.result.exception()  # the result may never have been awaited
            self.result.cancel()

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """Return the next result of the browser: a server that moved its login needs two callbacks."""
        try:
            return await asyncio.shield(self.result)
        finally:
            if self.result.done():
                self.result = asyncio.get_running_loop().create_future()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._respond(head)
            page = f"<!doctype html><meta charset=utf-8><title>Mainspring</title><p>{html.escape(text)}</p>".encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
                "Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
                + page
            )
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a request of the browser
        finally:
            writer.close()

    def _respond(self, head: bytes) -> tuple[str, str]:
        from mcp.shared.auth import AuthorizationCodeResult

        method, _, rest = head.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != urlsplit(callback_url(self.port)).path:
            return "404 Not Found", "Page not found."
        found = {name: values[0] for name, values in parse_qs(target.query).items()}
        if not self.state or not secrets.compare_digest(found.get("state", "").encode(), self.state.encode()):
            return "400 Bad Request", "This response belongs to another login."
        if self.result.done():
            return "410 Gone", "This login has already ended."
        if "error" in found:
            reason = f"{found['error']}: {found.get('error_description', 'no reason given')}"
            self.result.set_exception(
                McpError("", f"the server denied the login: {escape_invisible(reason, limit=300)}", "login")
            )
            return "200 OK", "The login was denied. You can close this page."
        if "code" not in found:
            return "400 Bad Request", "This is not a login response."
        self.result.set_result(
            AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
        )
        return "200 OK", "You are logged in. You can close this page."
