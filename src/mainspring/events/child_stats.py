"""What a sub-agent used, as its parent's result and the hooks about it have it."""

from __future__ import annotations

from msgspec import Struct

from mainspring.events.agent import RunStatus
from mainspring.messages import Usage


class ChildStats(Struct, frozen=True, kw_only=True):
    """Figures of a sub-agent.

    Attributes:
        child_id: Which child.
        child: The name of its definition; empty for a plain one.
        depth: How deep it stands; 1 for a child of the agent that a person talks to.
        status: How its run ended.
        turns: How many of its model calls were answered.
        usage: Tokens, those of its own sub-agents included.
        tool_counts: How often it called each tool.
        seconds: How long it ran.
        children: Figures of its own sub-agents.
    """

    child_id: str
    child: str
    depth: int
    status: RunStatus
    turns: int = 0
    usage: Usage = Usage.zero()
    tool_counts: dict[str, int] = {}
    seconds: float = 0.0
    children: tuple[ChildStats, ...] = ()
