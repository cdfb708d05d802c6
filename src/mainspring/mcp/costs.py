"""What the tools of a server cost in every request, and what they cost where the model finds them by search."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mainspring.mcp.tool_search import create_tool_search
from mainspring.messages import ToolSpec
from mainspring.messages.token_estimate import estimate_overhead


class ServerCost(Struct, frozen=True, kw_only=True):
    """What a server's tools cost, in tokens, as far as they can be told without the model's own tokeniser.

    Attributes:
        tools: How many tools there are.
        eager: With their schemas, in every request.
        lazy: By their names alone, in every request; `search_cost` comes once on top, for all servers.
    """

    tools: int = 0
    eager: int = 0
    lazy: int = 0


def cost_of(specs: Sequence[ToolSpec]) -> ServerCost:
    """What tools cost, as they are sent."""
    return ServerCost(
        tools=len(specs),
        eager=estimate_overhead("", specs),
        lazy=estimate_overhead("".join(f"{s.name}\n" for s in specs), ()),
    )


def search_cost() -> int:
    """What the tool `tool_search` costs in every request, in tokens."""
    return estimate_overhead("", (create_tool_search((), lambda names: None).spec,))
