"""Servers of the Model Context Protocol: their tools, resources and prompts for an agent. The SDK is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.mcp.config import McpConfig as McpConfig
    from mainspring.mcp.config import McpServerConfig as McpServerConfig
    from mainspring.mcp.config import merge_configs as merge_configs
    from mainspring.mcp.config import parse_mcp_config as parse_mcp_config
    from mainspring.mcp.connect import connect_mcp as connect_mcp
    from mainspring.mcp.in_memory import TwinConnector as TwinConnector
    from mainspring.mcp.in_memory import TwinServer as TwinServer
    from mainspring.mcp.login import login_mcp as login_mcp
    from mainspring.mcp.plug import Mcp as Mcp
    from mainspring.mcp.server import McpServer as McpServer
    from mainspring.mcp.tool_search import create_tool_search as create_tool_search
    from mainspring.mcp.tools import server_keys as server_keys
    from mainspring.mcp.tools import tool_names as tool_names
    from mainspring.mcp.types import Answer as Answer
    from mainspring.mcp.types import ElicitAnswer as ElicitAnswer
    from mainspring.mcp.types import Elicitation as Elicitation
    from mainspring.mcp.types import McpConnection as McpConnection
    from mainspring.mcp.types import McpConnector as McpConnector
    from mainspring.mcp.types import McpFailure as McpFailure
    from mainspring.mcp.types import Sampled as Sampled
    from mainspring.mcp.types import Sampling as Sampling

__all__, __getattr__ = exports(
    __name__,
    {
        "config": "McpConfig McpServerConfig merge_configs parse_mcp_config",
        "connect": "connect_mcp",
        "login": "login_mcp",
        "tools": "server_keys tool_names",
        "plug": "Mcp",
        "types": "Answer ElicitAnswer Elicitation McpConnection McpConnector McpFailure Sampled Sampling",
        "server": "McpServer",
        "tool_search": "create_tool_search",
        "in_memory": "TwinConnector TwinServer",
    },
)
