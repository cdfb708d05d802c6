import msgspec
import pytest

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Text
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.events import EditOutcome, FileDiff, Hunk


def make_view(columns: int = 80, **look: object) -> TranscriptView:
    return TranscriptView(msgspec.structs.replace(Theme(), **look), columns, 24)


def render(view: TranscriptView, *events: chat_events.ChatEvent, now: float = 1.0) -> str:
    return to_text([row for event in events for row in view.add_event(event, now)])


@pytest.mark.covers("CLI-15")
def test_subagents_are_nested_under_their_names() -> None:
    view = make_view()
    text = render(
        view,
        chat_events.ToolStarted("t", "spawn", "Subagent", "explore"),
        chat_events.ChildStarted("c1", "explore", "find it\nin there"),
        chat_events.ChildEvent("c1", chat_events.ToolStarted("x", "grep", "Search", "needle")),
        chat_events.ChildEvent("c1", chat_events.ToolFinished("x", "grep", "Search", "3 hits", output="a\nb\nc")),
        chat_events.ChildStarted("c2", "deep", "more", depth=2, parent="c1"),
    )
    assert text == "+ explore: find it in there\n  | * Search 3 hits\n  | + deep: more\n"
    view.add_event(chat_events.ChildEvent("c2", chat_events.AnswerText("thinking about it")), 1.0)
    live = to_text(view.live_rows(3.0, 10))
    assert "explore 2.0 s Waiting for the model" in live
    assert "  | " in live
    assert "deep 2.0 s thinking about it" in live
    both = render(
        view,
        chat_events.ChildEvent("c2", chat_events.ToolStarted("y", "shell", "Run", "ls")),
        chat_events.ChildEvent("c2", chat_events.ToolFinished("y", "shell", "Run", "ls", is_error=True)),
        chat_events.ChildFinished("c2", "deep", "completed", turns=2, tokens=1500, cost=0.25, seconds=12),
        chat_events.ChildFinished("c1", "explore", "error", error="no\x1b[31m model", turns=1),
    )
    assert "  |   | deep x Run ls failed\n" in both
    assert "  | + deep done  2 turns, 1.5k tokens, $0.25, 12 s\n" in both
    assert "+ explore error" in both
    assert "    no model\n" in both


@pytest.mark.covers("CLI-16")
def test_tools_have_display_names_and_collapse_long_output() -> None:
    view = make_view()
    output = "\n".join(f"row {i} [bold]x[/nope]" for i in range(20))
    started = chat_events.ToolStarted("t", "shell", "Run command", "make \x1b]0;x\x07 all")
    assert render(view, started) == ""
    view.add_event(chat_events.ToolProgress("t", "compiling\r\x1b[2K"), 1.0)
    assert r"Run command make \x1b]0;x\x07 all 4.0 s" "\n    compiling" in to_text(view.live_rows(5.0, 10))
    text = render(view, chat_events.ToolFinished("t", "shell", "Run command", "make all", output=output, seconds=4))
    assert text.startswith(
        "* Run command make all 4.0 s\n  ... 15 more lines (Ctrl-O to show)\n    row 15 [bold]x[/nope]\n"
    )
    assert to_text(view.collapsed.expand_last()).count("row ") == 20
    denied = chat_events.ToolFinished("u", "shell", "Run command", "rm", is_error=True, denied=True, output="not now")
    assert render(view, denied) == "- Run command rm denied\n    not now\n"


def test_diff_is_shown_once() -> None:
    view = make_view()
    diff = FileDiff(path="a", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+b")),))
    request = chat_events.ApprovalAsked("q", "t", "edit", "Edit", "write", "a", diffs=(diff,))
    done = chat_events.ToolFinished("t", "edit", "Edit", "a", diffs=(diff,))
    text = render(
        view, chat_events.ToolStarted("t", "edit", "Edit", "a"), request, chat_events.ApprovalSettled("q", "once"), done
    )
    assert text.count("+ b") == 1
    assert "    Allowed\n" in text
    partly = chat_events.ToolFinished(
        "v", "edit", "Edit", "a", diffs=(diff,), edits=(EditOutcome("a", 1, 2, 1, reason="not that"),)
    )
    text = render(view, partly)
    assert "a: 1 of 2 changes applied; not that" in text
    assert "+ b" in text


def test_responses_are_separated_from_tools_and_closed() -> None:
    view = make_view()
    text = render(
        view,
        chat_events.UserText("do it\nnow", attachments=1),
        chat_events.AnswerText("I *look"),
        chat_events.ToolStarted("t", "grep", "Search", "x"),
        chat_events.ToolFinished("t", "grep", "Search", "x"),
        chat_events.AnswerText("Done.\n\nReally"),
        chat_events.AnswerEnd("Done.\n\nReally"),
        chat_events.RunFinished("completed", turns=2, tokens=10, cost=None, seconds=1),
    )
    assert text == (
        "> do it\n  now\n  1 attached\n\nI *look\n\n* Search x\n\nDone.\n\nReally\n\n1.0 s, 2 model calls, 10 tokens\n"
    )


def test_response_without_chunks_is_shown_at_its_end() -> None:
    assert render(make_view(), chat_events.AnswerEnd("All **at** once")) == "All at once\n\n"


def test_live_tail_shows_the_end_of_a_long_response() -> None:
    view = make_view()
    view.add_event(chat_events.RunStarted(), 0)
    printed = render(view, chat_events.AnswerText("```py\n" + "".join(f"x{i} = {i}\n" for i in range(100))))
    assert "x9 = 9" in printed  # the first part is printed before the response ends
    live = to_text(view.live_rows(1.0, 10))
    assert live.count("\n") <= 10
    assert "x99 = 99" in live
    done = printed + render(view, chat_events.AnswerEnd(""))
    assert [line.strip() for line in done.splitlines() if line.strip()] == [f"x{i} = {i}" for i in range(100)]


def test_live_rows_show_the_current_activity() -> None:
    view = make_view(utf8=False)
    assert to_text(view.live_rows(0, 10)) == ""
    for event in (
        chat_events.RunStarted(),
        chat_events.Working("waiting for the model"),
        chat_events.ThinkingText("hm \x1b[2J\nso"),
    ):
        view.add_event(event, 1.0)
    live = to_text(view.live_rows(4.5, 10))
    assert live.isascii()
    assert "  hm\n  so\n" in live
    assert "waiting for the model...  3.5 s  Esc to stop" in live
    assert view.busy
    assert "Thought for 2.0 s" in render(view, chat_events.ThinkingEnd("hm"), now=3.0)
    assert "hm" in to_text(view.collapsed.expand_last())
    text = render(view, chat_events.RunFinished("error", error="no key", hint="set it\x07"))
    assert text.endswith("Error: no key\nset it\\x07\n")
    assert not view.busy


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (chat_events.Notice("[x]\x1b[1m"), "[x]\n"),
        (chat_events.Retrying(1, 3, 2.0, "overloaded"), "Retrying in 2s (attempt 1 of 3): overloaded\n"),
        (chat_events.Compacted("full", 9000, 500, "summary"), "Conversation compacted from 9.0k to 500 tokens (full)\n  summary\n"),
        (chat_events.SessionChanged("new"), "New session started.\n"),
        (chat_events.SessionChanged("opened"), "Type a message to get started. /help for commands and keys, Ctrl-D to exit.\n"),
        (chat_events.SessionChanged("opened", messages=2), ""),
        (chat_events.Refused("c", "fork", "a run is going on"), "a run is going on\n"),
        (chat_events.QuestionSettled("q", "declined"), "    Declined\n"),
        (chat_events.RunFinished("aborted"), "Stopped\n"),
        (chat_events.RunFinished("max_cost"), "Stopped: cost limit reached\n"),
    ],
)  # fmt: skip
def test_notices_are_rendered(event: chat_events.ChatEvent, text: str) -> None:
    assert render(make_view(), event) == text


def test_shell_command_is_shown_once() -> None:
    view = make_view()
    message = chat_events.UserText("I ran a command:\n$ ls\na", "shell")
    assert (
        render(view, chat_events.ShellStarted("s", "ls"), chat_events.ShellFinished("s", 0, "a"), message)
        == "! ls\n  a\n"
    )
    assert "I ran a command" in render(view, message)  # a replayed session has only the message to the model


def test_user_shell_command_shows_output_and_exit_code() -> None:
    view = make_view()
    view.add_event(chat_events.ShellStarted("s", "make"), 0)
    view.add_event(chat_events.ShellOutput("s", "a\nb\n"), 0)
    assert "! make\n  a\n  b\n" in to_text(view.live_rows(0, 10))
    text = render(view, chat_events.ShellFinished("s", 2, "a\nb\n"))
    assert text == "! make\n  a\n  b\n  Exit code 2\n"
    assert to_text(view.live_rows(0, 10)) == ""


@pytest.mark.parametrize("columns", [1, 2, 5, 20])
def test_narrow_windows_do_not_fail(columns: int) -> None:
    view = make_view(columns)
    diff = FileDiff(path="a/long/name", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+\u65e5\u672c")),))
    for event in (
        chat_events.RunStarted(),
        chat_events.UserText("\u65e5\u672c\u8a9e " * 10),
        chat_events.AnswerText("# \u65e5\u672c\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n- x\n\n```py\ny = 1\n```\nrest"),
        chat_events.ToolStarted("t", "edit", "Edit", "a/long/name"),
        chat_events.ChildStarted("c", "explore", "find"),
        chat_events.ApprovalAsked("q", "t", "edit", "Edit", "write", "a", diffs=(diff,)),
    ):
        view.add_event(event, 1.0)
        view.live_rows(2.0, 3)


def test_events_during_a_response_do_not_end_it() -> None:
    view = make_view()
    text = render(
        view,
        chat_events.AnswerText("Here:\n\n```\nfirst\nsec"),
        chat_events.CommandDone("c", "cost", Text("nothing")),
        chat_events.Notice("by the way"),
        chat_events.ShellStarted("s", "ls"),
        chat_events.ShellFinished("s", 0, "a"),
        chat_events.AnswerText("ond\n```\n\nLast *wor"),
        chat_events.Refused("c", "fork", "no"),
        chat_events.AnswerText("ds*."),
        chat_events.AnswerEnd("all"),
    )
    assert "  first\n  second\n" in text
    assert "Last words.\n" in text
    assert text.index("nothing") < text.index("first")


def test_command_results_are_separated() -> None:
    view = make_view()
    text = render(view, chat_events.CommandDone("c", "a", Text("one")), chat_events.CommandDone("d", "b", Text("two")))
    assert text == "one\n\ntwo\n"


def test_error_is_shown_once_and_wraps_between_words() -> None:
    view = make_view()
    message = "Unknown tool: no. Did you mean " + ", ".join(f"tool_{i}" for i in range(12)) + "?"
    text = render(
        view,
        chat_events.ToolStarted("t", "read_file", "Read", "a.py"),
        chat_events.ToolFinished("t", "read_file", "Read", message[:60] + "…", is_error=True, output=message),
        chat_events.ToolFinished("u", "no", "no", message, is_error=True, output=message),
        chat_events.RunFinished("error", error="it is " + "so " * 40 + "bad"),
    )
    assert text.startswith("x Read a.py failed\n    Unknown tool: no. Did you mean tool_0,")
    assert "\nx no failed\n" in text
    assert all(len(line) < 80 and not line.endswith("tool") for line in text.split("\n"))
    assert text.count("so") == 40


def test_model_only_lines_are_removed_from_shell_output() -> None:
    view = make_view()
    output = "<context-output name='x'>\ndone\n(exit 0, 9ms)\n</context-output>\n[in /home/me]\n(exit 0, 12ms)"
    done = chat_events.ToolFinished("t", "shell", "Shell", "$ make", output=output)
    assert render(view, done) == "* Shell $ make\n    done\n    (exit 0, 9ms)\n"
    failed = chat_events.ToolFinished("t", "shell", "Shell", "$ make", output="no\n[in /home/me]\n(exit 2, 12ms)")
    assert render(view, failed) == "* Shell $ make\n    no\n    (exit 2, 12ms)\n"
    cut = chat_events.ToolFinished("t", "shell", "Shell", "$ seq", output="1\n9", hidden_lines=7)
    assert "(7 lines in the middle not shown)" in render(view, cut)


def test_many_parallel_calls_do_not_fill_the_screen() -> None:
    view = make_view()
    for i in range(30):
        view.add_event(chat_events.ToolStarted(f"t{i}", "shell", "Shell", f"sleep {i}"), 1.0)
    live = to_text(view.live_rows(1.5, 40))
    assert "sleep 7" in live
    assert "sleep 8" not in live
    assert "... and 22 more\n" in live


@pytest.mark.covers("CLI-15")
def test_unnamed_subagents_are_numbered() -> None:
    view = make_view()
    text = render(
        view,
        chat_events.ChildStarted("a", "", "left"),
        chat_events.ChildStarted("b", "", "right"),
        chat_events.ChildEvent("b", chat_events.ToolStarted("x", "grep", "Search", "needle")),
        chat_events.ChildEvent("b", chat_events.ToolFinished("x", "grep", "Search", "3 hits")),
        chat_events.ChildFinished("a", "", "completed", turns=1, tokens=30, cost=None, seconds=1),
        chat_events.RunFinished("completed"),
        chat_events.ChildStarted("c", "", "again"),
    )
    assert text == (
        "+ subagent 1: left\n+ subagent 2: right\n  | subagent 2 * Search 3 hits\n"
        "+ subagent 1 done  1 turn, 30 tokens, 1.0 s\n+ subagent 1: again\n"
    )
