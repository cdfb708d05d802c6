"""Short forms of tool calls, results, and diffs."""

from pathlib import Path

from mainspring.app.chat.tool_display import (
    MAX_LINES,
    display_start,
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

    assert hidden == 1001 - MAX_LINES
    assert truncated.count("\n") == MAX_LINES - 1
    assert f"\n39\n[... {hidden} lines not shown ...]\n{40 + hidden}\n" in truncated
    assert truncated.startswith("0\n1\n")
    assert truncated.endswith("\n999")
    assert len(truncate_middle("x" * 1_000_000)[0]) < 20_000


def test_current_branch_of_a_worktree(tmp_path: Path) -> None:
    git = tmp_path / "repo" / ".git" / "worktrees" / "w"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/topic\n", encoding="utf-8")
    work = tmp_path / "w" / "below"
    work.mkdir(parents=True)
    (tmp_path / "w" / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")

    assert current_branch(str(work)) == "topic"
    assert current_branch(str(tmp_path)) == ""
