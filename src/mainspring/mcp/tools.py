"""The names under which an agent knows the tools of servers: ``mcp__server__tool``.

They are the same after every start, whatever order servers answer in, fit the limits of all providers, and never stand for two.

A server's tools as tools of an agent.
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
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult


class ToolServer(Protocol):
    """A server whose tools an agent can call."""

    @property
    def config(self) -> McpServerConfig:
        """Its configuration."""
        ...

    @property
    def key(self) -> str:
        """The part of tool names that identifies the server."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: ProgressCallback | None = None
    ) -> Answer:
        """Call a tool by the name that the server knows.

        Raises:
            McpError: If the server returns no result.
        """
        ...


PREFIX = "mcp__"
MAX_NAME_CHARS = 64
"""Characters that every provider accepts."""
_SERVER = 30
"""Characters of a server's part; rules such as ``mcp__server__*`` need it whole."""


_UNFIT = lazy_re(r"[^A-Za-z0-9_-]+")
_RUNS = lazy_re(r"__+")


def server_prefixes(servers: Iterable[str]) -> dict[str, str]:
    """For each server the part of names that stands for it: no ``__`` inside, and never the same for two."""
    names = list(dict.fromkeys(servers))
    plain = {name: _RUNS.sub("_", _UNFIT.sub("_", name)).strip("_") for name in names}
    taken = Counter(plain.values())
    keys: dict[str, str] = {}
    for name, key in plain.items():
        if key != name and (not key or taken[key] > 1):
            key = f"{key[: _SERVER - 7] or 'server'}_{_short_hash(name, 6)}"
        elif len(key) > _SERVER:
            key = f"{key[: _SERVER - 7].rstrip('_')}_{_short_hash(name, 6)}"
        keys[name] = key
    return keys


def tool_names(key: str, tools: Iterable[str]) -> dict[str, str]:
    """For each tool of the server of this key its name, by its own one."""
    names = list(dict.fromkeys(tools))
    plain = {name: _UNFIT.sub("_", name) or "tool" for name in names}
    taken = Counter(plain.values())
    found: dict[str, str] = {}
    for name, clean in plain.items():
        whole = f"{PREFIX}{key}__{clean}"
        if len(whole) > MAX_NAME_CHARS or (clean != name and taken[clean] > 1):
            whole = f"{whole[: MAX_NAME_CHARS - 9]}_{_short_hash(name, 8)}"
        found[name] = whole
    return found


def server_of_tool_name(name: str, keys: Mapping[str, str]) -> str | None:
    """The server that a tool's name says it is of; ``None`` if it is of none."""
    if not name.startswith(PREFIX):
        return None
    key = name[len(PREFIX) :].partition("__")[0]
    return next((server for server, own in keys.items() if own == key), None)


def _short_hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


SOURCE_PREFIX = "mcp:"
"""How the source of such a tool begins; the name of its server follows."""


_CODES = {"timeout": ToolErrorCode.TIMEOUT, "login": ToolErrorCode.CONFIG_ERROR, "disabled": ToolErrorCode.CONFIG_ERROR}


def create_tools(server: ToolServer, infos: Sequence[ToolInfo]) -> tuple[Tool, ...]:
    """The tools of a server, in the order of their own names."""
    names = tool_names(server.key, [i.name for i in infos])
    return tuple([_tool(server, info, names[info.name]) for info in infos])


def server_of_tool(tool: Tool) -> str | None:
    """The name of the server whose tool it is; ``None`` if it is of none."""
    return tool.source.removeprefix(SOURCE_PREFIX) if tool.source.startswith(SOURCE_PREFIX) else None


def _tool(server: ToolServer, info: ToolInfo, name: str) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        def told(progress: float, total: float | None, message: str | None) -> None:
            ctx.update(_format_progress(progress, total, message))

        try:
            answer = await server.call(info.name, arguments, told)
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
        access=_no_access if reads and trusted else None,
    )


def _no_access(arguments: Mapping[str, Any]) -> Sequence[Access]:
    return ()


def _format_progress(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"{share}: {message}" if message else share
