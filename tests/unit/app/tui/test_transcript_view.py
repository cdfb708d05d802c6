import msgspec
import pytest

from mainspring.app.chat import events as told
from mainspring.app.chat.command_results import Text
from mainspring.app.chat.types import EditOutcome, FileDiff, Hunk
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView


def transcript(columns: int = 80, **look: object) -> TranscriptView:
    return TranscriptView(msgspec.structs.replace(Theme(), **look), columns, 24)


def shown(one: TranscriptView, *events: told.ChatEvent, now: float = 1.0) -> str:
    return to_text([row for event in events for row in one.show(event, now)])


@pytest.mark.covers("CLI-15")
def test_sub_agents_stand_nested_under_their_names() -> None:
    one = transcript()
    text = shown(
        one,
        told.ToolStarted("t", "spawn", "Sub-agent", "explore"),
        told.ChildStarted("c1", "explore", "find it\nin there"),
        told.ChildEvent("c1", told.ToolStarted("x", "grep", "Search", "needle")),
        told.ChildEvent("c1", told.ToolFinished("x", "grep", "Search", "3 hits", output="a\nb\nc")),
        told.ChildStarted("c2", "deep", "more", depth=2, parent="c1"),
    )
    assert text == "+ explore: find it in there\n  | * Search 3 hits\n  | + deep: more\n"
    one.show(told.ChildEvent("c2", told.AnswerText("thinking about it")), 1.0)
    live = to_text(one.live(3.0, 10))
    assert "explore 2.0 s Waiting for the model" in live
    assert "  | " in live
    assert "deep 2.0 s thinking about it" in live
    both = shown(
        one,
        told.ChildEvent("c2", told.ToolStarted("y", "shell", "Run", "ls")),
        told.ChildEvent("c2", told.ToolFinished("y", "shell", "Run", "ls", is_error=True)),
        told.ChildFinished("c2", "deep", "completed", turns=2, tokens=1500, cost=0.25, seconds=12),
        told.ChildFinished("c1", "explore", "error", error="no\x1b[31m model", turns=1),
    )
    assert "  |   | deep x Run ls failed\n" in both
    assert "  | + deep done  2 turns, 1.5k tokens, $0.25, 12 s\n" in both
    assert "+ explore error" in both
    assert "    no model\n" in both


@pytest.mark.covers("CLI-16")
def test_tools_have_their_names_for_people_and_fold_what_is_long() -> None:
    one = transcript()
    output = "\n".join(f"row {i} [bold]x[/nope]" for i in range(20))
    started = told.ToolStarted("t", "shell", "Run command", "make \x1b]0;x\x07 all")
    assert shown(one, started) == ""
    one.show(told.ToolProgress("t", "compiling\r\x1b[2K"), 1.0)
    assert r"Run command make \x1b]0;x\x07 all 4.0 s" "\n    compiling" in to_text(one.live(5.0, 10))
    text = shown(one, told.ToolFinished("t", "shell", "Run command", "make all", output=output, seconds=4))
    assert text.startswith(
        "* Run command make all 4.0 s\n  ... 15 more lines (Ctrl-O to show)\n    row 15 [bold]x[/nope]\n"
    )
    assert to_text(one.collapsed.expand_last()).count("row ") == 20
    denied = told.ToolFinished("u", "shell", "Run command", "rm", is_error=True, denied=True, output="not now")
    assert shown(one, denied) == "- Run command rm denied\n    not now\n"


def test_changes_are_shown_once() -> None:
    one = transcript()
    diff = FileDiff(path="a", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+b")),))
    asked = told.ApprovalAsked("q", "t", "edit", "Edit", "write", "a", diffs=(diff,))
    done = told.ToolFinished("t", "edit", "Edit", "a", diffs=(diff,))
    text = shown(one, told.ToolStarted("t", "edit", "Edit", "a"), asked, told.ApprovalSettled("q", "once"), done)
    assert text.count("+ b") == 1
    assert "    Allowed\n" in text
    partly = told.ToolFinished(
        "v", "edit", "Edit", "a", diffs=(diff,), edits=(EditOutcome("a", 1, 2, 1, reason="not that"),)
    )
    text = shown(one, partly)
    assert "a: 1 of 2 changes applied; not that" in text
    assert "+ b" in text


def test_answers_stand_apart_from_tools_and_an_open_one_is_closed_by_what_comes_next() -> None:
    one = transcript()
    text = shown(
        one,
        told.UserText("do it\nnow", attachments=1),
        told.AnswerText("I *look"),
        told.ToolStarted("t", "grep", "Search", "x"),
        told.ToolFinished("t", "grep", "Search", "x"),
        told.AnswerText("Done.\n\nReally"),
        told.AnswerEnd("Done.\n\nReally"),
        told.RunFinished("completed", turns=2, tokens=10, cost=None, seconds=1),
    )
    assert text == (
        "> do it\n  now\n  1 attached\n\nI *look\n\n* Search x\n\nDone.\n\nReally\n\n1.0 s, 2 model calls, 10 tokens\n"
    )


def test_an_answer_that_came_at_once_is_shown_at_its_end() -> None:
    assert shown(transcript(), told.AnswerEnd("All **at** once")) == "All at once\n\n"


def test_a_tail_longer_than_the_window_shows_its_end() -> None:
    one = transcript()
    one.show(told.RunStarted(), 0)
    printed = shown(one, told.AnswerText("```py\n" + "".join(f"x{i} = {i}\n" for i in range(100))))
    assert "x9 = 9" in printed  # its first part is not held back until the end
    live = to_text(one.live(1.0, 10))
    assert live.count("\n") <= 10
    assert "x99 = 99" in live
    done = printed + shown(one, told.AnswerEnd(""))
    assert [line.strip() for line in done.splitlines() if line.strip()] == [f"x{i} = {i}" for i in range(100)]


def test_what_is_going_on() -> None:
    one = transcript(utf8=False)
    assert to_text(one.live(0, 10)) == ""
    for event in (told.RunStarted(), told.Working("waiting for the model"), told.ThinkingText("hm \x1b[2J\nso")):
        one.show(event, 1.0)
    live = to_text(one.live(4.5, 10))
    assert live.isascii()
    assert "  hm\n  so\n" in live
    assert "waiting for the model...  3.5 s  Esc to stop" in live
    assert one.busy
    assert "Thought for 2.0 s" in shown(one, told.ThinkingEnd("hm"), now=3.0)
    assert "hm" in to_text(one.collapsed.expand_last())
    text = shown(one, told.RunFinished("error", error="no key", hint="set it\x07"))
    assert text.endswith("Error: no key\nset it\\x07\n")
    assert not one.busy


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (told.Notice("[x]\x1b[1m"), "[x]\n"),
        (told.Retrying(1, 3, 2.0, "overloaded"), "Retrying in 2s (attempt 1 of 3): overloaded\n"),
        (told.Compacted("full", 9000, 500, "summary"), "Conversation compacted from 9.0k to 500 tokens (full)\n  summary\n"),
        (told.SessionChanged("new"), "New session started.\n"),
        (told.SessionChanged("opened"), "Type a message to get started. /help for commands and keys, Ctrl-D to exit.\n"),
        (told.SessionChanged("opened", messages=2), ""),
        (told.Refused("c", "fork", "a run is going on"), "a run is going on\n"),
        (told.QuestionSettled("q", "declined"), "    Declined\n"),
        (told.RunFinished("aborted"), "Stopped\n"),
        (told.RunFinished("max_cost"), "Stopped: cost limit reached\n"),
    ],
)  # fmt: skip
def test_what_is_told_beside(event: told.ChatEvent, text: str) -> None:
    assert shown(transcript(), event) == text


def test_a_shell_command_is_shown_once() -> None:
    one = transcript()
    said = told.UserText("I ran a command:\n$ ls\na", "shell")
    assert shown(one, told.ShellStarted("s", "ls"), told.ShellFinished("s", 0, "a"), said) == "! ls\n  a\n"
    assert "I ran a command" in shown(one, said)  # of an earlier session, which only has what the model was told


def test_shell_commands_of_the_user() -> None:
    one = transcript()
    one.show(told.ShellStarted("s", "make"), 0)
    one.show(told.ShellOutput("s", "a\nb\n"), 0)
    assert "! make\n  a\n  b\n" in to_text(one.live(0, 10))
    text = shown(one, told.ShellFinished("s", 2, "a\nb\n"))
    assert text == "! make\n  a\n  b\n  Exit code 2\n"
    assert to_text(one.live(0, 10)) == ""


@pytest.mark.parametrize("columns", [1, 2, 5, 20])
def test_narrow_windows(columns: int) -> None:
    one = transcript(columns)
    diff = FileDiff(path="a/long/name", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+\u65e5\u672c")),))
    for event in (
        told.RunStarted(),
        told.UserText("\u65e5\u672c\u8a9e " * 10),
        told.AnswerText("# \u65e5\u672c\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n- x\n\n```py\ny = 1\n```\nrest"),
        told.ToolStarted("t", "edit", "Edit", "a/long/name"),
        told.ChildStarted("c", "explore", "find"),
        told.ApprovalAsked("q", "t", "edit", "Edit", "write", "a", diffs=(diff,)),
    ):
        one.show(event, 1.0)
        one.live(2.0, 3)


def test_what_is_told_in_the_middle_of_an_answer_does_not_end_it() -> None:
    one = transcript()
    text = shown(
        one,
        told.AnswerText("Here:\n\n```\nfirst\nsec"),
        told.CommandDone("c", "cost", Text("nothing")),
        told.Notice("by the way"),
        told.ShellStarted("s", "ls"),
        told.ShellFinished("s", 0, "a"),
        told.AnswerText("ond\n```\n\nLast *wor"),
        told.Refused("c", "fork", "no"),
        told.AnswerText("ds*."),
        told.AnswerEnd("all"),
    )
    assert "  first\n  second\n" in text
    assert "Last words.\n" in text
    assert text.index("nothing") < text.index("first")


def test_commands_stand_apart() -> None:
    one = transcript()
    text = shown(one, told.CommandDone("c", "a", Text("one")), told.CommandDone("d", "b", Text("two")))
    assert text == "one\n\ntwo\n"


def test_an_error_is_said_once_and_broken_between_words() -> None:
    one = transcript()
    said = "Unknown tool: no. Did you mean " + ", ".join(f"tool_{i}" for i in range(12)) + "?"
    text = shown(
        one,
        told.ToolStarted("t", "read_file", "Read", "a.py"),
        told.ToolFinished("t", "read_file", "Read", said[:60] + "…", is_error=True, output=said),
        told.ToolFinished("u", "no", "no", said, is_error=True, output=said),
        told.RunFinished("error", error="it is " + "so " * 40 + "bad"),
    )
    assert text.startswith("x Read a.py failed\n    Unknown tool: no. Did you mean tool_0,")
    assert "\nx no failed\n" in text
    assert all(len(line) < 80 and not line.endswith("tool") for line in text.split("\n"))
    assert text.count("so") == 40


def test_what_only_models_need_is_left_out_of_shell_outputs() -> None:
    one = transcript()
    output = "<context-output name='x'>\ndone\n(exit 0, 9ms)\n</context-output>\n[in /home/me]\n(exit 0, 12ms)"
    done = told.ToolFinished("t", "shell", "Shell", "$ make", output=output)
    assert shown(one, done) == "* Shell $ make\n    done\n    (exit 0, 9ms)\n"
    failed = told.ToolFinished("t", "shell", "Shell", "$ make", output="no\n[in /home/me]\n(exit 2, 12ms)")
    assert shown(one, failed) == "* Shell $ make\n    no\n    (exit 2, 12ms)\n"
    cut = told.ToolFinished("t", "shell", "Shell", "$ seq", output="1\n9", hidden_lines=7)
    assert "(7 lines in the middle not shown)" in shown(one, cut)


def test_many_calls_at_once_do_not_fill_the_screen() -> None:
    one = transcript()
    for i in range(30):
        one.show(told.ToolStarted(f"t{i}", "shell", "Shell", f"sleep {i}"), 1.0)
    live = to_text(one.live(1.5, 40))
    assert "sleep 7" in live
    assert "sleep 8" not in live
    assert "... and 22 more\n" in live


@pytest.mark.covers("CLI-15")
def test_sub_agents_without_names_are_counted() -> None:
    one = transcript()
    text = shown(
        one,
        told.ChildStarted("a", "", "left"),
        told.ChildStarted("b", "", "right"),
        told.ChildEvent("b", told.ToolStarted("x", "grep", "Search", "needle")),
        told.ChildEvent("b", told.ToolFinished("x", "grep", "Search", "3 hits")),
        told.ChildFinished("a", "", "completed", turns=1, tokens=30, cost=None, seconds=1),
        told.RunFinished("completed"),
        told.ChildStarted("c", "", "again"),
    )
    assert text == (
        "+ subagent 1: left\n+ subagent 2: right\n  | subagent 2 * Search 3 hits\n"
        "+ subagent 1 done  1 turn, 30 tokens, 1.0 s\n+ subagent 1: again\n"
    )
