"""What an agent is told of MCP servers, as a plug; and the model, for servers that may ask it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mainspring import mcp
from mainspring.errors import ConfigError
from mainspring.loop import Plug
from mainspring.messages import Message, TextBlock
from mainspring.models import ModelRequest

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.mcp import Mcp, McpConnector, Sampled, Sampling

PURPOSE = "mcp:sampling"
"""Under which a server's questions to the model are counted."""


def mcp_plugs(servers: Any, connector: McpConnector | None) -> list[Plug]:
    """The plug of an option; none where there are no servers.

    Raises:
        ConfigError: If a configuration is none, or there is a connector with nothing to connect.
    """
    if servers is None:
        if connector is not None:
            raise ConfigError("mcp_connector is of no use without mcp_servers=[...]")
        return []
    if isinstance(servers, mcp.Mcp):
        if connector is not None:
            raise ConfigError("give the connector to the Mcp itself: Mcp([...], connector=...)")
        return [servers]
    return [mcp.Mcp(servers, connector=connector)]


def bind_sampling(agent: CoreAgent) -> None:
    """Let the servers of an agent ask its model, where the user agrees."""
    for plug in mcp_of(agent.plugs):
        plug.bind_sampler(lambda asked: _sample(agent, asked))


async def close_servers(agent: CoreAgent) -> None:
    """End the servers of an agent; they are started again where they are needed again."""
    for plug in mcp_of(agent.plugs):
        await plug.aclose()


def mcp_of(plugs: Iterable[Plug]) -> list[Mcp]:
    """The servers among plugs. Where there are none, the plug is not even imported."""
    return [p for p in plugs if type(p).__module__ == "mainspring.mcp.plug" and isinstance(p, mcp.Mcp)]


async def _sample(agent: CoreAgent, asked: Sampling) -> Sampled:
    request = ModelRequest(
        messages=tuple(
            [Message(m.role, tuple([TextBlock(_said(block)) for block in m.content])) for m in asked.messages]
        ),
        system=asked.system,
        max_output_tokens=asked.max_tokens or None,
        temperature=asked.temperature,
    )
    answer = await agent.side_call(PURPOSE, request)
    stopped = "maxTokens" if answer.stop_reason == "max_tokens" else "endTurn"
    return mcp.Sampled(answer.text, answer.model or agent.model.model, stopped)


def _said(block: dict[str, Any]) -> str:
    return str(block.get("text", f"[{block.get('type')}]"))
