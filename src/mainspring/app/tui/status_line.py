"""The status line: model, mode, sandbox, context, folder, cost, branch, and queue; a narrow screen leaves out the least needed."""

from __future__ import annotations

import os
from functools import cache

from mainspring.app.chat.types import Status
from mainspring.app.tui.format import dollars, spent, tokens
from mainspring.app.tui.safe_text import cut, one_row, width
from mainspring.app.tui.styled_text import Row, row
from mainspring.text import counted

_GAP = "  "
_NEARLY_FULL = 0.8
_FOLDER_COLUMNS = 24
_MODES = {"accept_edits": "accept edits", "plan": "plan mode"}


def status_row(status: Status | None, columns: int) -> Row:
    """The status line.

    Args:
        status: How the chat stands; ``None`` while it is being opened.
        columns: How wide the screen is.
    """
    if status is None:
        return row(("status", cut("starting ...", columns - 1)))
    model = one_row(status.model_label or status.model or "no model", max(20, columns // 2))
    parts: list[tuple[int, str, str]] = [(0, "accent", model)]
    if status.thinking:
        parts.append((6, "status", f"thinking {status.thinking}"))
    if status.mode != "build":
        parts.append((1, "warn", _MODES[status.mode]))
    parts.append((2, "status", f"sandbox {one_row(status.sandbox, 20) or 'off'}"))
    parts.append((3, *_context(status)))
    if status.cwd:
        parts.append((4, "status", _folder(status.cwd)))
    parts.append((4, "status", _spent(status)))
    if status.branch:
        parts.append((5, "status", one_row(status.branch, 30)))
    if status.children:
        parts.append((5, "mark", counted(status.children, "sub-agent")))
    if status.queued:
        parts.append((1, "mark", f"{status.queued} queued"))
    if status.title:
        parts.append((7, "status", one_row(status.title, 30)))
    return _fitting(parts, columns - 1)


def _folder(path: str) -> str:
    """Return a short form of a path: from the home directory, and only its end where it is long."""
    home = _home()
    if home != "/" and f"{path}/".startswith(f"{home}/"):
        path = "~" + path[len(home) :]
    path = one_row(path, 1000)
    while width(path) > _FOLDER_COLUMNS and "/" in (below := path.removeprefix(".../")):
        path = ".../" + below.partition("/")[2]
    return one_row(path, _FOLDER_COLUMNS)


@cache
def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _context(status: Status) -> tuple[str, str]:
    used, window = status.context_used, status.context_window
    if not window:
        return "status", f"ctx {tokens(used)}"
    share = used / window
    style = "warn" if share >= _NEARLY_FULL else "status"
    return style, f"ctx {share:.0%} of {tokens(window)}"


def _spent(status: Status) -> str:
    """Money; tokens where the model has no known price."""
    if status.cost is None:
        return spent(status.tokens, None)
    return dollars(status.cost) + (f" of {dollars(status.max_cost)}" if status.max_cost else "")


def _fitting(parts: list[tuple[int, str, str]], columns: int) -> Row:
    """The parts that fit; of two, the one with the smaller number stays."""
    while len(parts) > 1 and sum(width(text) + len(_GAP) for _, _, text in parts) - len(_GAP) > columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown: Row = []
    for _, style, text in parts:
        shown += row(_GAP) if shown else []
        shown += row((style, cut(text, columns)))
    return shown
