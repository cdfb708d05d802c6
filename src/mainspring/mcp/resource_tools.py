"""The tools that list and read the resources of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from mainspring.errors import ConfigError
from mainspring.mcp.content import NO_OUTPUT, to_model_blocks
from mainspring.mcp.server import McpServer
from mainspring.mcp.types import McpError, ResourceInfo
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult

LIST_TOOL, READ_TOOL = "mcp_list_resources", "mcp_read_resource"
RESOURCE_TOOLS = (LIST_TOOL, READ_TOOL)
_MAX_LISTED = 200


class ResourceServers(Protocol):
    """Servers with resources."""

    @property
    def servers(self) -> Sequence[McpServer]:
        """All servers."""
        ...

    async def resources(self) -> dict[str, Sequence[ResourceInfo]]:
        """Return the resources by server."""
        ...

    def get(self, name: str) -> McpServer:
        """Return the server with a name.

        Raises:
            ConfigError: The name is unknown.
        """
        ...


def create_resource_tools(mcp: ResourceServers) -> list[Tool]:
    """Create the two resource tools for the servers of an agent."""

    async def list_resources(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        requested = arguments.get("server") or None
        found = await mcp.resources()
        if requested is not None and requested not in found:
            return _error_result(
                f"the MCP server {requested!r} is not ready or unknown; ready servers: {', '.join(found) or 'none'}"
            )
        lines = [
            line
            for name, resources in found.items()
            if requested in (None, name)
            for line in [f"{name}:", *[_line(r) for r in resources]]
            if resources
        ]
        more = [f"... {len(lines) - _MAX_LISTED} more; name a server"] if len(lines) > _MAX_LISTED else []
        return ToolResult(output="\n".join([*lines[:_MAX_LISTED], *more]) or "No resources.")

    async def read_resource(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        try:
            contents = await mcp.get(arguments["server"]).read_resource(arguments["uri"])
        except (McpError, ConfigError) as error:
            return _error_result(str(error))
        blocks, attachments = to_model_blocks(contents)
        details = {"server": arguments["server"], "uri": arguments["uri"]}
        return ToolResult(output=_output(blocks), metadata=details, attachments=tuple(attachments))

    def read_access(arguments: Mapping[str, Any]) -> list[Access]:
        """Declare the server as a host, unless its annotations are trusted, and the file of a `file:` address."""
        name, uri = str(arguments.get("server", "")), str(arguments.get("uri", ""))
        server = next((s for s in mcp.servers if s.name == name), None)
        host = Access("network", f"mcp://{server.key if server else quote(name, '')}")
        hosts = [] if server is not None and server.config.trust_annotations else [host]
        if uri[:5].casefold() != "file:":
            return hosts
        try:
            return [*hosts, Access("fs-read", unquote(urlsplit(uri).path))]
        except ValueError:  # for example, a broken IPv6 address
            return [host]

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
                    "uri": {"type": "string", "description": f"The address, as {LIST_TOOL} returns it."},
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            execute=read_resource,
            source="builtin",
            access=read_access,
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
