"""The status line: model, context, cost, branch, mode, what waits; what is least needed goes first where it is narrow."""

from __future__ import annotations

from mainspring.app.tui.figures import dollars, spent, tokens
from mainspring.app.tui.fragments import Row, row
from mainspring.app.tui.plain import cut, one_row, width
from mainspring.counting import counted
from mainspring.runtime.chat.words import Status

_GAP = "  "
_NEARLY_FULL = 0.8


def status_row(status: Status | None, columns: int) -> Row:
    """The status line.

    Args:
        status: How the chat stands; ``None`` while it is being opened.
        columns: How wide the screen is.
    """
    if status is None:
        return row(("status", cut("starting ...", columns - 1)))
    model = one_row(status.model_label or status.model or "no model", max(40, columns // 2))
    parts: list[tuple[int, str, str]] = [(0, "accent", model)]
    if status.thinking:
        parts.append((5, "status", f"thinking {status.thinking}"))
    if status.mode == "plan":
        parts.append((1, "warn", "plan mode"))
    parts.append((2, *_context(status)))
    parts.append((3, "status", _spent(status)))
    if status.branch:
        parts.append((4, "status", one_row(status.branch, 30)))
    if status.children:
        parts.append((4, "mark", counted(status.children, "sub-agent")))
    if status.queued:
        parts.append((1, "mark", f"{status.queued} queued"))
    if status.title:
        parts.append((6, "status", one_row(status.title, 30)))
    return _fitting(parts, columns - 1)


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
