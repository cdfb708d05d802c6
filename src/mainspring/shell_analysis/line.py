"""What a shell line holds, as values."""

from __future__ import annotations

from msgspec import Struct, field

from mainspring.shell_analysis.words import Word

RESERVED = frozenset(
    "! { } [[ ]] (( )) if then else elif fi for while until do done case esac in select function coproc".split()
)
"""Words that a shell reads as its grammar; as a command's name they show that it was read otherwise here."""


class Assignment(Struct, frozen=True):
    """``NAME=value``, before a command or alone."""

    name: str
    value: Word
    text: str


class Command(Struct, frozen=True):
    """A simple command.

    Attributes:
        words: Its name and arguments.
        assignments: What stands before it; alone if there are no words.
        text: Its source.
        fed: The text of a here-document that it reads, if that is known.
        piped: Whether it reads what something else in the line gives it.
    """

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    text: str = ""
    fed: str | None = None
    piped: bool = False


class Redirect(Struct, frozen=True):
    """A redirection to or from a file."""

    target: Word
    writes: bool
    text: str


class Line(Struct):
    """What a line holds, in the order of its source.

    Attributes:
        parts: Commands and redirections.
        doubts: Why it cannot be judged; empty if it can.
        functions: Names that it defines as functions.
        pours: Whether values of variables are fed to a command, which may show them.
    """

    parts: list[Command | Redirect] = field(default_factory=list[Command | Redirect])
    doubts: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])
    pours: bool = False
