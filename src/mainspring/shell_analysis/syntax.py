"""The words of a shell command.

The syntax tree of the small language of shell lines that are understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from mainspring.shell_analysis import wildcards
from mainspring.text import fold


class Word(Struct, frozen=True):
    """A word of a command.

    Attributes:
        text: The value that the command receives, with unknown pieces marked (see `wildcards`).
        source: The word as it is spelled in the line.
        splits: Whether it may become several words, or none.
    """

    text: str
    source: str
    splits: bool = False

    @property
    def literal(self) -> bool:
        """Whether all of it is known."""
        return wildcards.is_literal(self.text)


def program_name(text: str) -> str:
    """The name of a program without its folder and without ``.exe``, folded."""
    name = fold(text.rsplit("/", 1)[-1])
    unknown = name.rfind(wildcards.ANY_TEXT)  # may hold a slash, so that what stands before it is no part of the name
    if unknown >= 0:
        name = name[unknown:]
    return name.removesuffix(".exe")


class NotUnderstoodError(Exception):
    """A line uses something outside the language; the text names the construct."""


class Variable(Struct, frozen=True):
    """``$NAME`` inside a word."""

    name: str
    quoted: bool


class Substitution(Struct, frozen=True):
    """``$(...)`` inside a word."""

    body: Block
    quoted: bool


class Spelling(Struct, frozen=True):
    """A word as the parser reads it.

    Attributes:
        source: The word as it is spelled in the line.
        pieces: Texts with their quotes removed and their wildcards marked, variables, and substitutions, in order.
        splits: Whether it holds a wildcard of the shell, so that it may become several words.
    """

    source: str
    pieces: tuple[str | Variable | Substitution, ...]
    splits: bool = False


class Redirection(Struct):
    """A redirection to or from a file, or a here-document.

    Attributes:
        source: The redirection as it is spelled.
        writes: Whether it writes the file.
        target: The file; ``None`` for a here-document.
        fed: The text of a here-document.
    """

    source: str
    writes: bool
    target: Spelling | None = None
    fed: str = ""


class Simple(Struct, frozen=True):
    """A simple command: assignments, then a name and arguments."""

    source: str
    assignments: tuple[tuple[str, Spelling], ...]
    words: tuple[Spelling, ...]
    redirects: tuple[Redirection, ...]


class Block(Struct, frozen=True):
    """Commands that run one after the other, or may run.

    Attributes:
        items: The commands.
        redirects: The redirections of the whole block.
        kind: ``list`` if each item runs after the one before it in the same shell, ``pipe`` for a pipeline, ``subshell``, ``loop`` for
            ``while`` and ``until``, ``loose`` if items may be left out or run in a process of their own.
    """

    items: tuple[Node, ...]
    redirects: tuple[Redirection, ...] = ()
    kind: str = "list"


class Loop(Struct, frozen=True):
    """``for NAME in WORDS; do BODY; done``."""

    name: str
    values: tuple[Spelling, ...]
    body: Block
    redirects: tuple[Redirection, ...] = ()


Node = Simple | Block | Loop


class Redirect(Struct, frozen=True):
    """A redirection with its file resolved, as rules see it."""

    target: Word
    writes: bool
    text: str


FileScope = Literal["fs-read", "fs-write", "fs-delete"]
"""What happens to a file."""


class FileEffect(Struct, frozen=True):
    """A file or folder that a command reads, changes or deletes."""

    scope: FileScope
    word: Word


ApprovalTarget = Literal["self", "inner", "both"]
"""Whether a rule for the command itself is needed, or rules for what it runs, or both."""


class AnalyzedCommand(Struct, frozen=True, kw_only=True):
    """A command that is judged by itself.

    Attributes:
        words: Assignments before it, its name and its arguments.
        text: Its source, for people.
        fixed: How many words a pattern has to name for certain before it may allow it. All, where arguments may be code.
        needs: What allows it.
        inner: The commands that it runs.
        unknown: Why what it runs cannot be known; empty if it can. No pattern allows such a command.
        scan: Whether its arguments may be a command, so that rules that tighten look at each of them.
        code: Whether its arguments may be code, in which paths are looked for.
        free: Whether it needs no rule.
        moves: Where it makes the shell go; ``None`` if nowhere.
        touches: Files that it is known to change or read.
        piped: Whether it reads what something else in the line gives it, so that its words alone do not say what it does.
        fed: Whether it runs code that it is given to read.
        feeder: For ``xargs``, the command whose output it reads, if that is one simple command and its errors are not among it.
    """

    words: tuple[Word, ...]
    text: str
    fixed: int = 1
    needs: ApprovalTarget = "self"
    inner: tuple[AnalyzedCommand, ...] = ()
    unknown: str = ""
    scan: bool = False
    code: bool = False
    free: bool = False
    moves: Word | None = None
    touches: tuple[FileEffect, ...] = ()
    piped: bool = False
    fed: bool = False
    feeder: AnalyzedCommand | None = None

    def walk(self) -> Iterator[AnalyzedCommand]:
        """It and all that it runs, in the order in which they run."""
        yield self
        for unit in self.inner:
            yield from unit.walk()
