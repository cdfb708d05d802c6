"""Results of slash commands: a few shapes that each front end can show, so that a new command needs no new formatter."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mainspring.events import FileDiff
from mainspring.text import to_snake_case


class _Shown(Struct, frozen=True, tag_field="type", tag=to_snake_case):
    pass


class Text(_Shown, frozen=True):
    """A text, in Markdown if ``markdown`` is set."""

    text: str
    title: str = ""
    markdown: bool = False


class Fields(_Shown, frozen=True):
    """Names and values, in order."""

    fields: tuple[tuple[str, str], ...]
    title: str = ""


class Table(_Shown, frozen=True):
    """Rows under headings; ``empty`` is shown in place of zero rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    empty: str = ""


class Choice(Struct, frozen=True):
    """An entry of a list; ``line`` is the command line that selects it.

    Attributes:
        label: The text for the user.
        line: For example, ``/model openai:gpt-5-mini``.
        detail: Further text.
        current: Whether the entry is selected now.
        depth: Level of indentation, in a tree.
        preview: Lines about the entry, which are searched and shown while it is selected.
    """

    label: str
    line: str
    detail: str = ""
    current: bool = False
    depth: int = 0
    preview: str = ""


class Picker(_Shown, frozen=True):
    """A list to choose from: the front end sends the chosen line as `Slash`, or prints the list.

    Attributes:
        title: The title.
        choices: The entries.
        empty: Text in place of zero entries.
        preview: What the front end can preview while the selection moves: ``theme``, by the label of an entry.
    """

    title: str
    choices: tuple[Choice, ...]
    empty: str = ""
    preview: Literal["", "theme"] = ""


class Changes(_Shown, frozen=True):
    """Changes to files, with a summary."""

    text: str
    diffs: tuple[FileDiff, ...] = ()


class Clipboard(_Shown, frozen=True):
    """A text for the clipboard of the user."""

    text: str


class Screen(_Shown, frozen=True):
    """An action of the front end: ``clear`` the screen, or ``quit``."""

    action: Literal["clear", "quit"]


class UiSetting(_Shown, frozen=True):
    """A setting of the front end that was saved and applies immediately: ``theme`` or ``editing``."""

    key: Literal["theme", "editing"]
    value: str


CommandResult = Text | Fields | Table | Picker | Changes | Clipboard | Screen | UiSetting
"""The results that a command can return."""


class Candidate(Struct, frozen=True):
    """A completion.

    Attributes:
        text: The text that replaces ``[start:]`` of the line.
        start: The first character to replace.
        detail: Further text.
    """

    text: str
    start: int = 0
    detail: str = ""
