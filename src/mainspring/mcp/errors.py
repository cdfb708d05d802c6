"""Convert exceptions of the SDK, the network, or a process to an `McpError` with the reason and the fix."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.types import McpError
from mainspring.redaction import redact_environment

if TYPE_CHECKING:
    from mainspring.mcp.stdio_transport import ServerProcess

_LOGIN = frozenset({401, 403})
_MAX_CHARS = 1_000
_HTTP_ERROR = "Server returned an error response"
_UNREADABLE = "Failed to parse JSON response"
"""Texts of the SDK for an HTTP error, whose status it drops, and for an invalid message."""


class EndpointState:
    """State of the other end of a connection.

    Attributes:
        config: Configuration of the server.
        process: Process of a program on this machine.
        status: Last HTTP error status.
        status_text: Text of that response; empty if it has none.
        session_gone: Whether the server no longer knows the session.
        initialized: Set when the server has answered the notification after the handshake; over HTTP only.
        refusal: Text of this answer if it refuses the protocol version.
        version_refused: Whether the server may have refused the protocol version in the handshake, instead of offering its own.
    """

    def __init__(self, config: McpServerConfig) -> None:
        self.config = config
        self.process: ServerProcess | None = None
        self.status: int | None = None
        self.status_text = ""
        self.session_gone = False
        self.initialized = asyncio.Event()
        self.refusal = ""
        self.version_refused = False

    def record_refusal(self, status: int, text: str = "") -> None:
        """Record an HTTP error. A required login has priority over later errors."""
        if self.status not in _LOGIN:
            self.status, self.status_text = status, text

    def clear_refusals(self) -> None:
        """Clear the recorded error after it was handled."""
        self.status = None

    def record_handshake(self, error: BaseException) -> None:
        """Record an error of the handshake."""
        if self.refusal:
            self.status, self.status_text = 400, self.refusal
        text = str(first_error(error)) if self.status is None else self.status_text
        self.version_refused = type(first_error(error)).__name__ == "MCPError" and (
            "version" in text.lower() or (self.status == 400 and not text)
        )

    async def exit_code(self) -> int | None:
        """Return the exit code of a program that ended before the client closed it; wait a moment for a program that is ending."""
        if self.process is None or self.process.ended_by_client:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 0.2)
        return self.process.exit_code


async def to_mcp_error(error: BaseException, end: EndpointState, reason: str) -> McpError:
    """Convert an exception to an `McpError`.

    Args:
        error: The exception.
        end: State of the other end.
        reason: ``connect`` or ``lost`` during these phases; else ``refused``.
    """
    found = first_error(error)
    if isinstance(found, McpError):
        return found
    name, kind = end.config.name, type(found).__name__
    text = redact_environment(str(found)[: 8 * _MAX_CHARS].strip() or kind)[
        :_MAX_CHARS
    ]  # cut first: the text may have megabytes
    if kind.startswith("OAuth") or (reason in ("connect", "refused") and end.status in _LOGIN):
        status = f" (HTTP {end.status})" if end.status in _LOGIN else f" ({text})"
        end.clear_refusals()
        return McpError(
            name,
            f"MCP server {name!r} requires a login{status}. Run: mainspring mcp login {shlex.quote(name)}",
            "login",
        )
    code: Any = getattr(found, "code", None)
    # The SDK uses the code -32001 for timeouts, servers use it for lost sessions.
    if end.session_gone or (code == -32001 and "session" in text.lower()):
        end.session_gone = False
        return McpError(name, f"MCP server {name!r} no longer recognizes this session", "session")
    closed = kind == "MCPError" and "onnection closed" in text  # Servers use the same code for any error.
    if reason == "connect":
        return McpError(name, f"Cannot connect to MCP server {name!r}: {await _reason(found, text, end)}", "connect")
    if reason == "lost" and end.process is None and not closed:
        return McpError(name, f"Lost the connection to MCP server {name!r}: {text}", "lost")
    if closed or reason == "lost" or kind in ("ClosedResourceError", "BrokenResourceError"):
        return McpError(name, f"MCP server {name!r} ended{await _exit(end)}", "lost")
    if isinstance(found, TimeoutError) or code == -32001:
        return McpError(name, f"MCP server {name!r} did not respond in time", "timeout")
    if kind == "ValidationError" or text.startswith(_UNREADABLE):
        text = f"the response violates the protocol: {text}"
    elif text == _HTTP_ERROR and end.status is not None:
        text = _describe_refusal(end)
        end.clear_refusals()
    return McpError(name, f"MCP server {name!r}: {text}", "refused")


def first_error(error: BaseException) -> BaseException:
    """Return the first exception of a group that is not a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((e for e in inner if not isinstance(e, asyncio.CancelledError)), inner[0])
    return error


async def _reason(error: BaseException, text: str, end: EndpointState) -> str:
    if end.process is not None:
        code = await end.exit_code()
        if code is not None:
            return f"the program exited immediately{_code(code)}"
        return text
    url = redact_environment(end.config.url)
    if end.status is not None:
        return f"{url} {_describe_refusal(end)}. Check the url, headers, and transport."
    if type(error).__name__ == "MCPError":
        return text
    return f"cannot reach {url}: {text}"


def _describe_refusal(end: EndpointState) -> str:
    text = redact_environment(end.status_text)[:_MAX_CHARS]
    return f"returned HTTP {end.status}{f' ({text})' if text else ''}"


async def _exit(end: EndpointState) -> str:
    code = await end.exit_code()
    return "" if code is None else _code(code)


def _code(code: int) -> str:
    return f" (killed by signal {-code})" if code < 0 else f" (exit code {code})"
