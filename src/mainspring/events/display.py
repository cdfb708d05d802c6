"""How a tool call is shown to users: a part of the events of tools and approvals, added by the front end."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Hunk(Struct, frozen=True):
    """One change within a file.

    Attributes:
        number: Counts from 0 through all files of the call; `Approve.hunks` contains these numbers.
        header: For example, ``@@ -3,4 +3,5 @@``.
        lines: Each starts with a space, ``-``, or ``+`` and has no line end.
    """

    number: int
    header: str
    lines: tuple[str, ...]


class FileDiff(Struct, frozen=True, kw_only=True):
    """The changes of a file.

    Attributes:
        path: The path, as shown to the user.
        change: The kind of change.
        added: Number of added lines.
        removed: Number of removed lines.
        hunks: The changes, in order.
        note: A change that no line shows, for example ``line ends become LF`` or ``binary``.
        left_out: Number of omitted lines of the diff.
    """

    path: str
    change: Literal["edit", "create", "delete", "rename"] = "edit"
    added: int = 0
    removed: int = 0
    hunks: tuple[Hunk, ...] = ()
    note: str = ""
    left_out: int = 0


class EditOutcome(Struct, frozen=True):
    """How many changes of one edit were applied.

    Attributes:
        path: The file.
        applied: Number of applied changes.
        total: Number of changes.
        denied: Number of changes that the user denied.
        failed: Number of changes that could not be applied.
        reason: The user's reason for the denial.
    """

    path: str
    applied: int
    total: int
    denied: int = 0
    failed: int = 0
    reason: str = ""


class Option(Struct, frozen=True):
    """An option of a question or an approval.

    Attributes:
        value: The value that the answer contains.
        label: The text for the user.
        description: Further text. For an approval, the text of a button.
    """

    value: str
    label: str = ""
    description: str = ""


class ToolDisplay(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a call or its result is shown.

    Attributes:
        name: Display name of the tool.
        summary: One line that describes the call, for example a path, or its result.
        hidden_lines: Number of lines that were removed from the middle of the result.
        diffs: The changes of files.
        edits: How many changes were applied, if some were denied or failed.
        images: Number of images in the result.
        terminal: The terminal of the client that runs the command.
    """

    name: str = ""
    summary: str = ""
    hidden_lines: int = 0
    diffs: tuple[FileDiff, ...] = ()
    edits: tuple[EditOutcome, ...] = ()
    images: int = 0
    terminal: str = ""
