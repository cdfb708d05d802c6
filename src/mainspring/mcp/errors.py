"""From whatever the SDK, the network or a process raises to a sentence that says what happened, why, and what to do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.types import McpError
from mainspring.redaction import redact_environment

if TYPE_CHECKING:
    from mainspring.mcp.stdio_transport import ServerProcess

_LOGIN = frozenset({401, 403})
_GONE = frozenset({404, 410})
_LONGEST = 1_000


class EndpointState:
    """What is known of the other end of a connection.

    Attributes:
        config: How it is configured.
        process: Its program, where it is one of ours.
        status: The last HTTP status that was a refusal.
        session_gone: Whether it has forgotten our session.
    """

    def __init__(self, config: McpServerConfig) -> None:
        self.config = config
        self.process: ServerProcess | None = None
        self.status: int | None = None
        self.session_gone = False

    def record_refusal(self, status: int) -> None:
        """Note a refusal. That a login is wanted is not forgotten for what else is refused meanwhile."""
        if self.status not in _LOGIN:
            self.status = status

    def clear_refusals(self) -> None:
        """What was refused until now has been dealt with."""
        self.status = None

    async def exit_code(self) -> int | None:
        """How its program ended, if it did; one that is just ending gets a moment."""
        if self.process is None:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 0.2)
        return self.process.exit_code


async def to_mcp_error(error: BaseException, end: EndpointState, reason: str) -> McpError:
    """The failure that an exception stands for.

    Args:
        error: What was raised.
        end: The other end.
        reason: ``connect`` or ``lost`` where that is what was going on; else ``refused``.
    """
    found = first_error(error)
    if isinstance(found, McpError):
        return found
    name, kind = end.config.name, type(found).__name__
    text = redact_environment(str(found)[: 8 * _LONGEST].strip() or kind)[:_LONGEST]  # cut first: it may be megabytes
    if kind.startswith("OAuth") or (reason in ("connect", "refused") and end.status in _LOGIN):
        status = f" (HTTP {end.status})" if end.status in _LOGIN else f" ({text})"
        end.clear_refusals()
        return McpError(name, f"MCP server {name!r} wants a login{status}; run: mainspring mcp login {name}", "login")
    if end.session_gone:
        end.session_gone = False
        return McpError(name, f"MCP server {name!r} has forgotten this connection", "session")
    code: Any = getattr(found, "code", None)
    closed = kind == "MCPError" and (code == -32000 or "onnection closed" in text)
    if reason == "connect":
        return McpError(
            name, f"MCP server {name!r} could not be connected: {await _reason(found, text, end)}", "connect"
        )
    if reason == "lost" and end.process is None and not closed:
        return McpError(name, f"MCP server {name!r} was lost: {text}", "lost")
    if closed or reason == "lost" or kind in ("ClosedResourceError", "BrokenResourceError"):
        return McpError(name, f"MCP server {name!r} ended{await _exit(end)}", "lost")
    if isinstance(found, TimeoutError) or code == -32001:
        return McpError(name, f"MCP server {name!r} did not answer in time", "timeout")
    if kind == "ValidationError":
        text = f"its answer is not what the protocol says: {text}"
    return McpError(name, f"MCP server {name!r}: {text}", "refused")


def first_error(error: BaseException) -> BaseException:
    """The first real failure in a group."""
    while isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((e for e in inner if not isinstance(e, asyncio.CancelledError)), inner[0])
    return error


async def _reason(error: BaseException, text: str, end: EndpointState) -> str:
    if end.process is not None:
        code = await end.exit_code()
        if code is not None:
            return f"it ended at once{_code(code)}"
        return text
    url = redact_environment(end.config.url)
    if end.status is not None:
        return f"{url} answers with HTTP {end.status}; check its url, headers and transport"
    if type(error).__name__ == "MCPError":
        return text
    return f"{url} cannot be reached: {text}"


async def _exit(end: EndpointState) -> str:
    code = await end.exit_code()
    return "" if code is None else _code(code)


def _code(code: int) -> str:
    return f" (killed by signal {-code})" if code < 0 else f" (exit code {code})"
