"""What a slash command is, and what it works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.runs import RunController
from mainspring.app.chat.session_control import SessionController
from mainspring.app.chat.state import ChatState


class SlashContext(Struct, frozen=True, eq=False):
    """What a command works with.

    Attributes:
        room: The chat.
        runs: Its runs.
        switching: Its sessions.
        commands: All commands of the chat, by name.
        sources: What else can be typed behind a slash.
    """

    room: ChatState
    runs: RunController
    switching: SessionController
    commands: Mapping[str, SlashCommand]
    sources: Sequence[PromptSource]


SlashHandler = Callable[[SlashContext, str], Awaitable[CommandResult | None]]
"""Does a command: what it works with, and the text behind its name."""

Complete = Callable[[SlashContext], Awaitable[Sequence[tuple[str, str]]]]
"""What may stand behind a command's name, each with a word about it."""


class SlashCommand(Struct, frozen=True, kw_only=True, eq=False):
    """A command, typed as ``/name arguments``.

    Attributes:
        name: Its name, without the slash.
        summary: What it does, in a line.
        run: Does it.
        arguments: What may stand behind it, for people: ``[MODEL]``.
        complete: What may stand behind it, to choose from.
        idle: Whether it needs that no run goes on.
    """

    name: str
    summary: str
    run: SlashHandler
    arguments: str = ""
    complete: Complete | None = None
    idle: bool = False


class SlashPrompt(Struct, frozen=True):
    """A prompt that can be had by name.

    Attributes:
        name: As typed behind the slash: ``review``, ``mcp:github:issue``.
        summary: What it is, in a line.
        arguments: What may stand behind it, for people.
    """

    name: str
    summary: str = ""
    arguments: str = ""


class RenderedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt, ready to be said.

    Attributes:
        text: What the model gets; empty where there is nothing to say.
        model: The model that is to answer it, as ``provider:model``; empty for that of the chat.
        tools: The only tools that its run gets; ``None`` for all.
        allow: Rules that hold for its run.
        notice: What people are told.
    """

    text: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()
    notice: str = ""


@runtime_checkable
class PromptSource(Protocol):
    """Something that has prompts by name: the user's own commands, skills, servers."""

    def offers(self) -> Sequence[SlashPrompt]:
        """What there is now. Returns at once."""
        ...

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """The prompt of a name; ``None`` if it has none of it.

        Raises:
            MainspringError: If it cannot be had; the text says why.
        """
        ...


def index_by_name(commands: Sequence[SlashCommand]) -> dict[str, SlashCommand]:
    """Commands by name, sorted."""
    return {command.name: command for command in sorted(commands, key=lambda c: c.name)}


def split_words(text: str) -> list[str]:
    """The words of what was typed."""
    return text.split()
