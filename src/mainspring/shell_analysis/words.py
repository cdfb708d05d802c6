"""The words of a shell command."""

from __future__ import annotations

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


def program(text: str) -> str:
    """The name of a program without its folder and without ``.exe``, folded."""
    name = fold(text.rsplit("/", 1)[-1])
    unknown = name.rfind(wildcards.MANY)  # may hold a slash, so that what stands before it is no part of the name
    if unknown >= 0:
        name = name[unknown:]
    return name.removesuffix(".exe")
