"""What slash commands give: a few shapes that every front end can show, so that a new command needs no new formatter."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mainspring.app.chat.types import FileDiff, snake_case_tag


class _Shown(Struct, frozen=True, tag_field="type", tag=snake_case_tag):
    pass


class Text(_Shown, frozen=True):
    """A text. ``markdown``: whether it is Markdown; otherwise every character stands for itself."""

    text: str
    title: str = ""
    markdown: bool = False


class Fields(_Shown, frozen=True):
    """Names and values, in order."""

    fields: tuple[tuple[str, str], ...]
    title: str = ""


class Table(_Shown, frozen=True):
    """Rows under headings. ``empty``: what to say where there are none."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    empty: str = ""


class Choice(Struct, frozen=True):
    """One of several: ``line`` is the command line that takes it.

    Attributes:
        label: For people.
        line: As ``/model openai:gpt-5-mini``.
        detail: More about it.
        current: Whether it holds now.
        depth: How far it is indented, in a tree.
    """

    label: str
    line: str
    detail: str = ""
    current: bool = False
    depth: int = 0


class Picker(_Shown, frozen=True):
    """Something to choose: the front end lets people pick, and sends the line as `Slash`; or it prints the list."""

    title: str
    choices: tuple[Choice, ...]
    empty: str = ""


class Changes(_Shown, frozen=True):
    """Changes to files, with a sentence about them."""

    text: str
    diffs: tuple[FileDiff, ...] = ()


class Clipboard(_Shown, frozen=True):
    """A text for the user's clipboard."""

    text: str


class Screen(_Shown, frozen=True):
    """Something that only the front end can do: ``clear`` its screen, or ``quit``."""

    action: Literal["clear", "quit"]


CommandResult = Text | Fields | Table | Picker | Changes | Clipboard | Screen
"""What a command can give."""


class Candidate(Struct, frozen=True):
    """A completion.

    Attributes:
        text: What to put in place of ``[start:]`` of the line.
        start: From which character on it replaces.
        detail: More about it.
    """

    text: str
    start: int = 0
    detail: str = ""
