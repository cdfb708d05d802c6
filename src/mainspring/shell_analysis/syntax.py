"""The words of a shell command, and the syntax tree of the supported shell language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from mainspring.shell_analysis import wildcards
from mainspring.text import fold


class Word(Struct, frozen=True):
    """A word of a command.

    Attributes:
        text: The value that the command receives, with unknown pieces marked (see `wildcards`).
        source: The word as spelled in the line.
        splits: Whether it may become several words, or none.
    """

    text: str
    source: str
    splits: bool = False

    @property
    def literal(self) -> bool:
        """Return True if the whole word is known."""
        return wildcards.is_literal(self.text)


def program_name(text: str) -> str:
    """Return the case-folded name of a program without its folder and without ``.exe``."""
    name = fold(text.rsplit("/", 1)[-1])
    unknown = name.rfind(
        wildcards.ANY_TEXT
    )  # an unknown piece may contain a slash, so that the text before it does not belong to the name
    if unknown >= 0:
        name = name[unknown:]
    return name.removesuffix(".exe")


_GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))
"""Options of git before the subcommand whose value is the next word."""


def without_global_options(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return a git command without the options before its subcommand."""
    i = 1
    while i < len(words) and words[i].text.startswith("-"):
        i += 2 if words[i].text in _GIT_VALUED else 1
    return (words[0], *words[i:])


class NotUnderstoodError(Exception):
    """A line uses a construct outside the language; the message names the construct."""


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
        source: The word as spelled in the line.
        pieces: Strings with their quotes removed and their wildcards marked, variables, and substitutions, in order.
        splits: Whether it contains a shell wildcard, so that it may become several words.
    """

    source: str
    pieces: tuple[str | Variable | Substitution, ...]
    splits: bool = False


class Redirection(Struct):
    """A redirection to or from a file, or a here-document.

    Attributes:
        source: The redirection as spelled.
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
    """Commands that run in sequence or conditionally.

    Attributes:
        items: The commands.
        redirects: The redirections of the whole block.
        kind: ``list`` if each item runs after the previous one in the same shell, ``pipe`` for a pipeline, ``subshell``, ``loop`` for
            ``while`` and ``until``, ``background`` if it runs while the next commands run, ``loose`` if items may be skipped.
    """

    items: tuple[Node, ...]
    redirects: tuple[Redirection, ...] = ()
    kind: str = "list"


class Loop(Struct, frozen=True):
    """The loop ``for NAME in WORDS; do BODY; done``."""

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
"""The effect on a file."""


class FileEffect(Struct, frozen=True):
    """A file or folder that a command reads, changes, or deletes."""

    scope: FileScope
    word: Word


ApprovalTarget = Literal["self", "inner", "both"]
"""The rules that a command needs: a rule for the command itself, rules for the commands that it runs, or both."""


class AnalyzedCommand(Struct, frozen=True, kw_only=True):
    """A command that is checked separately.

    Attributes:
        words: Assignments before it, its name, and its arguments.
        text: Its source, for display.
        fixed: Number of words that a pattern must name literally to allow it. All words, if arguments may be code.
        required_rules: The rules that it needs.
        inner: The commands that it runs.
        unknown: Why the commands that it runs cannot be known; empty if they can. No pattern allows such a command.
        scan: Whether its arguments may be a command, so that deny and ask rules check each of them.
        code: Whether its arguments may be code, which is searched for paths.
        is_unrestricted: Whether it needs no rule.
        cd_target: The folder that it changes to; ``None`` if it does not change it.
        file_accesses: Files that it is known to change or read.
        piped: Whether it reads the output of another part of the line, so that its words alone do not determine its effect.
        fed: Whether it runs code from its standard input.
        feeder: For ``xargs``, the command whose output it reads, if that is one simple command and its errors are not included.
    """

    words: tuple[Word, ...]
    text: str
    fixed: int = 1
    required_rules: ApprovalTarget = "self"
    inner: tuple[AnalyzedCommand, ...] = ()
    unknown: str = ""
    scan: bool = False
    code: bool = False
    is_unrestricted: bool = False
    cd_target: Word | None = None
    file_accesses: tuple[FileEffect, ...] = ()
    piped: bool = False
    fed: bool = False
    feeder: AnalyzedCommand | None = None

    def walk(self) -> Iterator[AnalyzedCommand]:
        """Yield the command and all commands that it runs, in execution order."""
        yield self
        for unit in self.inner:
            yield from unit.walk()
