"""From a line behind a slash to what it does."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mainspring.app.chat.command_results import CommandResult, Text
from mainspring.app.chat.events import Notice
from mainspring.app.chat.message_queue import create_queued_message
from mainspring.app.chat.runs import RunController, RunOverrides
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.slash.agent import AGENT_COMMANDS, create_chat_model
from mainspring.app.chat.slash.base import PromptSource, RenderedPrompt, SlashContext, index_by_name
from mainspring.app.chat.slash.info import INFO_COMMANDS, PLUGIN_COMMANDS
from mainspring.app.chat.slash.prompts import CustomCommandPrompts, McpPrompts, SkillPrompts
from mainspring.app.chat.slash.sessions import SESSION_COMMANDS
from mainspring.app.chat.slash.workspace import WORKSPACE_COMMANDS
from mainspring.app.chat.state import ChatState
from mainspring.errors import ConfigError
from mainspring.extensions.registry import Command

COMMANDS = index_by_name((*INFO_COMMANDS, *WORKSPACE_COMMANDS, *PLUGIN_COMMANDS, *SESSION_COMMANDS, *AGENT_COMMANDS))
"""The commands of the chat, by name."""

_REMOTE_PREFIXES = ("mcp:", "skill:")
"""Names that only their own sources know, once they are asked."""


class SlashCommands:
    """The slash commands of one chat: its own, those of extensions, and prompts by name.

    Args:
        room: The chat.
        runs: Its runs.
        switching: Its sessions.
    """

    def __init__(self, room: ChatState, runs: RunController, switching: SessionController) -> None:
        self._room = room
        self._runs = runs
        self._switching = switching
        self._mcp = McpPrompts(room)
        self._sources: tuple[PromptSource, ...] = (
            CustomCommandPrompts(room),
            SkillPrompts(room),
            self._mcp,
            *room.options.sources,
        )

    @property
    def seat(self) -> SlashContext:
        """What commands work with now."""
        return SlashContext(self._room, self._runs, self._switching, COMMANDS, self.sources())

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
        name = split_command_line(line)[0]
        names = self.names()
        if name not in names and not name.startswith(_REMOTE_PREFIXES):
            near = difflib.get_close_matches(name, names, 5, 0.5)
            near.sort(key=lambda each: sorted(each) != sorted(name))  # letters that changed places come first
            hint = f"did you mean /{near[0]}?" if near else "/help lists them."
            return f"there is no command /{name}; {hint} It was not sent to the model"
        command = COMMANDS.get(name)
        if command is not None and command.idle and self._room.running:
            return f"/{name} needs that no run goes on; stop it first"
        return ""

    async def run(self, line: str) -> CommandResult | None:
        """Do what a line says.

        Raises:
            MainspringError: If it cannot be done; the text says why.
            Exception: Whatever a command of an extension raises.
        """
        name, arguments = split_command_line(line)
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

    def _say(self, rendered: RenderedPrompt) -> None:
        room = self._room
        if rendered.notice:
            room.tell(Notice(rendered.notice))
        if not rendered.text.strip():
            return
        text = create_queued_message(rendered.text)
        once = RunOverrides(
            model=create_chat_model(room, rendered.model) if rendered.model else None,
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


def split_command_line(line: str) -> tuple[str, str]:
    """Name and arguments of a command line."""
    name, *rest = line.strip().removeprefix("/").split(maxsplit=1) or [""]
    return name.lower(), rest[0] if rest else ""
