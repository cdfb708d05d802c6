"""`multi_edit` with approval of each edit."""

from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from mainspring.env import MemoryEnv
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import multi_edit
from mainspring.tools.support.editing.review import (
    APPROVE_HUNK,
    EditHunk,
    EditOutcomes,
    EditStatus,
    ReviewedEdit,
    format_edit_outcomes,
    parse_edit_outcomes,
)

FILE = "one\ntwo\nthree\nfour\n"


def make_edits(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"old_string": old, "new_string": new} for old, new in pairs]


async def edit_with_approval(answers: list[Any], *pairs: tuple[str, str]) -> tuple[Any, bytes, list[EditHunk]]:
    env, request = MemoryEnv({"a.txt": FILE}), list[EditHunk]()

    async def approve(hunk: EditHunk) -> Any:
        request.append(hunk)
        return answers[hunk.number - 1]

    ctx = ToolContext(env=env, extra={APPROVE_HUNK: approve})
    return await multi_edit(ctx, path="a.txt", edits=make_edits(*pairs)), env.files["a.txt"], request


@pytest.mark.covers("TOL-14")
async def test_denied_edits_are_skipped_and_reported() -> None:
    result, after, request = await edit_with_approval(
        [True, "not the second", True, False], ("one", "1"), ("two", "2"), ("three", "3\n3"), ("four", "4")
    )
    assert after == b"1\ntwo\n3\n3\nfour\n"
    assert result.text == (
        "Edited a.txt: 2/4 applied · 2 denied\n1. applied: line 1\n2. denied: not the second\n3. applied: line 3\n4. denied"
    )
    assert not result.is_error
    assert parse_edit_outcomes(result.text) == EditOutcomes(
        "a.txt",
        (
            ReviewedEdit("applied", "line 1"),
            ReviewedEdit("denied", "not the second"),
            ReviewedEdit("applied", "line 3"),
            ReviewedEdit("denied"),
        ),
    )
    assert request[1] == EditHunk("a.txt", 2, 4, "two", "2")


@pytest.mark.covers("TOL-14")
async def test_approved_edits_are_applied_together_or_not_at_all() -> None:
    result, after, _ = await edit_with_approval([True, False, True], ("one", "1"), ("two", "2"), ("2", "II"))
    assert after == FILE.encode()
    assert result.text.startswith(
        "Edited a.txt: 0/3 applied · 1 denied · 1 failed · 1 skipped\n1. skipped\n2. denied\n3. failed: Edit 2 of 2 failed"
    )
    assert result.is_error
    assert [h.fate for h in (parse_edit_outcomes(result.text) or EditOutcomes("", ())).hunks] == [
        "skipped",
        "denied",
        "failed",
    ]


@pytest.mark.covers("TOL-14")
async def test_nothing_changes_if_no_edit_is_approved() -> None:
    result, after, _ = await edit_with_approval([False, "no"], ("one", "1"), ("two", "2"))
    assert (after, result.code) == (FILE.encode(), ToolErrorCode.PERMISSION_DENIED)
    assert result.text.startswith("Edited a.txt: 0/2 applied · 2 denied\n1. denied\n2. denied: no\n")


async def test_already_applied_edit_is_unchanged() -> None:
    result, _, _ = await edit_with_approval([True, True], ("one", "1"), ("2 was two already", "two\nthree\nfour"))
    assert "unchanged" in result.text or result.is_error


async def test_approval_function_may_be_synchronous_or_missing() -> None:
    env = MemoryEnv({"a.txt": FILE})
    ctx = ToolContext(env=env, extra={APPROVE_HUNK: lambda hunk: hunk.new != "1"})
    assert (await multi_edit(ctx, path="a.txt", edits=make_edits(("one", "1"), ("two", "2")))).text.startswith(
        "Edited a.txt: 1/2 applied · 1 denied"
    )
    plain = await multi_edit(ToolContext(env=env), path="a.txt", edits=make_edits(("one", "1"), ("three", "3")))
    assert plain.text == "Edited a.txt: 2 edits, 2 replacements (+2 -2 lines)."
    assert parse_edit_outcomes(plain.text) is None


@pytest.mark.covers("TOL-14")
@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1),
    st.lists(st.tuples(st.sampled_from(get_args(EditStatus)), st.text()), min_size=1),
    st.text(),
)
def test_formatted_outcomes_parse_back(path: str, hunks: list[tuple[EditStatus, str]], suffix: str) -> None:
    outcomes = EditOutcomes(path, tuple([ReviewedEdit(fate, " ".join(note.split())) for fate, note in hunks]))
    assert parse_edit_outcomes(format_edit_outcomes(outcomes)) == outcomes
    assert parse_edit_outcomes(f"{format_edit_outcomes(outcomes)}\n{suffix}") == outcomes


@given(st.text())
def test_other_text_has_no_outcomes(text: str) -> None:
    assert parse_edit_outcomes(text) is None
