"""Connections to MCP servers without an agent."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mainspring.errors import ConfigError
from mainspring.mcp.client_features import AllowSamplingCallback, ClientFeatures, ElicitCallback, SamplingCallback
from mainspring.mcp.config import McpServerConfig, parse_mcp_config
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer, connected_server
from mainspring.mcp.tools import server_prefixes
from mainspring.mcp.types import McpConnector


@asynccontextmanager
async def connect_mcp(
    server: McpServerConfig | Mapping[str, Any] | str,
    *,
    connector: McpConnector | None = None,
    elicit: ElicitCallback | None = None,
    allow_sampling: AllowSamplingCallback | None = None,
    sampler: SamplingCallback | None = None,
    roots: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    tokens: Path | None = None,
) -> AsyncGenerator[McpServer]:
    """Connect to a server for the duration of a block.

    ```python
    async with connect_mcp({"command": "my-server"}) as server:
        print([tool.name for tool in server.tools])
    ```

    Its ``tools`` can be passed to an agent, or called directly.

    Args:
        server: Configuration, or the URL of an HTTP server.
        connector: Connector that opens the connection (default: the official SDK).
        elicit: Function that answers the server's questions to the user (default: they are declined).
        allow_sampling: Function that returns whether the server may send a prompt to the model (default: it may not).
        sampler: Function that sends the server's prompts to the model.
        roots: Folders that the server may work in.
        environ: Environment variables.
        tokens: Folder of logins.

    Raises:
        ConfigError: The configuration is invalid.
        McpError: The connection failed.
    """
    config = _to_config(server)
    asking = ClientFeatures(elicit, allow_sampling)
    asking.client.sample_model = sampler
    connected = McpServer(
        config,
        server_prefixes([config.name])[config.name],
        connector or SdkConnector(environ, tokens),
        asking=asking,
        roots=lambda: roots,
        environ=environ,
    )
    async with connected_server(connected) as opened:
        yield opened


def _to_config(server: McpServerConfig | Mapping[str, Any] | str) -> McpServerConfig:
    if isinstance(server, McpServerConfig):
        return server
    given: Mapping[str, Any] = {"url": server} if isinstance(server, str) else server
    found = parse_mcp_config([{"name": "server", **given}])
    if found.problems:
        raise ConfigError("\n".join(found.problems))
    return found.servers[0]
