"""From a line behind a slash to what it does."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mainspring.app.chat.command_results import Shown, Text
from mainspring.app.chat.events import Notice
from mainspring.app.chat.message_queue import said
from mainspring.app.chat.runs import Once, Runs
from mainspring.app.chat.session_control import Switching
from mainspring.app.chat.slash.agent import WORKING, model_named
from mainspring.app.chat.slash.base import PromptSource, Rendered, Seat, named
from mainspring.app.chat.slash.info import ABOUT, PLUGGED
from mainspring.app.chat.slash.prompts import McpPrompts, OwnPrompts, SkillPrompts
from mainspring.app.chat.slash.sessions import SESSIONS
from mainspring.app.chat.slash.workspace import ALLOWED
from mainspring.app.chat.state import Room
from mainspring.errors import ConfigError
from mainspring.extensions.registry import Command

COMMANDS = named((*ABOUT, *ALLOWED, *PLUGGED, *SESSIONS, *WORKING))
"""The commands of the chat, by name."""

_ASKED_LATER = ("mcp:", "skill:")
"""Names that only their own sources know, once they are asked."""


class Slashes:
    """The slash commands of one chat: its own, those of extensions, and prompts by name.

    Args:
        room: The chat.
        runs: Its runs.
        switching: Its sessions.
    """

    def __init__(self, room: Room, runs: Runs, switching: Switching) -> None:
        self._room = room
        self._runs = runs
        self._switching = switching
        self._mcp = McpPrompts(room)
        self._sources: tuple[PromptSource, ...] = (
            OwnPrompts(room),
            SkillPrompts(room),
            self._mcp,
            *room.options.sources,
        )

    @property
    def seat(self) -> Seat:
        """What commands work with now."""
        return Seat(self._room, self._runs, self._switching, COMMANDS, self.sources())

    def sources(self) -> Sequence[PromptSource]:
        """What else can be typed behind a slash."""
        return self._sources

    async def refresh(self) -> None:
        """See what servers have by now."""
        await self._mcp.refresh()

    def names(self) -> dict[str, str]:
        """The names of all that can be typed behind a slash, each with a word about it."""
        found = {offer.name: offer.summary for source in self.sources() for offer in source.offers()}
        found |= {command.name: command.description for command in self._extension_commands()}
        return found | {command.name: command.summary for command in COMMANDS.values()}

    def why_not(self, line: str) -> str:
        """Why a line is no command that can be taken now; empty if it is one."""
        name = split(line)[0]
        names = self.names()
        if name not in names and not name.startswith(_ASKED_LATER):
            near = difflib.get_close_matches(name, names, 5, 0.5)
            near.sort(key=lambda each: sorted(each) != sorted(name))  # letters that changed places come first
            hint = f"did you mean /{near[0]}?" if near else "/help lists them."
            return f"there is no command /{name}; {hint} It was not sent to the model"
        command = COMMANDS.get(name)
        if command is not None and command.idle and self._room.running:
            return f"/{name} needs that no run goes on; stop it first"
        return ""

    async def run(self, line: str) -> Shown | None:
        """Do what a line says.

        Raises:
            MainspringError: If it cannot be done; the text says why.
            Exception: Whatever a command of an extension raises.
        """
        name, arguments = split(line)
        command = COMMANDS.get(name)
        if command is not None:
            if command.idle and self._room.running:
                raise ConfigError(f"/{name} needs that no run goes on; stop it first")
            return await command.run(self.seat, arguments)
        extensions = self._room.conversation.agent.extensions
        if extensions is not None:
            if extensions.waiting:
                await extensions.prepare()
            answer = await extensions.runner.run_command(f"/{line.strip().removeprefix('/')}")
            if answer is not None:
                return Text(answer) if answer else None
        for source in self.sources():
            rendered = await source.render(name, arguments)
            if rendered is not None:
                self._say(rendered)
                return None
        raise ConfigError(self.why_not(line) or f"/{name} gives nothing")

    def _say(self, rendered: Rendered) -> None:
        room = self._room
        if rendered.notice:
            room.tell(Notice(rendered.notice))
        if not rendered.text.strip():
            return
        text = said(rendered.text)
        once = Once(
            model=model_named(room, rendered.model) if rendered.model else None,
            tools=rendered.tools,
            allow=rendered.allow,
        )
        if room.running:
            room.waiting.add(text)
            self._runs.once[text.id] = once
        else:
            self._runs.begin(text, "command", once)

    def _extension_commands(self) -> Sequence[Command]:
        extensions = self._room.conversation.agent.extensions
        return tuple(extensions.runner.commands) if extensions is not None else ()


def split(line: str) -> tuple[str, str]:
    """Name and arguments of a command line."""
    name, *rest = line.strip().removeprefix("/").split(maxsplit=1) or [""]
    return name.lower(), rest[0] if rest else ""
