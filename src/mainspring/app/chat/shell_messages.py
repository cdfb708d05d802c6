"""Messages that show a shell command of the user, and its output, to the model."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mainspring.prompt_tags import wrap_in_tag
from mainspring.redaction import redact_environment
from mainspring.text import escape_invisible, pluralize

STOPPED_NOTE = "[interrupted: the user stopped this command; the output is partial]"
"""Last line of the output of a command that the user stopped."""

_MAX_LISTED_CHARS = 60
_HEAD = "I ran a command:\n\n"
_EXIT = "[exit code "


class ShellMessage(Struct, frozen=True):
    """A shell command of the user.

    Attributes:
        line: The command.
        output: Its output, or the part that the model gets.
        exit_code: Its exit code.
        stopped: Whether the user stopped it.
    """

    line: str
    output: str
    exit_code: int = 0
    stopped: bool = False

    def to_text(self) -> str:
        """Return the text for the model."""
        status = STOPPED_NOTE if self.stopped else f"{_EXIT}{self.exit_code}]" if self.exit_code else ""
        parts = (f"$ {self.line}", self.output.rstrip("\n"), status)
        return _HEAD + wrap_in_tag("shell", "\n".join(filter(None, parts)))


def parse_shell_message(text: str) -> ShellMessage | None:
    """Return the command of a text that `ShellMessage.to_text` created; None for any other text."""
    opening, _, rest = text.removeprefix(_HEAD).partition("\n")
    body, _, closing = rest.rpartition("\n")
    if not text.startswith(f"{_HEAD}<shell") or closing != f"</{opening[1:]}" or not body.startswith("$ "):
        return None
    line, _, output = body[2:].partition("\n")
    before, _, last = output.rpartition("\n")
    if last == STOPPED_NOTE:
        return ShellMessage(line, before, stopped=True)
    code = last.removeprefix(_EXIT).removesuffix("]")
    if last == f"{_EXIT}{code}]" and code.removeprefix("-").isdecimal():
        return ShellMessage(line, before, int(code))
    return ShellMessage(line, output)


def list_background_commands(commands: Sequence[str]) -> str:
    """Return the number of background commands, and the commands: ``1 background command (make watch)``."""
    shown = [escape_invisible(redact_environment(command), limit=_MAX_LISTED_CHARS) for command in commands]
    return f"{pluralize(len(commands), 'background command')} ({'; '.join(shown)})"
