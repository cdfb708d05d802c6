"""Diffs: computed, cut, and parsed again."""

import difflib
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from mainspring.tools.support.editing.diffs import MAX_DIFF_BYTES, compute_diff, count_common_lines, parse_diff


def test_removed_line_can_look_like_a_header() -> None:
    before = ["-- a/x\n", "@@ -1 +1 @@\n", "++ b/x\n", "same\n"]
    after = ["same\n"]
    text = "".join(difflib.unified_diff(before, after, "a/f", "b/f"))

    [diff] = parse_diff(text)

    assert (diff.path, diff.added, diff.removed) == ("f", 0, 3)
    assert diff.hunks[0].lines == ("--- a/x", "-@@ -1 +1 @@", "-++ b/x", " same")


_LINES = st.lists(
    st.text(
        st.characters(exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", exclude_categories=["Cs"]),
        max_size=6,
    ),
    max_size=12,
)


@given(_LINES, _LINES)
def test_parsed_diff_reproduces_the_change(before: list[str], after: list[str]) -> None:
    a, b = [line + "\n" for line in before], [line + "\n" for line in after]
    text = "".join(difflib.unified_diff(a, b, "a/some file", "b/some file"))

    found = parse_diff(text)

    if a == b:
        assert found == ()
        return
    [diff] = found
    assert diff.path == "some file"
    assert len(b) - len(a) == diff.added - diff.removed
    assert _apply_hunks(before, [(hunk.header, hunk.lines) for hunk in diff.hunks]) == after
    assert [hunk.number for hunk in diff.hunks] == list(range(len(diff.hunks)))


def _apply_hunks(before: list[str], hunks: list[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Apply hunks to lines, like `patch`."""
    result: list[str] = []
    at = 0
    for header, lines in hunks:
        start, _, count = header.split()[1][1:].partition(",")
        first = int(start) - (count != "0")
        result += before[at:first]
        result += [line[1:] for line in lines if line[0] != "-"]
        at = first + sum(line[0] != "+" for line in lines)
    return result + before[at:]


@given(st.text(max_size=300))
def test_any_text_can_be_parsed(text: str) -> None:
    parse_diff(text)


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_computed_diff_reproduces_the_change(before: list[str], after: list[str]) -> None:
    computed = compute_diff("".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after), "f")

    found = parse_diff(computed.text)

    assert sum(diff.added for diff in found) == computed.metadata["added"]
    assert sum(diff.removed for diff in found) == computed.metadata["removed"]
    assert _apply_hunks(before, [(hunk.header, hunk.lines) for diff in found for hunk in diff.hunks]) == after


@given(st.lists(st.sampled_from("ab"), max_size=4), st.lists(st.sampled_from("ab"), max_size=4))
def test_common_lines_are_counted_once(old: list[str], new: list[str]) -> None:
    head, tail = count_common_lines(old, new)

    assert old[:head] == new[:head]
    assert old[len(old) - tail :] == new[len(new) - tail :]
    assert head + tail <= min(len(old), len(new))
    rest = (old[head : len(old) - tail], new[head : len(new) - tail])
    assert not all(rest) or (rest[0][0] != rest[1][0] and rest[0][-1] != rest[1][-1])


def test_long_diffs_are_cut() -> None:
    cut = compute_diff("", "x" * 99 + "\n" + "y\n" * 1_000 + "z" * 300_000, "f").text
    assert len(cut) < MAX_DIFF_BYTES + 100
    assert cut.endswith("bytes more)\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (range(20), [*range(10), *range(100, 4_000), *range(11, 20)]),
        ([], range(3_000)),
        (range(3_000), []),
        (range(2_500), range(1, 2_500, 2)),
    ],
)
def test_diff_of_many_lines_is_complete(before: Sequence[int], after: Sequence[int]) -> None:
    old, new = [f"{i}" for i in before], [f"{i}" for i in after]
    computed = compute_diff("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new), "f")
    [diff] = parse_diff(computed.text)

    assert (diff.added, diff.removed) == (computed.added, computed.removed)
    assert _apply_hunks(old, [(hunk.header, hunk.lines) for hunk in diff.hunks]) == new


def test_missing_newline_is_marked_and_not_parsed() -> None:
    computed = compute_diff("a\nb", "a\nc\n", "f")

    assert computed.text.endswith(" a\n-b\n\\ No newline at end of file\n+c\n")
    assert parse_diff(computed.text)[0].hunks[0].lines == (" a", "-b", "+c")
