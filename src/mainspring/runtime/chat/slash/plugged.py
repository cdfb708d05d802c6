"""Commands about what is plugged in: skills and MCP servers. Both say so where there are none."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, cast

from mainspring.errors import ConfigError
from mainspring.runtime.chat.room import Room
from mainspring.runtime.chat.shown import Shown, Table
from mainspring.runtime.chat.slash.command import Offer, PromptSource, Rendered, Seat, SlashCommand

SKILL = "skill:"
"""How the name of a skill begins behind a slash."""


async def skills(seat: Seat, _: str) -> Shown:
    """The skills there are."""
    rows = tuple([(f"/{SKILL}{name}", about) for name, about in skills_of(seat.room)])
    return Table(("skill", "what it is for"), rows, "Skills", "there are no skills here")


def skills_of(room: Room) -> list[tuple[str, str]]:
    """The names of skills, each with what it is for."""
    found: Any = getattr(room.conversation.agent, "skills", None)
    listed: Any = getattr(found, "skills", found)
    if callable(listed):
        listed = listed()
    if isinstance(listed, dict):
        listed = cast("dict[str, Any]", listed).values()
    if not isinstance(listed, Iterable):
        return []
    known = [(str(getattr(s, "name", "")), str(getattr(s, "description", ""))) for s in cast("Iterable[Any]", listed)]
    return sorted((name, about) for name, about in known if name)


class SkillPrompts(PromptSource):
    """``/skill:name text`` activates a skill, and says the text.

    Args:
        room: The chat.
    """

    def __init__(self, room: Room) -> None:
        self._room = room

    def offers(self) -> Sequence[Offer]:
        """The skills there are."""
        return [Offer(f"{SKILL}{name}", about, "[PROMPT]") for name, about in skills_of(self._room)]

    async def render(self, name: str, arguments: str) -> Rendered | None:
        """Activate it.

        Raises:
            ConfigError: If there are no skills here.
            MainspringError: If there is none of that name.
        """
        if not name.startswith(SKILL):
            return None
        activate: Any = getattr(self._room.conversation.agent, "activate_skill", None)
        if activate is None:
            raise ConfigError("there are no skills here")
        skill = name.removeprefix(SKILL)
        try:
            made = activate(skill)
            if inspect.isawaitable(made):
                await made
        except (KeyError, LookupError) as error:
            known = ", ".join(each for each, _ in skills_of(self._room)) or "none"
            raise ConfigError(f"there is no skill {skill!r}; there are {known}") from error
        return Rendered(text=arguments.strip(), notice=f"the skill {skill} is active")


async def mcp(seat: Seat, _: str) -> Shown:
    """The MCP servers, and how they are."""
    rows: list[tuple[str, ...]] = []
    for plug in seat.room.conversation.agent.plugs:
        status: Any = getattr(plug, "server_status", None)
        if callable(status):
            told = cast("Iterable[Iterable[Any]]", status())
            rows += [tuple([str(part) for part in each]) for each in told]
    return Table(("server", "state", "tools", "about"), tuple(rows), "MCP servers", "no MCP servers are set up")


def sources_of(room: Room) -> list[PromptSource]:
    """What else can be typed behind a slash: of plugs that have prompts, as MCP servers and the user's own commands."""
    found = [plug for plug in room.conversation.agent.plugs if isinstance(plug, PromptSource)]
    return [*found, *room.options.sources, SkillPrompts(room)]


PLUGGED = (
    SlashCommand(name="skills", summary="the skills there are", run=skills),
    SlashCommand(name="mcp", summary="the MCP servers, and how they are", run=mcp),
)
"""The commands of this file."""
