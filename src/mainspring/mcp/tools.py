"""Convert a server's tools to tools of an agent, named ``mcp__server__tool``.

The names are the same after every start, independent of the order in which servers respond; they fit the limits of all
providers and are unique.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from mainspring.lazy import lazy_re
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.content import tool_result
from mainspring.mcp.types import Answer, McpError, ProgressCallback, ToolInfo
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.tool import no_access


class ToolServer(Protocol):
    """Server whose tools an agent can call."""

    @property
    def config(self) -> McpServerConfig:
        """Configuration of the server."""
        ...

    @property
    def key(self) -> str:
        """The part of tool names that identifies the server."""
        ...

    @property
    def name(self) -> str:
        """Name of the server."""
        ...

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        on_progress: ProgressCallback | None = None,
        *,
        context: ToolContext | None = None,
    ) -> Answer:
        """Call a tool by its name on the server.

        Raises:
            McpError: The server returned no result.
        """
        ...


PREFIX = "mcp__"
_MAX_NAME_CHARS = 64
"""Characters that every provider accepts."""
_SERVER = 30
"""Maximum characters of a server's part; rules such as ``mcp__server__*`` need the whole part."""


_UNFIT = lazy_re(r"[^A-Za-z0-9_-]+")
_RUNS = lazy_re(r"__+")


def server_prefixes(servers: Iterable[str]) -> dict[str, str]:
    """Return the part of names for each server: without ``__``, and unique."""
    names = list(dict.fromkeys(servers))
    plain = {name: _RUNS.sub("_", _UNFIT.sub("_", name)).strip("_") for name in names}
    counts = Counter(plain.values())
    keys: dict[str, str] = {}
    for name, key in plain.items():
        if key != name and (not key or counts[key] > 1):
            key = f"{key[: _SERVER - 7] or 'server'}_{_short_hash(name, 6)}"
        elif len(key) > _SERVER:
            key = f"{key[: _SERVER - 7].rstrip('_')}_{_short_hash(name, 6)}"
        keys[name] = key
    return keys


def tool_names(key: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name of each tool of the server with this key, by its name on the server."""
    names = list(dict.fromkeys(tools))
    plain = {name: _UNFIT.sub("_", name) or "tool" for name in names}
    counts = Counter(plain.values())
    found: dict[str, str] = {}
    for name, clean in plain.items():
        full_name = f"{PREFIX}{key}__{clean}"
        if len(full_name) > _MAX_NAME_CHARS or (clean != name and counts[clean] > 1):
            full_name = f"{full_name[: _MAX_NAME_CHARS - 9]}_{_short_hash(name, 8)}"
        found[name] = full_name
    return found


def server_of_tool_name(name: str, keys: Mapping[str, str]) -> str | None:
    """Return the server in a tool's name; ``None`` if the name is not of a server."""
    if not name.startswith(PREFIX):
        return None
    key = name[len(PREFIX) :].partition("__")[0]
    return next((server for server, own in keys.items() if own == key), None)


def _short_hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


SOURCE_PREFIX = "mcp:"
"""Prefix of the source of such a tool; the name of its server follows."""


_CODES = {"timeout": ToolErrorCode.TIMEOUT, "login": ToolErrorCode.CONFIG_ERROR, "disabled": ToolErrorCode.CONFIG_ERROR}


def create_server_tools(server: ToolServer, infos: Sequence[ToolInfo]) -> tuple[Tool, ...]:
    """Create the tools of a server, sorted by their names on the server."""
    names = tool_names(server.key, [i.name for i in infos])
    return tuple([_tool(server, info, names[info.name]) for info in infos])


def _tool(server: ToolServer, info: ToolInfo, name: str) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        def report_progress(progress: float, total: float | None, message: str | None) -> None:
            ctx.update(_format_progress(progress, total, message))

        try:
            answer = await server.call(info.name, arguments, report_progress, context=ctx)
        except McpError as failure:
            code = _CODES.get(failure.reason, ToolErrorCode.IO_ERROR)
            details = {"server": server.name, "tool": info.name, "reason": failure.reason}
            return ToolResult(output=str(failure), metadata=details, is_error=True, code=code)
        return tool_result(answer, server.name, info.name)

    reads = info.annotations.get("readOnlyHint") is True
    trusted = server.config.trust_annotations
    again = reads or info.annotations.get("idempotentHint") is True
    return Tool(
        name=name,
        description=info.description or info.title or f"The tool {info.name} of {server.name}.",
        input_schema=info.input_schema,
        execute=execute,
        label=f"{server.name}: {info.title or info.name}",
        source=f"{SOURCE_PREFIX}{server.name}",
        concurrency_safe=reads,
        idempotent=again and trusted,
        access=no_access if reads and trusted else None,
    )


def _format_progress(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"{share}: {message}" if message else share
