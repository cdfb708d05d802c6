"""The status line: model, mode, sandbox, context, folder, cost, branch, and queue. A narrow screen hides the least important facts."""

from __future__ import annotations

import os
from functools import cache

from mainspring.app.chat.types import Status
from mainspring.app.tui.format import format_dollars, format_tokens, format_usage
from mainspring.app.tui.safe_text import to_one_row, truncate, width
from mainspring.app.tui.styled_text import Row, make_row
from mainspring.text import pluralize

_GAP = "  "
_NEARLY_FULL = 0.8
_FOLDER_COLUMNS = 24
_MODES = {"accept_edits": "accept edits", "plan": "plan mode"}


def status_row(status: Status | None, columns: int) -> Row:
    """Return the status line.

    Args:
        status: The status; None while the chat is opening.
        columns: Width of the screen.
    """
    if status is None:
        return make_row(("status", truncate("Starting...", columns - 1)))
    model = to_one_row(status.model_label or status.model or "no model", max(20, columns // 2))
    parts: list[tuple[int, str, str]] = [(0, "accent", model)]
    if status.thinking:
        parts.append((6, "status", f"thinking {status.thinking}"))
    if status.mode != "build":
        parts.append((1, "warn", _MODES[status.mode]))
    parts.append((2, "status", f"sandbox {to_one_row(status.sandbox, 20) or 'off'}"))
    parts.append((3, *_format_context(status)))
    if status.cwd:
        parts.append((4, "status", _folder(status.cwd)))
    parts.append((4, "status", _format_spending(status)))
    if status.branch:
        parts.append((5, "status", to_one_row(status.branch, 30)))
    if status.children:
        parts.append((5, "mark", pluralize(status.children, "subagent")))
    if status.queued:
        parts.append((1, "mark", f"{status.queued} queued"))
    if status.title:
        parts.append((7, "status", to_one_row(status.title, 30)))
    return _fit_parts(parts, columns - 1)


def _folder(path: str) -> str:
    """Return a short form of a path: from the home directory, and only its end where it is long."""
    home = _home()
    if home != "/" and f"{path}/".startswith(f"{home}/"):
        path = "~" + path[len(home) :]
    path = to_one_row(path, 1000)
    while width(path) > _FOLDER_COLUMNS and "/" in (below := path.removeprefix(".../")):
        path = ".../" + below.partition("/")[2]
    return to_one_row(path, _FOLDER_COLUMNS)


@cache
def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _format_context(status: Status) -> tuple[str, str]:
    used, window = status.context_used, status.context_window
    if not window:
        return "status", f"{format_tokens(used)} context"
    share = used / window
    style = "warn" if share >= _NEARLY_FULL else "status"
    return style, f"{share:.0%} of {format_tokens(window)} context"


def _format_spending(status: Status) -> str:
    """Return the cost, or the tokens if the model has no known price."""
    if status.cost is None:
        return format_usage(status.tokens, None)
    more = " + unknown" if status.has_unknown_prices else ""
    return format_dollars(status.cost) + more + (f" of {format_dollars(status.max_cost)}" if status.max_cost else "")


def _fit_parts(parts: list[tuple[int, str, str]], columns: int) -> Row:
    """Return the parts that fit. Parts with larger numbers are hidden first."""
    while len(parts) > 1 and sum(width(text) + len(_GAP) for _, _, text in parts) - len(_GAP) > columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown: Row = []
    for _, style, text in parts:
        shown += make_row(_GAP) if shown else []
        shown += make_row((style, truncate(text, columns)))
    return shown
