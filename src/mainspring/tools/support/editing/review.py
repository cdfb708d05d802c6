"""Approval of individual edits, and the text format that reports the outcome of each edit."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.tools.tool import ToolContext

if TYPE_CHECKING:
    from mainspring.tools.support.editing.replacement import Edit

APPROVE_HUNK = "approve_hunk"
"""Key in `ToolContext.extra` of an `Approve` function; without it, all edits are made."""

EditStatus = Literal["applied", "denied", "failed", "skipped", "unchanged"]
"""Outcome of an edit: ``skipped`` because another edit failed, ``unchanged`` because the text already existed."""

_HEAD = lazy_re(r"Edited (?P<path>.+): (?P<applied>\d+)/(?P<total>\d+) applied(?P<rest>(?: · \d+ [a-z]+)*)")
_LINE = lazy_re(rf"(\d+)\. ({'|'.join(get_args(EditStatus))})(?:: (.*))?")


class EditHunk(Struct, frozen=True):
    """An edit to approve.

    Attributes:
        path: File, as the call names it.
        number: Number of the edit in the call, from 1.
        total: Number of edits in the call.
        old: Removed text.
        new: Added text.
        every: Whether to replace all occurrences.
        call_id: ID of the call.
        agent: Name of the agent that made the call.
    """

    path: str
    number: int
    total: int
    old: str
    new: str
    every: bool = False
    call_id: str = ""
    agent: str = ""


Answer = bool | str
"""Whether to make an edit; a text denies it with a reason."""

Approve = Callable[[EditHunk], Answer | Awaitable[Answer]]
"""Function that decides on an edit."""


class ReviewedEdit(Struct, frozen=True):
    """Outcome of an edit; ``note`` is the reason or the position, in one line."""

    fate: EditStatus
    note: str = ""


class EditOutcomes(Struct, frozen=True):
    """Outcomes of all edits of a call, in order."""

    path: str
    hunks: tuple[ReviewedEdit, ...]

    @property
    def applied(self) -> int:
        """Number of applied edits."""
        return sum(hunk.fate == "applied" for hunk in self.hunks)


def format_edit_outcomes(outcomes: EditOutcomes) -> str:
    """Format the body of a result: ``Edited <path>: N/M applied · K denied · …``, and a line for each edit."""
    counts = Counter(hunk.fate for hunk in outcomes.hunks)
    others = [f" · {counts[fate]} {fate}" for fate in get_args(EditStatus)[1:] if counts[fate]]
    head = f"Edited {outcomes.path}: {counts['applied']}/{len(outcomes.hunks)} applied{''.join(others)}"
    lines = [
        f"{number}. {hunk.fate}" + (f": {' '.join(hunk.note.split())}" if hunk.note.strip() else "")
        for number, hunk in enumerate(outcomes.hunks, 1)
    ]
    return "\n".join([head, *lines])


def parse_edit_outcomes(text: str) -> EditOutcomes | None:
    """Parse the text of `format_edit_outcomes` in a result; ``None`` if the result does not begin with such a text."""
    head, *lines = text.split("\n")
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    hunks: list[ReviewedEdit] = []
    for line in lines[: int(match["total"])]:
        found = _LINE.fullmatch(line)
        if found is None or int(found[1]) != len(hunks) + 1:
            return None
        hunks.append(ReviewedEdit(_parse_status(found[2]), found[3] or ""))
    outcomes = EditOutcomes(match["path"], tuple(hunks))
    return outcomes if len(hunks) == int(match["total"]) and outcomes.applied == int(match["applied"]) else None


def _parse_status(text: str) -> EditStatus:
    return next(fate for fate in get_args(EditStatus) if fate == text)


async def request_decisions(ctx: ToolContext, path: str, edits: Sequence[Edit]) -> list[Answer]:
    """Return the decision on each edit; decisions are requested sequentially."""
    approve: Approve = ctx.extra[APPROVE_HUNK]
    answers: list[Answer] = []
    for number, edit in enumerate(edits, 1):
        answer = approve(EditHunk(path, number, len(edits), edit.old, edit.new, edit.every, ctx.call_id, ctx.agent))
        answers.append(await answer if inspect.isawaitable(answer) else answer)
    return answers
