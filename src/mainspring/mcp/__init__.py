"""Model Context Protocol servers: their tools, resources, and prompts for an agent.

The SDK is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.mcp.client_features import AllowSamplingCallback as AllowSamplingCallback
    from mainspring.mcp.client_features import ElicitCallback as ElicitCallback
    from mainspring.mcp.client_features import SamplingCallback as SamplingCallback
    from mainspring.mcp.config import McpConfig as McpConfig
    from mainspring.mcp.config import McpServerConfig as McpServerConfig
    from mainspring.mcp.config import merge_configs as merge_configs
    from mainspring.mcp.config import parse_mcp_config as parse_mcp_config
    from mainspring.mcp.connect import connect_mcp as connect_mcp
    from mainspring.mcp.in_memory import InMemoryConnector as InMemoryConnector
    from mainspring.mcp.in_memory import InMemoryServer as InMemoryServer
    from mainspring.mcp.login import login_mcp as login_mcp
    from mainspring.mcp.plug import McpPlug as McpPlug
    from mainspring.mcp.server import McpServer as McpServer
    from mainspring.mcp.tool_search import create_tool_search as create_tool_search
    from mainspring.mcp.tools import server_prefixes as server_prefixes
    from mainspring.mcp.tools import tool_names as tool_names
    from mainspring.mcp.types import Answer as Answer
    from mainspring.mcp.types import ClientHandler as ClientHandler
    from mainspring.mcp.types import ElicitRequest as ElicitRequest
    from mainspring.mcp.types import ElicitResult as ElicitResult
    from mainspring.mcp.types import ListKind as ListKind
    from mainspring.mcp.types import McpConnection as McpConnection
    from mainspring.mcp.types import McpConnector as McpConnector
    from mainspring.mcp.types import McpContentBlock as McpContentBlock
    from mainspring.mcp.types import McpError as McpError
    from mainspring.mcp.types import ProgressCallback as ProgressCallback
    from mainspring.mcp.types import PromptInfo as PromptInfo
    from mainspring.mcp.types import PromptMessage as PromptMessage
    from mainspring.mcp.types import ResourceInfo as ResourceInfo
    from mainspring.mcp.types import SamplingRequest as SamplingRequest
    from mainspring.mcp.types import SamplingResult as SamplingResult
    from mainspring.mcp.types import ServerInfo as ServerInfo
    from mainspring.mcp.types import ToolInfo as ToolInfo

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
