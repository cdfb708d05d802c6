"""Parse read-only git commands: the revisions, paths, and options that select the shown files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.shell_analysis.syntax import Word

if TYPE_CHECKING:
    from mainspring.shell_analysis.readonly_programs import ReadonlyProgram

RUNS_GPG = lazy_re(r"%[-+ ]?G|%\(\*?signature|--sort[= ]\S*signature")
"""Placeholders of formats, and sort keys, for signatures, with which git starts gpg."""

_SHOWS_OBJECTS = lazy_re(r"%\(\*?raw")
"""Placeholders for raw objects, which may be the content of files."""


class GitCommand(Struct, frozen=True):
    """A git command.

    Attributes:
        name: The subcommand.
        options: The options, each with its value.
        operands: The words before ``--``: revisions, and then paths.
        paths: The words after ``--``.
        is_ended: Whether there is a ``--``, so that every operand is a revision.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    operands: tuple[Word, ...] = ()
    paths: tuple[Word, ...] = ()
    is_ended: bool = False


def sort_git_words(name: str, reader: ReadonlyProgram, words: Sequence[Word]) -> GitCommand | None:
    """Parse the words after a subcommand; None if an option makes git run a program or show objects.

    Args:
        name: The subcommand.
        reader: Its entry in the table, which names the options with a value.
        words: The words; the table contains all options in them.
    """
    options: list[tuple[str, str]] = []
    operands: list[Word] = []
    paths: list[Word] = []
    is_ended = has_pattern = False
    text = " ".join(word.text for word in words)
    if name != "grep" and (RUNS_GPG.search(text) or _SHOWS_OBJECTS.search(text)):
        return None
    rest = iter(words)
    for word in rest:
        if is_ended:
            paths.append(word)
        elif word.text == "--":
            is_ended = True
        elif word.text.startswith("-") and word.text != "-":
            following = next(rest, None) if word.text in reader.valued else None
            value = following.text if following is not None else ""
            has_pattern = has_pattern or word.text.partition("=")[0] in reader.pattern_options
            options.append((word.text, value))
        else:
            operands.append(word)
    if reader.operands == "pattern" and not has_pattern:
        (operands or paths)[:1] = []
    return GitCommand(name, tuple(options), tuple(operands), tuple(paths), is_ended)


def path_in_revision(text: str) -> str:
    """Return the path in ``REVISION:PATH``, or in ``:PATH`` for the index; empty if the operand contains none."""
    if text.startswith(":"):
        stage = text[1:2] in tuple("0123") and text[2:3] == ":"
        return "" if text.startswith(":/") else text[3 if stage else 1 :]
    depth = 0
    for at, character in enumerate(text):
        if character == "{":
            depth += 1
        elif character == "}" and depth:
            depth -= 1
        elif character == ":" and not depth:
            return text[at + 1 :]
    return ""
