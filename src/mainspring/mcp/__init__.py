"""Model Context Protocol servers: their tools, resources, and prompts for an agent.

The SDK is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.mcp.client_features import (
        AllowSamplingCallback as AllowSamplingCallback,
        ElicitCallback as ElicitCallback,
        SamplingCallback as SamplingCallback,
    )
    from mainspring.mcp.config import (
        McpConfig as McpConfig,
        McpServerConfig as McpServerConfig,
        merge_configs as merge_configs,
        parse_mcp_config as parse_mcp_config,
    )
    from mainspring.mcp.connect import connect_mcp as connect_mcp
    from mainspring.mcp.in_memory import InMemoryConnector as InMemoryConnector, InMemoryServer as InMemoryServer
    from mainspring.mcp.login import login_mcp as login_mcp
    from mainspring.mcp.plug import McpPlug as McpPlug
    from mainspring.mcp.server import McpServer as McpServer
    from mainspring.mcp.tool_search import create_tool_search as create_tool_search
    from mainspring.mcp.tools import server_prefixes as server_prefixes, tool_names as tool_names
    from mainspring.mcp.types import (
        Answer as Answer,
        ClientHandler as ClientHandler,
        ElicitRequest as ElicitRequest,
        ElicitResult as ElicitResult,
        ListKind as ListKind,
        McpConnection as McpConnection,
        McpConnector as McpConnector,
        McpContentBlock as McpContentBlock,
        McpError as McpError,
        ProgressCallback as ProgressCallback,
        PromptInfo as PromptInfo,
        PromptMessage as PromptMessage,
        ResourceInfo as ResourceInfo,
        SamplingRequest as SamplingRequest,
        SamplingResult as SamplingResult,
        ServerInfo as ServerInfo,
        ToolInfo as ToolInfo,
    )

lazy_exports(
    __name__,
    {
        "client_features": "ElicitCallback AllowSamplingCallback SamplingCallback",
        "config": "McpConfig McpServerConfig merge_configs parse_mcp_config",
        "connect": "connect_mcp",
        "login": "login_mcp",
        "tools": "server_prefixes tool_names",
        "plug": "McpPlug",
        "types": "Answer ElicitResult ElicitRequest McpConnection McpConnector McpError SamplingResult SamplingRequest ClientHandler ListKind McpContentBlock ProgressCallback PromptInfo PromptMessage ResourceInfo ServerInfo ToolInfo",
        "server": "McpServer",
        "tool_search": "create_tool_search",
        "in_memory": "InMemoryConnector InMemoryServer",
    },
)
