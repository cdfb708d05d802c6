"""Short forms of tool calls, results, and diffs."""

import difflib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mainspring.app.chat.tool_display import (
    MAX_LINES,
    display_start,
    parse_diff,
    summarize_arguments,
    truncate_middle,
)
from mainspring.app.workspace.git import current_branch
from mainspring.events import ToolExecutionStart
from mainspring.messages import ToolUseBlock


def test_summary_shows_the_main_argument() -> None:
    assert summarize_arguments({"content": "x", "path": "a.txt"}) == "a.txt"
    assert summarize_arguments({"command": "ls\n  -l"}) == "ls -l"
    assert summarize_arguments({"odd": "only this"}) == "only this"
    assert summarize_arguments({"n": 1}) == ""
    assert len(summarize_arguments({"command": "x" * 10_000})) <= 160


def test_unreadable_arguments_are_shown_unchanged() -> None:
    event = display_start(ToolExecutionStart(ToolUseBlock("1", "shell", raw_input='{"command": "ls')), "Shell")

    assert event.call.input == {"(not readable)": '{"command": "ls'}


def test_long_result_is_truncated_in_the_middle() -> None:
    truncated, hidden = truncate_middle("\n".join(map(str, range(1000))))

    assert hidden == 1000 - MAX_LINES
    assert truncated.startswith("0\n1\n")
    assert truncated.endswith("\n999")
    assert len(truncate_middle("x" * 1_000_000)[0]) < 20_000


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


def test_current_branch_of_a_worktree(tmp_path: Path) -> None:
    git = tmp_path / "repo" / ".git" / "worktrees" / "w"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/topic\n", encoding="utf-8")
    work = tmp_path / "w" / "below"
    work.mkdir(parents=True)
    (tmp_path / "w" / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")

    assert current_branch(str(work)) == "topic"
    assert current_branch(str(tmp_path)) == ""
