"""A command that is asked as a hook: for which event, for what of it, for how long."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.tools.builtin import COMMON_ALIASES

CommandEvent = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "SubagentStop",
    "PostCompact",
    "SessionEnd",
]
"""The events, under the names that other programs use for them."""

COMMAND_EVENTS: tuple[CommandEvent, ...] = get_args(CommandEvent)

OnFailure = Literal["refuse", "continue"]
"""What a command that fails means where something is to be decided."""

GATES: frozenset[CommandEvent] = frozenset({"UserPromptSubmit", "PreToolUse"})
"""The events that are refused when a command fails, unless it is said otherwise."""

MAX_HOOK_DEPTH = 3
"""How deep hooks may start programs that have hooks themselves."""

DEPTH = "MAINSPRING_HOOK_DEPTH"
"""The variable that tells a program in how many hooks it runs."""

DEFAULT_SECONDS = 60.0
"""What a command gets where nothing is said: what other programs gave when hooks of this kind came up."""

_ALL = ("", "*")


class CommandHook(Struct, frozen=True, kw_only=True):
    """A command and when it is asked.

    Attributes:
        event: The event.
        command: A script for the shell.
        matcher: For which tools (or whatever else the event is about): a regular expression for the whole name, upper and lower case
            alike; empty or ``*`` is all. Names that other programs use for our tools fit, too: ``Bash`` is ``shell``.
        timeout: Seconds it may take.
        on_failure: What it means where something is to be decided and the command fails or takes too long: a refusal, or nothing.
        origin: The file it stands in.

    Raises:
        ConfigError: If there is no such event, nothing to run, no time, or no such pattern.
    """

    event: CommandEvent
    command: str
    matcher: str = ""
    timeout: float = DEFAULT_SECONDS
    on_failure: OnFailure = "refuse"
    origin: str = ""

    def __post_init__(self) -> None:
        if self.event not in COMMAND_EVENTS:
            raise ConfigError(f"there is no event {self.event!r} for commands; there are {', '.join(COMMAND_EVENTS)}")
        if not self.command.strip():
            raise ConfigError(f"a hook of {self.event} has no command")
        if not self.timeout > 0:
            raise ConfigError(f"the hook {self.command!r} has {self.timeout:g} seconds, which must be above 0")
        if self.on_failure not in get_args(OnFailure):
            raise ConfigError(
                f"on_failure of the hook {self.command!r} is {self.on_failure!r}; it is 'refuse' or 'continue'"
            )
        if self.matcher not in _ALL:
            try:
                re.compile(self.matcher)
            except re.error as error:
                raise ConfigError(f"the matcher {self.matcher!r} of {self.event} is no pattern: {error}") from None

    @property
    def fails_closed(self) -> bool:
        """Whether something is refused where it fails."""
        return self.event in GATES and self.on_failure == "refuse"

    def matches(self, names: Iterable[str]) -> bool:
        """Whether it is asked about something that goes by these names."""
        if self.matcher in _ALL:
            return True
        return any(re.fullmatch(self.matcher, name, re.IGNORECASE) for name in names)


def hook_tool_names(name: str) -> tuple[str, ...]:
    """The names by which a matcher may call a tool: its own, and those that other programs use."""
    others = [alias for alias, ours in _TOOL_ALIASES if ours == name]
    return (name, *others)


_TOOL_ALIASES = (*COMMON_ALIASES.items(), ("multiedit", "multi_edit"), ("ls", "list_files"), ("agent", "spawn"))
