"""Configuration of a command hook: event, matcher, and timeout."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.tools.names import COMMON_ALIASES

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
"""The effect of a failing command if it has to decide something."""

GATES: frozenset[CommandEvent] = frozenset({"UserPromptSubmit", "PreToolUse"})
"""The events that are denied by default when a command fails."""

MAX_HOOK_DEPTH = 3
"""Maximum nesting depth of hooks whose programs start hooks."""

DEPTH = "MAINSPRING_HOOK_DEPTH"
"""Environment variable with the nesting depth of hooks."""

DEFAULT_SECONDS = 60.0
"""Default timeout in seconds; like other programs with such hooks."""

_ALL = ("", "*")


class CommandHook(Struct, frozen=True, kw_only=True):
    """A command and its event.

    Attributes:
        event: The event.
        command: A script for the shell.
        matcher: The tools (or other subjects of the event) that it applies to: a regular expression for the whole name,
            case-insensitive; empty or ``*`` matches all. Tool names of other programs match, too: ``Bash`` is ``shell``.
        timeout: Maximum duration in seconds.
        on_failure: The effect if the command has to decide something and fails or times out: deny or continue.
        origin: The file that defines it.

    Raises:
        ConfigError: If the event is unknown, the command is empty, or the timeout or the matcher is invalid.
    """

    event: CommandEvent
    command: str
    matcher: str = ""
    timeout: float = DEFAULT_SECONDS
    on_failure: OnFailure = "refuse"
    origin: str = ""

    def __post_init__(self) -> None:
        if self.event not in COMMAND_EVENTS:
            raise ConfigError(f"Unknown hook event: {self.event!r}. Use one of {', '.join(COMMAND_EVENTS)}.")
        if not self.command.strip():
            raise ConfigError(f"A hook of {self.event} has no command.")
        if not self.timeout > 0:
            raise ConfigError(
                f"The timeout of the hook {self.command!r} is {self.timeout:g} seconds. It must be above 0."
            )
        if self.on_failure not in get_args(OnFailure):
            raise ConfigError(
                f"on_failure of the hook {self.command!r} is {self.on_failure!r}. It must be 'refuse' or 'continue'."
            )
        if self.matcher not in _ALL:
            try:
                re.compile(self.matcher)
            except re.error as error:
                raise ConfigError(
                    f"The matcher {self.matcher!r} of {self.event} is not a valid regular expression: {error}"
                ) from None

    @property
    def fails_closed(self) -> bool:
        """Return True if a failure denies the event."""
        return self.event in GATES and self.on_failure == "refuse"

    def matches(self, names: Iterable[str]) -> bool:
        """Return True if the matcher matches one of these names."""
        if self.matcher in _ALL:
            return True
        return any(re.fullmatch(self.matcher, name, re.IGNORECASE) for name in names)


def hook_tool_names(name: str) -> tuple[str, ...]:
    """Return the names under which a matcher may refer to a tool: its own, and those that other programs use."""
    others = [alias for alias, ours in _TOOL_ALIASES if ours == name]
    return (name, *others)


_TOOL_ALIASES = (*COMMON_ALIASES.items(), ("multiedit", "multi_edit"), ("ls", "list_files"), ("agent", "spawn"))
