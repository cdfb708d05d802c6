"""A server's tools as tools of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainspring.mcp.content import tool_result
from mainspring.mcp.names import tool_names
from mainspring.mcp.types import McpFailure, ToolInfo
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.mcp.server import McpServer

SOURCE = "mcp:"
"""How the source of such a tool begins; the name of its server follows."""

_CODES = {"timeout": ToolErrorCode.TIMEOUT, "login": ToolErrorCode.CONFIG_ERROR, "disabled": ToolErrorCode.CONFIG_ERROR}


def make_tools(server: McpServer, infos: Sequence[ToolInfo]) -> tuple[Tool, ...]:
    """The tools of a server, in the order of their own names."""
    names = tool_names(server.key, [i.name for i in infos])
    return tuple([_tool(server, info, names[info.name]) for info in infos])


def server_of_tool(tool: Tool) -> str | None:
    """The name of the server whose tool it is; ``None`` if it is of none."""
    return tool.source.removeprefix(SOURCE) if tool.source.startswith(SOURCE) else None


def _tool(server: McpServer, info: ToolInfo, name: str) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        def told(progress: float, total: float | None, message: str | None) -> None:
            ctx.update(_progress(progress, total, message))

        try:
            answer = await server.call(info.name, arguments, told)
        except McpFailure as failure:
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
        source=f"{SOURCE}{server.name}",
        concurrency_safe=reads,
        idempotent=again and trusted,
        access=_touches_nothing if reads and trusted else None,
    )


def _touches_nothing(arguments: Mapping[str, Any]) -> Sequence[Access]:
    return ()


def _progress(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"{share}: {message}" if message else share
