from pathlib import Path

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Table, Text
from mainspring.app.tui.styled_text import clip_row, to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.events import EditOutcome, ErrorInfo, FileDiff, Hunk
from mainspring.messages import ToolResultBlock, ToolUseBlock
from tests.unit.app.chat import event_builders as make


def make_view(columns: int = 80, **look: object) -> TranscriptView:
    return TranscriptView(msgspec.structs.replace(Theme(), **look), columns, 24)


def render(view: TranscriptView, *events: chat_events.ChatEvent, now: float = 1.0) -> str:
    return to_text([row for event in events for row in view.add_event(event, now)])


@pytest.mark.covers("CLI-15")
def test_subagents_are_nested_under_their_names() -> None:
    view = make_view()
    text = render(
        view,
        make.tool_start("t", "spawn", "Subagent", "explore"),
        run_events.SubagentStart("c1", "explore", "find it\nin there"),
        make.in_subagent("c1", make.tool_start("x", "grep", "Search", "needle")),
        make.in_subagent("c1", make.tool_end("x", "grep", "Search", "3 hits", output="a\nb\nc")),
        make.in_subagent("c1", run_events.SubagentStart("c2", "deep", "more", depth=2)),
    )
    assert text == "+ explore: find it in there\n  | * Search 3 hits\n  | + deep: more\n"
    view.add_event(make.in_subagent("c2", make.text("thinking about it")), 1.0)
    live = to_text(view.live_rows(3.0, 10))
    assert "explore 2.0s Waiting for the model" in live
    assert "  | " in live
    assert "deep 2.0s thinking about it" in live
    both = render(
        view,
        make.in_subagent("c2", make.tool_start("y", "shell", "Run", "ls")),
        make.in_subagent("c2", make.tool_end("y", "shell", "Run", "ls", is_error=True)),
        make.in_subagent(
            "c1", make.subagent_end("c2", "deep", "completed", turns=2, tokens=1500, cost=0.25, seconds=12)
        ),
        make.subagent_end("c1", "explore", "error", error="no\x1b[31m model", turns=1),
    )
    assert "  |   | deep x Run ls failed\n" in both
    assert "  | + deep done  2 turns, 1.5k tokens, $0.25, 12s\n" in both
    assert "+ explore error" in both
    assert "    no model\n" in both


@pytest.mark.covers("CLI-16")
def test_tools_have_display_names_and_collapse_long_output() -> None:
    view = make_view()
    output = "\n".join(f"row {i} [bold]x[/nope]" for i in range(20))
    started = make.tool_start("t", "shell", "Run command", "make \x1b]0;x\x07 all")
    assert render(view, started) == ""
    view.add_event(make.tool_update("t", "compiling\r\x1b[2K"), 1.0)
    assert r"Run command make \x1b]0;x\x07 all 4.0s" "\n    compiling" in to_text(view.live_rows(5.0, 10))
    text = render(view, make.tool_end("t", "shell", "Run command", "make all", output=output, seconds=4))
    assert text.startswith(
        "* Run command make all 4.0s\n  ... 15 more lines (Ctrl-O to show)\n    row 15 [bold]x[/nope]\n"
    )
    assert to_text(view.collapsed.expand_last()).count("row ") == 20
    denied = make.tool_end("u", "shell", "Run command", "rm", is_error=True, denied=True, output="not now")
    assert render(view, denied) == "- Run command rm denied\n    not now\n"


def test_diff_is_shown_once() -> None:
    view = make_view()
    diff = FileDiff(path="a", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+b")),))
    request = make.approval("q", "t", "edit", "Edit", "write", "a", diffs=(diff,))
    done = make.tool_end("t", "edit", "Edit", "a", diffs=(diff,))
    text = render(
        view, make.tool_start("t", "edit", "Edit", "a"), request, run_events.ApprovalResult("q", "once"), done
    )
    assert text.count("+ b") == 1
    assert "    Allowed\n" in text
    partly = make.tool_end(
        "v", "edit", "Edit", "a", diffs=(diff,), edits=(EditOutcome("a", 1, 2, 1, reason="not that"),)
    )
    text = render(view, partly)
    assert "a: 1 of 2 changes applied; not that" in text
    assert "+ b" in text


def test_responses_are_separated_from_tools_and_closed() -> None:
    view = make_view()
    text = render(
        view,
        make.user_text("do it\nnow", "prompt", 1),
        make.text("I *look"),
        make.tool_start("t", "grep", "Search", "x"),
        make.tool_end("t", "grep", "Search", "x"),
        make.text("Done.\n\nReally"),
        make.response("Done.\n\nReally"),
        make.run_end("completed", turns=2, tokens=10, cost=None, seconds=1),
    )
    assert text == (
        "> do it\n  now\n  1 attached\n\nI *look\n\n* Search x\n\nDone.\n\nReally\n\n1.0s, 2 model calls, 10 tokens\n"
    )


def test_response_without_chunks_is_shown_at_its_end() -> None:
    assert render(make_view(), make.response("All **at** once")) == "All at once\n\n"


def test_live_tail_shows_the_end_of_a_long_response() -> None:
    view = make_view()
    view.add_event(run_events.AgentStart("r"), 0)
    printed = render(view, make.text("```py\n" + "".join(f"x{i} = {i}\n" for i in range(100))))
    assert "x9 = 9" in printed  # the first part is printed before the response ends
    live = to_text(view.live_rows(1.0, 10))
    assert live.count("\n") <= 10
    assert "x99 = 99" in live
    done = printed + render(view, make.response(""))
    assert [line.strip() for line in done.splitlines() if line.strip()] == [f"x{i} = {i}" for i in range(100)]


@pytest.mark.parametrize("text", ["\u65e5\u672c\u8a9e" * 40, "word and " * 60], ids=["wide", "prose"])
@pytest.mark.parametrize("columns", [40, 41, 80])
def test_open_response_loses_no_character_at_the_edge(text: str, columns: int) -> None:
    view = make_view(columns)
    view.add_event(make.text(text), 1.0)
    rows = [clip_row(row, columns - 1) for row in view.live_rows(1.0, 30)]  # as the screen draws them
    assert "".join(to_text(rows).split()) == "".join(text.split())


@pytest.mark.covers("CLI-01")
def test_live_rows_show_the_current_activity() -> None:
    view = make_view(utf8=False)
    assert to_text(view.live_rows(0, 10)) == ""
    for event in (
        run_events.AgentStart("r"),
        chat_events.WorkingChange("waiting for the model"),
        make.thinking("hm \x1b[2J\nso"),
    ):
        view.add_event(event, 1.0)
    live = to_text(view.live_rows(4.5, 10))
    assert live.isascii()
    assert "  hm\n  so\n" in live
    assert "waiting for the model...  3.5s  ~3 tokens  Esc to stop" in live
    assert len({to_text(view.live_rows(4.5 + step / 8, 10)).splitlines()[-1][0] for step in range(4)}) == 4  # it spins
    assert view.busy
    assert "Thought for 2.0s" in render(view, make.response(""), now=3.0)
    assert "hm" in to_text(view.collapsed.expand_last())
    text = render(view, make.run_end("error", error=ErrorInfo(type="E", message="no\x07 key", retryable=True)))
    assert text.endswith("Error: no\\x07 key\nThis error may be temporary. Send the message again to retry.\n")
    assert not view.busy


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (run_events.Notice("[x]\x1b[1m"), "[x]\n"),
        (make.retry(1, 3, 2.0, "overloaded"), "Retrying in 2s (attempt 1 of 3): overloaded\n"),
        (run_events.ContextCompacted("full", 9000, 500, "summary"), "Conversation compacted from 9.0k to 500 tokens (full)\n  summary\n"),
        (chat_events.SessionChange("new"), "New session started.\n"),
        (chat_events.SessionChange("opened"), "Type a message to get started. /help for commands and keys, Ctrl-D to exit.\n"),
        (chat_events.SessionChange("opened", messages=2), ""),
        (chat_events.CommandRejected("c", "fork", "a run is going on"), "a run is going on\n"),
        (chat_events.QuestionResult("q", "declined"), "    Declined\n"),
        (make.run_end("aborted"), "Stopped\n"),
        (make.run_end("max_cost"), "Stopped: cost limit reached\n"),
    ],
)  # fmt: skip
def test_notices_are_rendered(event: chat_events.ChatEvent, text: str) -> None:
    assert render(make_view(), event) == text


def test_shell_command_is_shown_once() -> None:
    view = make_view()
    message = make.user_text("I ran a command:\n$ ls\na", "shell")
    assert render(view, chat_events.ShellStart("s", "ls"), chat_events.ShellEnd("s", 0, "a"), message) == "! ls\n  a\n"
    assert "I ran a command" in render(view, message)  # a replayed session has only the message to the model


def test_instructions_of_a_command_are_shown_on_request() -> None:
    view = make_view()
    event = chat_events.user_message_event("Review it.", "command", instructions="Read first.\nThen report.")
    assert render(view, event) == "> Review it.\n  with instructions of 2 lines (Ctrl-O to show)\n"
    assert to_text(view.collapsed.expand_last()) == "--- Instructions\n  Read first.\n  Then report.\n---\n"


@pytest.mark.parametrize("note", ["[interrupted: the run was stopped]", ""])
def test_stopped_call_has_not_failed(note: str) -> None:
    block = ToolResultBlock("c", "shell", f"half\n{note}", is_error=True)
    text = render(make_view(), run_events.ToolExecutionEnd(ToolUseBlock("c", "shell", {}), block))
    assert ("- shell stopped" if note else "x shell failed") in text


def test_stopped_shell_command_has_no_exit_code() -> None:
    text = render(make_view(), chat_events.ShellStart("s", "make"), chat_events.ShellEnd("s", 143, "a", stopped=True))
    assert text == "! make\n  a\n  Stopped\n"


def test_user_shell_command_shows_output_and_exit_code() -> None:
    view = make_view()
    view.add_event(chat_events.ShellStart("s", "make"), 0)
    view.add_event(chat_events.ShellOutput("s", "a\nb\n"), 0)
    assert "! make\n  a\n  b\n" in to_text(view.live_rows(0, 10))
    text = render(view, chat_events.ShellEnd("s", 2, "a\nb\n"))
    assert text == "! make\n  a\n  b\n  Exit code 2\n"
    assert to_text(view.live_rows(0, 10)) == ""


@pytest.mark.parametrize("columns", [1, 2, 5, 20])
def test_narrow_windows_do_not_fail(columns: int) -> None:
    view = make_view(columns)
    diff = FileDiff(path="a/long/name", hunks=(Hunk(0, "@@ -1 +1 @@", ("-a", "+\u65e5\u672c")),))
    for event in (
        run_events.AgentStart("r"),
        make.user_text("\u65e5\u672c\u8a9e " * 10, "prompt"),
        make.text("# \u65e5\u672c\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n- x\n\n```py\ny = 1\n```\nrest"),
        make.tool_start("t", "edit", "Edit", "a/long/name"),
        run_events.SubagentStart("c", "explore", "find"),
        make.approval("q", "t", "edit", "Edit", "write", "a", diffs=(diff,)),
    ):
        view.add_event(event, 1.0)
        view.live_rows(2.0, 3)


def test_events_during_a_response_do_not_end_it() -> None:
    view = make_view()
    text = render(
        view,
        make.text("Here:\n\n```\nfirst\nsec"),
        chat_events.CommandEnd("c", "cost", Text("nothing")),
        run_events.Notice("by the way"),
        chat_events.ShellStart("s", "ls"),
        chat_events.ShellEnd("s", 0, "a"),
        make.text("ond\n```\n\nLast *wor"),
        chat_events.CommandRejected("c", "fork", "no"),
        make.text("ds*."),
        make.response("all"),
    )
    assert "  first\n  second\n" in text
    assert "Last words.\n" in text
    assert text.index("nothing") < text.index("first")


def test_command_results_are_separated() -> None:
    view = make_view()
    text = render(view, chat_events.CommandEnd("c", "a", Text("one")), chat_events.CommandEnd("d", "b", Text("two")))
    assert text == "one\n\ntwo\n"


def test_error_is_shown_once_and_wraps_between_words() -> None:
    view = make_view()
    message = "Unknown tool: no. Did you mean " + ", ".join(f"tool_{i}" for i in range(12)) + "?"
    text = render(
        view,
        make.tool_start("t", "read_file", "Read", "a.py"),
        make.tool_end("t", "read_file", "Read", message[:60] + "…", is_error=True, output=message),
        make.tool_end("u", "no", "no", message, is_error=True, output=message),
        make.run_end("error", error="it is " + "so " * 40 + "bad"),
    )
    assert text.startswith("x Read a.py failed\n    Unknown tool: no. Did you mean tool_0,")
    assert "\nx no failed\n" in text
    assert all(len(line) < 80 and not line.endswith("tool") for line in text.split("\n"))
    assert text.count("so") == 40


def test_model_only_lines_are_removed_from_shell_output() -> None:
    view = make_view()
    output = "<context-output name='x'>\ndone\n(exit 0, 9ms)\n</context-output>\n[in /home/me]\n(exit 0, 12ms)"
    done = make.tool_end("t", "shell", "Shell", "$ make", output=output)
    assert render(view, done) == "* Shell $ make\n    done\n    (exit 0, 9ms)\n"
    failed = make.tool_end("t", "shell", "Shell", "$ make", output="no\n[in /home/me]\n(exit 2, 12ms)")
    assert render(view, failed) == "* Shell $ make\n    no\n    (exit 2, 12ms)\n"


def test_many_parallel_calls_do_not_fill_the_screen() -> None:
    view = make_view()
    for i in range(30):
        view.add_event(make.tool_start(f"t{i}", "shell", "Shell", f"sleep {i}"), 1.0)
    live = to_text(view.live_rows(1.5, 40))
    assert "sleep 7" in live
    assert "sleep 8" not in live
    assert "... and 22 more\n" in live


@pytest.mark.covers("CLI-15")
def test_unnamed_subagents_are_numbered() -> None:
    view = make_view()
    text = render(
        view,
        run_events.SubagentStart("a", "", "left"),
        run_events.SubagentStart("b", "", "right"),
        make.in_subagent("b", make.tool_start("x", "grep", "Search", "needle")),
        make.in_subagent("b", make.tool_end("x", "grep", "Search", "3 hits")),
        make.subagent_end("a", "", "completed", turns=1, tokens=30, cost=None, seconds=1),
        make.run_end("completed"),
        run_events.SubagentStart("c", "", "again"),
    )
    assert text == (
        "+ subagent 1: left\n+ subagent 2: right\n  | subagent 2 * Search 3 hits\n"
        "+ subagent 1 done  1 turn, 30 tokens, 1.0s\n+ subagent 1: again\n"
    )


@pytest.mark.parametrize("lines", [7, 61, 330, 20_000])
@pytest.mark.parametrize("tool", ["shell", "grep"])
def test_hidden_lines_are_counted_and_shown_in_full_on_request(tool: str, lines: int) -> None:
    view = make_view()
    numbers = [f"line {i}" for i in range(1, lines + 1)]
    text = render(view, make.tool_end("t", tool, "Tool", "summary", output="\n".join(numbers)))
    shown = [number for number in numbers if f"    {number}\n" in text]
    assert f"  ... {lines - len(shown)} more lines (Ctrl-O to show)\n" in text
    assert [row.strip() for row in to_text(view.collapsed.expand_last()[1:-1]).splitlines()] == numbers


def test_output_in_a_file_is_counted_and_shown_in_full(tmp_path: Path) -> None:
    view = make_view()
    file = tmp_path / "spool"
    file.write_text("".join(f"line {i}\n" for i in range(1, 1001)))
    end = make.tool_end(
        "t", "shell", "Shell", "$ seq", output="\u2026(99 bytes truncated from head)\u2026\nline 999\nline 1000\n"
        f"[full output, 9 bytes: {file}]\n[in /w]\n(exit 0, 3ms)", details={"spool": str(file)},
    )  # fmt: skip
    user = chat_events.ShellEnd("s", 0, "line 1\n[... 9 bytes not shown ...]\nline 1000", str(file))
    assert render(view, end) == "* Shell $ seq\n  ... 998 more lines (Ctrl-O to show)\n    line 999\n    line 1000\n"
    assert "... 997 more lines (Ctrl-O to show)\n  line 1\n" in render(view, user)
    for _ in range(2):
        expanded = to_text(view.collapsed.expand_last()[1:-1])
        assert expanded.split() == " ".join(f"line {i}" for i in range(1, 1001)).split()
    render(view, end)
    file.unlink()
    expanded = to_text(view.collapsed.expand_last())
    assert "The file with the whole output cannot be read: No such file or directory." in expanded
    assert "line 1000" in expanded


def test_cells_of_a_table_are_shown_whole() -> None:
    words = " ".join(f"word{i}" for i in range(50))
    table = Table(("name", "about"), (("a name of this row", words),))
    for columns in (20, 40, 80):
        text = render(make_view(columns), chat_events.CommandEnd("c", "x", table))
        assert "..." not in text
        assert "word49" in text


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            ErrorInfo(type="ModelError", message="No.", code="AUTHENTICATION_ERROR"),
            "`mainspring check` shows which one is used",
        ),
        (ErrorInfo(type="ModelError", message="No.", code="RATE_LIMITED"), "another model with /model"),
        (ErrorInfo(type="ModelError", message="No.", code="RATE_LIMITED", retry_after=7200.0), "Retry after 2 hours"),
        (ErrorInfo(type="ModelError", message="No.", code="MODEL_NOT_FOUND"), "List models with `mainspring models`"),
        (ErrorInfo(type="ModelError", message="No.", code="NETWORK_ERROR"), "Check the connection and the URL"),
        (ErrorInfo(type="ModelError", message="No.", code="TIMEOUT"), "a faster model with /model"),
        (
            ErrorInfo(type="ModelError", message="No.", code="CONTEXT_LENGTH_EXCEEDED"),
            "Shorten the conversation with /compact",
        ),
        (ErrorInfo(type="ModelError", message="No.", code="unknown", status=404), "check the base URL of the provider"),
        (ErrorInfo(type="ModelError", message="No.", code="unknown", retryable=True), "may be temporary"),
    ],
)
def test_error_has_the_advice_of_print_mode(error: ErrorInfo, advice: str) -> None:
    view = make_view(200)
    end = msgspec.structs.replace(make.run_end("error", error="No."), error=error)
    assert advice in render(view, end)
    if error.code != "unknown" and error.retry_after is None:
        assert advice in render(view, chat_events.CommandEnd("c", "compact", None, "No.", error.code))


def test_wait_for_the_user_is_shown_and_not_counted_as_work() -> None:
    view = make_view()
    view.add_event(run_events.AgentStart("r"), 10.0)
    view.add_event(make.tool_start("t", "shell", "Shell", "make"), 11.0)
    assert "Working...  3.0s  Esc to stop" in to_text(view.live_rows(13.0, 10))
    view.add_event(make.approval("q", "t", "shell", "Shell", "run", "make"), 13.0)
    waiting = [to_text(view.live_rows(now, 10)) for now in (13.0, 50.3, 99.9)]
    assert "? Waiting for you  3.0s\n" in waiting[0]
    assert len(set(waiting)) == 1  # nothing moves
    assert view.to_work_seconds(3.0) == 3.0
    view.add_event(run_events.ApprovalResult("q", "once"), 113.0)
    assert "Working...  4.0s  Esc to stop" in to_text(view.live_rows(114.0, 10))
    ended = make.tool_end("t", "shell", "Shell", "make", seconds=4.0)
    assert render(view, ended, now=115.0) == "* Shell make 4.0s\n"
    assert view.to_work_seconds(110.0) == 10.0
    end = make.run_end("completed")
    stats = msgspec.structs.replace(end.stats, seconds=110.0, turns=2)
    assert render(view, msgspec.structs.replace(end, stats=stats), now=120.0).strip().startswith("10s, 2 model calls")


def test_wait_before_a_retry_counts_down() -> None:
    view = make_view(40)
    view.add_event(run_events.AgentStart("r"), 10.0)
    view.add_event(run_events.ModelCallRetry(1, 3, 8.0, ErrorInfo(type="E", message="busy")), 10.0)
    assert [to_text(view.live_rows(now, 10)).split("  ")[0][2:] for now in (10.0, 13.5, 17.9, 18.0)] == [
        "Retrying in 8s", "Retrying in 5s", "Retrying in 1s", "Working...",
    ]  # fmt: skip
    assert all(len(line) < 40 for line in to_text(view.live_rows(12.0, 10)).splitlines())


def test_denied_call_is_reported_once() -> None:
    view = make_view()
    view.add_event(make.approval("q", "t", "shell", "Shell", "run", "make"), 10.0)
    denied = render(view, run_events.ApprovalResult("q", "deny"), now=11.0)
    allowed = render(view, run_events.ApprovalResult("q", "session"), now=12.0)
    assert (denied, allowed.strip()) == ("", "Allowed for this session")


def test_working_row_ends_with_one_ellipsis() -> None:
    view = make_view(40)
    view.add_event(run_events.AgentStart("r"), 10.0)
    view.add_event(chat_events.WorkingChange("Waiting for the model that is slow today..."), 10.0)
    assert to_text(view.live_rows(10.0, 10))[2:] == "Waiting for the mode...  0.0s\n"
