"""Edits that somebody decides on one by one, and the text that tells what became of each."""

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
"""Key in `ToolContext.extra` of an `Approve`; without one every edit is made."""

EditStatus = Literal["applied", "denied", "failed", "skipped", "unchanged"]
"""What became of an edit: ``skipped`` because another failed, ``unchanged`` because the text was there already."""

_HEAD = lazy_re(r"Edited (?P<path>.+): (?P<applied>\d+)/(?P<total>\d+) applied(?P<rest>(?: · \d+ [a-z]+)*)")
_LINE = lazy_re(rf"(\d+)\. ({'|'.join(get_args(EditStatus))})(?:: (.*))?")


class EditHunk(Struct, frozen=True):
    """An edit to decide on.

    Attributes:
        path: The file, as the call names it.
        number: Which edit of the call, from 1.
        total: How many the call has.
        old: The text that goes.
        new: The text that comes.
        every: Whether all places are meant.
        call_id: The call that makes it.
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
"""Whether an edit is made; a text is a no with its reason."""

Approve = Callable[[EditHunk], Answer | Awaitable[Answer]]
"""Decides on an edit."""


class ReviewedEdit(Struct, frozen=True):
    """What became of one edit; ``note`` says why or where, in one line."""

    fate: EditStatus
    note: str = ""


class EditOutcomes(Struct, frozen=True):
    """What became of all edits of a call, in their order."""

    path: str
    hunks: tuple[ReviewedEdit, ...]

    @property
    def applied(self) -> int:
        """How many were made."""
        return sum(hunk.fate == "applied" for hunk in self.hunks)


def format_edit_outcomes(outcomes: EditOutcomes) -> str:
    """The body of a result: ``Edited <path>: N/M applied · K denied · …``, and a line for each edit."""
    counts = Counter(hunk.fate for hunk in outcomes.hunks)
    others = [f" · {counts[fate]} {fate}" for fate in get_args(EditStatus)[1:] if counts[fate]]
    head = f"Edited {outcomes.path}: {counts['applied']}/{len(outcomes.hunks)} applied{''.join(others)}"
    lines = [
        f"{number}. {hunk.fate}" + (f": {' '.join(hunk.note.split())}" if hunk.note.strip() else "")
        for number, hunk in enumerate(outcomes.hunks, 1)
    ]
    return "\n".join([head, *lines])


def parse_edit_outcomes(text: str) -> EditOutcomes | None:
    """What `format_outcomes` told, from the text of a result; ``None`` if it does not begin with such a body."""
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
    """The answer for each edit, asked one after the other."""
    approve: Approve = ctx.extra[APPROVE_HUNK]
    answers: list[Answer] = []
    for number, edit in enumerate(edits, 1):
        answer = approve(EditHunk(path, number, len(edits), edit.old, edit.new, edit.every, ctx.call_id, ctx.agent))
        answers.append(await answer if inspect.isawaitable(answer) else answer)
    return answers
