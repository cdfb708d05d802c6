"""Commands about what is plugged in: skills and MCP servers. Both say so where there are none."""

from __future__ import annotations

from mainspring.app.chat.command_results import Shown, Table
from mainspring.app.chat.slash.base import Seat, SlashCommand
from mainspring.app.chat.slash.prompts import SKILL, mcp_of, skills_of


async def skills(seat: Seat, _: str) -> Shown:
    """The skills there are."""
    await seat.room.warm()
    rows = tuple([(f"/{SKILL}{name}", about) for name, about in skills_of(seat.room)])
    return Table(("skill", "what it is for"), rows, "Skills", "there are no skills here")


async def mcp(seat: Seat, _: str) -> Shown:
    """The MCP servers, and how they are."""
    await seat.room.warm()
    plug = mcp_of(seat.room)
    servers = plug.servers if plug is not None else ()
    tools = [tool.source for tool in seat.room.conversation.agent.tools]
    rows = tuple(
        [
            (s.name, s.status, str(tools.count(f"mcp:{s.name}")), str(s.error) if s.error is not None else "")
            for s in servers
        ]
    )
    return Table(("server", "state", "tools", "problem"), rows, "MCP servers", "no MCP servers are set up")


PLUGGED = (
    SlashCommand(name="skills", summary="the skills there are", run=skills),
    SlashCommand(name="mcp", summary="the MCP servers, and how they are", run=mcp),
)
"""The commands of this file."""
