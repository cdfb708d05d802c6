"""The tools by which a model finds and reads what servers have to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigError
from mainspring.mcp.content import NO_OUTPUT, to_model_blocks
from mainspring.mcp.types import McpError, ResourceInfo
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.mcp.plug import McpPlug

LIST_TOOL, READ_TOOL = "mcp_list_resources", "mcp_read_resource"
RESOURCE_TOOLS = (LIST_TOOL, READ_TOOL)
_MAX_LISTED = 200


def create_resource_tools(mcp: McpPlug) -> list[Tool]:
    """The two tools, for the servers of an agent."""

    async def list_resources(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        wanted = arguments.get("server") or None
        found = await mcp.resources()
        if wanted is not None and wanted not in found:
            return _error_result(
                f"there is no MCP server {wanted!r} that is ready; there are {', '.join(found) or 'none'}"
            )
        lines = [
            line
            for name, resources in found.items()
            if wanted in (None, name)
            for line in [f"{name}:", *[_line(r) for r in resources]]
            if resources
        ]
        more = [f"... {len(lines) - _MAX_LISTED} more; name a server"] if len(lines) > _MAX_LISTED else []
        return ToolResult(output="\n".join([*lines[:_MAX_LISTED], *more]) or "There are no resources.")

    async def read_resource(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        try:
            contents = await mcp.get(arguments["server"]).read_resource(arguments["uri"])
        except (McpError, ConfigError) as error:
            return _error_result(str(error))
        blocks, attachments = to_model_blocks(contents)
        details = {"server": arguments["server"], "uri": arguments["uri"]}
        return ToolResult(output=_output(blocks), metadata=details, attachments=tuple(attachments))

    return [
        Tool(
            name=LIST_TOOL,
            description="List what MCP servers have to read (resources), and templates of addresses for more.",
            input_schema={
                "type": "object",
                "properties": {"server": {"type": "string", "description": "Only this server's."}},
                "additionalProperties": False,
            },
            execute=list_resources,
            source="builtin",
            access=lambda arguments: (),
        ),
        Tool(
            name=READ_TOOL,
            description="Read a resource of an MCP server.",
            input_schema={
                "type": "object",
                "properties": {
                    "server": {"type": "string", "description": "The server's name."},
                    "uri": {"type": "string", "description": f"The address, as {LIST_TOOL} gives it."},
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            execute=read_resource,
            source="builtin",
        ),
    ]


def _line(resource: ResourceInfo) -> str:
    name = resource.title or resource.name
    kind = f" ({resource.media_type})" if resource.media_type else ""
    about = f": {resource.description}" if resource.description else ""
    return f"- {resource.uri}{' [template]' if resource.template else ''}{kind} {name}{about}".replace("\n", " ")[:500]


def _output(blocks: list[TextBlock | ImageBlock]) -> str | tuple[TextBlock | ImageBlock, ...]:
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text or NO_OUTPUT
    return tuple(blocks) or NO_OUTPUT


def _error_result(text: str) -> ToolResult:
    return ToolResult(output=text, is_error=True, code=ToolErrorCode.NOT_FOUND)
