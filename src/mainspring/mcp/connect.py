"""A server without an agent."""

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
    """Keep a connection to a server for as long as a block lasts.

    ```python
    async with connect_mcp({"command": "my-server"}) as server:
        print([tool.name for tool in server.tools])
    ```

    Its ``tools`` can be given to an agent, and can be called by themselves.

    Args:
        server: Its configuration, or the address of one that speaks HTTP.
        connector: Who makes the connection; the official SDK if left out.
        elicit: Answers its questions to the user; they are declined if left out.
        allow_sampling: Says whether it may ask the model; it may not if left out.
        sampler: Asks the model.
        roots: The folders that it is told of.
        environ: Our variables.
        tokens: The folder of logins.

    Raises:
        ConfigError: If the configuration is none.
        McpFailure: If it cannot be connected.
    """
    config = _to_config(server)
    asking = ClientFeatures(elicit, allow_sampling)
    asking.sample_model = sampler
    made = McpServer(
        config,
        server_prefixes([config.name])[config.name],
        connector or SdkConnector(environ, tokens),
        asking=asking,
        roots=lambda: roots,
        environ=environ,
    )
    async with connected_server(made) as opened:
        yield opened


def _to_config(server: McpServerConfig | Mapping[str, Any] | str) -> McpServerConfig:
    if isinstance(server, McpServerConfig):
        return server
    given: Mapping[str, Any] = {"url": server} if isinstance(server, str) else server
    found = parse_mcp_config([{"name": "server", **given}])
    if found.problems:
        raise ConfigError("\n".join(found.problems))
    return found.servers[0]
