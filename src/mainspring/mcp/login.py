"""Logging in at a server: the user's browser, and a callback on this machine."""

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
from mainspring.mcp.errors import EndpointState, to_mcp_error
from mainspring.mcp.oauth import LoginFile, StoredLogin, callback_url, create_oauth_provider
from mainspring.mcp.sdk import load_sdk
from mainspring.mcp.types import McpError
from mainspring.text import escape_invisible

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

_LOGIN_TIMEOUT = 300.0
"""How long the user may take."""

ShowUrl = Callable[[str], Awaitable[None] | None]
"""Shows the address of the login page."""

_LONGEST_REQUEST = 16 << 10


async def login_mcp(
    config: McpServerConfig,
    tokens: Path,
    *,
    show: ShowUrl,
    environ: Mapping[str, str] | None = None,
    browser: bool = True,
    seconds: float = _LOGIN_TIMEOUT,
) -> bool:
    """Log in at a server. What it gives is kept for later runs.

    Args:
        config: The server.
        tokens: The folder of logins.
        show: Shows the page's address, since not every machine has a browser.
        environ: Variables for ``${VAR}`` in the configuration; none are put in where this is not given.
        browser: Whether the page is opened too.
        seconds: How long the user may take.

    Returns:
        Whether the server wanted a login at all.

    Raises:
        ConfigError: If the server is a program, or has a login of its own in its headers, or the SDK is not installed.
        McpFailure: If it cannot be reached, or nobody logged in.
    """
    _check_supported(config)
    await asyncio.to_thread(load_sdk)
    config = expand_config(config, environ) if environ is not None else config
    file = LoginFile(tokens, config)
    kept = await asyncio.to_thread(file.read)
    async with _CallbackServer.listening(kept.port) as callback:
        await asyncio.to_thread(_reset_stale, file, kept, callback.port)

        async def wait() -> AuthorizationCodeResult:
            try:
                return await asyncio.wait_for(callback.wait_for_code(), seconds)
            except TimeoutError:
                raise McpError(config.name, f"nobody logged in within {seconds:g} seconds", "login") from None

        login = create_oauth_provider(
            config, file, callback.port, redirect_handler=_url_handler(show, browser, callback), callback_handler=wait
        )
        end = EndpointState(config)
        try:
            await _trigger_login(config, login)
        except Exception as error:
            raise await to_mcp_error(error, end, "refused") from error
        found = login.context.oauth_metadata
        known = {"metadata": found.model_dump(mode="json", exclude_none=True)} if found is not None else {}
        await asyncio.to_thread(file.update, wanted="", **known)
    return login.context.current_tokens is not None


def _reset_stale(file: LoginFile, login: StoredLogin, port: int) -> None:
    """Forget what does not hold for this login."""
    if port != login.port:  # what is registered names another port
        file.update(client={}, port=port)
    if login.wanted:  # the login that is kept was not enough
        file.update(tokens={}, expires=None)


def _check_supported(config: McpServerConfig) -> None:
    if config.transport == "stdio":
        raise ConfigError(f"MCP server {config.name!r} is a program: it has no login; give it what it needs in env")
    if any(name.lower() == "authorization" for name in config.headers):
        raise ConfigError(f"MCP server {config.name!r} has an Authorization header; remove that to log in")


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
    """Forget the login at a server. Says whether there was one."""
    return await asyncio.to_thread(LoginFile(tokens, config).remove)


async def _trigger_login(config: McpServerConfig, login: Any) -> None:
    """Make a request that the server answers with a demand for a login, if it has any."""
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
            await server.list_tools()  # some greet everybody, and ask who it is only then


class _CallbackServer:
    """Waits on this machine for the browser to come back.

    Attributes:
        port: Where.
        state: What shows that an answer belongs to the login that was begun last; empty before that.
        result: What it brought.
    """

    def __init__(self) -> None:
        self.port = 0
        self.state = ""
        self.result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int) -> AsyncGenerator[_CallbackServer]:
        """Listen, on the port that is registered if it is free."""
        self = cls()
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_LONGEST_REQUEST)
        except OSError:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST_REQUEST)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            if self.result.done() and not self.result.cancelled():
                self.result.exception()  # nobody may have waited for it
            self.result.cancel()

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """What the browser brings next: a server that moved its login asks twice."""
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
            pass  # whatever that was, it was not the browser
        finally:
            writer.close()

    def _respond(self, head: bytes) -> tuple[str, str]:
        from mcp.shared.auth import AuthorizationCodeResult

        method, _, rest = head.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != urlsplit(callback_url(self.port)).path:
            return "404 Not Found", "There is nothing here."
        found = {name: values[0] for name, values in parse_qs(target.query).items()}
        if not self.state or not secrets.compare_digest(found.get("state", "").encode(), self.state.encode()):
            return "400 Bad Request", "This redirect belongs to another login."
        if self.result.done():
            return "410 Gone", "This login is over already."
        if "error" in found:
            reason = f"{found['error']}: {found.get('error_description', 'no reason given')}"
            self.result.set_exception(
                McpError("", f"the login was refused: {escape_invisible(reason, limit=300)}", "login")
            )
            return "200 OK", "The login was refused. You can close this page."
        if "code" not in found:
            return "400 Bad Request", "This is not the answer of a login."
        self.result.set_result(
            AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
        )
        return "200 OK", "You are logged in. You can close this page."
