"""Login flows: in a browser that redirects to this machine, or with a code that the user enters on another device."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qs, urlencode, urlsplit

from mainspring.errors import AuthenticationError, ModelTimeoutError, ProviderConfigError
from mainspring.models.auth.oauth import OAuthClient, parse_tokens, token_request
from mainspring.models.auth.tokens import OAuthTokens, TokenFile
from mainspring.models.json_values import as_number
from mainspring.models.transport.port import Transport
from mainspring.text import escape_invisible

_LOGIN_TIMEOUT = 300.0
"""Time limit in seconds for the user to approve a login."""

_PENDING_ERRORS = ("authorization_pending", "slow_down")
_MAX_HEAD = 16 * 1024


async def login(
    client: OAuthClient,
    file: TokenFile,
    show: Callable[[str], object],
    *,
    timeout: float = _LOGIN_TIMEOUT,
    transport: Transport | None = None,
) -> OAuthTokens:
    """Log in with a browser, and save the tokens.

    The server redirects the browser to a port of this machine with a code. ``state`` ties the response to this login, and PKCE
    makes the code useless to any other client.

    Args:
        client: OAuth client.
        file: File for the tokens.
        show: Function that receives the URL to open; it may open a browser or print the URL.
        timeout: Time limit in seconds.
        transport: Transport for the token request.

    Raises:
        AuthenticationError: The user or the server rejected the login.
        ModelTimeoutError: The login timed out.
        ProviderConfigError: The port is in use, or the tokens cannot be saved.
    """
    verifier = secrets.token_urlsafe(64)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    state = secrets.token_urlsafe(24)
    async with _callback_server(client, state) as (port, code):
        redirect = f"http://localhost:{port}{client.path}"
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect,
            "scope": client.scope,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": state,
            **client.parameters,
        }
        show(f"{client.authorize_url}?{urlencode(query)}")
        given = await _wait_for_code(timeout, code, client)
    form = {
        "grant_type": "authorization_code",
        "client_id": client.client_id,
        "code": given,
        "redirect_uri": redirect,
        "code_verifier": verifier,
    }
    return await _save_tokens(client, file, await token_request(client, client.token_url, form, transport=transport))


async def device_login(
    client: OAuthClient,
    file: TokenFile,
    show: Callable[[str, str], object],
    *,
    timeout: float = _LOGIN_TIMEOUT,
    transport: Transport | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> OAuthTokens:
    """Log in on another device, and save the tokens: the user opens a URL there and enters a code.

    Args:
        client: OAuth client.
        file: File for the tokens.
        show: Function that receives the URL and the code.
        timeout: Time limit in seconds.
        transport: Transport for the requests.
        sleep: Function that waits between two polls.

    Raises:
        AuthenticationError: The user or the server rejected the login.
        ModelTimeoutError: The login timed out.
        ProviderConfigError: The tokens cannot be saved.
    """
    started = await token_request(
        client, client.device_url, {"client_id": client.client_id, "scope": client.scope}, transport=transport
    )
    device, code = str(started.get("device_code") or ""), str(started.get("user_code") or "")
    address = str(started.get("verification_uri_complete") or started.get("verification_uri") or "")
    if not (device and code and address):
        raise AuthenticationError(f"{client.provider} did not start the device login.", provider=client.provider)
    show(address, code)
    pause = as_number(started.get("interval")) or 5.0
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": device,
        "client_id": client.client_id,
    }
    waited = 0.0
    while waited < timeout:
        await sleep(pause)
        waited += pause
        fields = await token_request(
            client, client.token_url, form, transport=transport, expected_errors=_PENDING_ERRORS
        )
        if fields.get("error") == "slow_down":
            pause += 5.0
        elif "access_token" in fields:
            return await _save_tokens(client, file, fields)
    raise _login_timeout_error(client)


async def _save_tokens(client: OAuthClient, file: TokenFile, response: dict[str, object]) -> OAuthTokens:
    tokens = parse_tokens(client, response)
    await asyncio.to_thread(file.write, tokens)
    return tokens


async def _wait_for_code(timeout_seconds: float, code: asyncio.Future[str], client: OAuthClient) -> str:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await code
    except TimeoutError:
        raise _login_timeout_error(client) from None


def _login_timeout_error(client: OAuthClient) -> ModelTimeoutError:
    return ModelTimeoutError(
        f"Login to {client.provider} timed out. Run the login again and approve it in the browser.",
        provider=client.provider,
    )


@asynccontextmanager
async def _callback_server(client: OAuthClient, state: str) -> AsyncGenerator[tuple[int, asyncio.Future[str]]]:
    """Start a server on loopback that waits for the redirect of the browser with the code."""
    code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n"))[:_MAX_HEAD].decode("latin-1")
            status, text = _handle_redirect(head, client, state, code)
            body = f"<!doctype html><meta charset=utf-8><title>Login</title><p>{escape(text)}".encode()
            lines = [f"HTTP/1.1 {status}", "content-type: text/html; charset=utf-8", f"content-length: {len(body)}"]
            writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            await writer.drain()
        except (ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The browser disconnected, or sent an invalid request; the user can try again.
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(handle, "127.0.0.1", client.port, limit=_MAX_HEAD)
    except OSError as error:
        raise ProviderConfigError(
            f"Port {client.port} is in use. {client.provider} redirects the browser to it after login. Close the other "
            "login and try again.",
            reason="port_taken",
            provider=client.provider,
        ) from error
    try:
        yield server.sockets[0].getsockname()[1], code
    finally:
        server.close()
        code.cancel()


def _handle_redirect(head: str, client: OAuthClient, state: str, code: asyncio.Future[str]) -> tuple[str, str]:
    """Check a request of the browser; return the status and the text of the page for it."""
    target = urlsplit((head.split(" ", 2) + ["", ""])[1])
    if target.path != client.path:
        return "404 Not Found", "Page not found."
    fields = {name: values[0] for name, values in parse_qs(target.query).items()}
    if not secrets.compare_digest(fields.get("state", "").encode(), state.encode()):
        return "400 Bad Request", "This redirect belongs to another login."
    if "code" in fields:
        if not code.done():
            code.set_result(fields["code"])
        return "200 OK", "You are logged in. You can close this page."
    reason = escape_invisible(fields.get("error_description") or fields.get("error") or "no reason", limit=300)
    if not code.done():
        code.set_exception(
            AuthenticationError(f"{client.provider} rejected the login: {reason}", provider=client.provider)
        )
    return "200 OK", f"Login rejected: {reason}"
