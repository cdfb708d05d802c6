"""Output of a run in each format."""

import argparse
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.app.cli import json_schema
from mainspring.app.cli.console import Console
from mainspring.app.cli.errors import describe_error
from mainspring.app.cli.exit_codes import exit_code_for, exit_code_for_error
from mainspring.app.cli.runner import run_command
from mainspring.app.printing.json_output import to_json_line
from mainspring.app.printing.print_mode import create_printer
from mainspring.app.run.events import ModelIdentity, Progress, RunOutcome
from mainspring.errors import (
    AgentAbortedError,
    AgentOutputError,
    AgentProviderError,
    AuthenticationError,
    ConfigError,
    InvalidResponseError,
    NetworkError,
    PermissionDeniedError,
    ProviderConfigError,
    RateLimitedError,
    SessionError,
)
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ErrorInfo,
    Event,
    LimitWarning,
    McpServer,
    MessageEnd,
    MessageStart,
    ModelCallRetry,
    Notice,
    SubagentEvent,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolsChange,
    TurnStart,
    encode,
)
from mainspring.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage

MODEL = ModelIdentity(provider="embedded", id="tiny", label="Tiny", why="no key", notice="It is for trying out.")
CALL = ToolUseBlock("c1", "read_file", {"path": "a\x1b[31m.txt"})
EVENTS: list[Event] = [
    AgentStart("r1", model=MODEL.spec, session_id="s1", resumed=2, cwd="/x", tools=("read_file",), version=2),
    TurnStart(1, "t1"),
    TextDelta(0, "Let me "),
    TextDelta(0, "look."),
    MessageEnd(Message("assistant", (TextBlock("Let me look."), CALL))),
    ToolExecutionStart(CALL),
    ToolExecutionEnd(CALL, ToolResultBlock("c1", "read_file", "bad\x1b]0;x\x07", is_error=True)),
    TurnStart(2, "t2"),
    TextDelta(0, "Done\x1b[2J."),
    MessageEnd(Message.assistant("Done\x1b[2J.")),
]
OUTCOME = RunOutcome(status="completed", text="Done\x1b[2J.", model=MODEL, turns=2, usage=Usage(output_tokens=3))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def print_run(
    form: str, outcome: RunOutcome = OUTCOME, *, live: bool = False, events: list[Event] = EVENTS
) -> tuple[str, str, int]:
    out, err = (Terminal(), Terminal()) if live else (io.StringIO(), io.StringIO())
    show = create_printer(form, Console(out, err, {"NO_COLOR": "1"}))
    if events is EVENTS:
        show.on_model(MODEL, 2)
    for event in events:
        show.on_event(event)
    code = show.finish(outcome)
    return out.getvalue(), err.getvalue(), code


def test_text_output_in_a_pipe_is_the_response_only() -> None:
    out, err, code = print_run("text")

    assert (out, code) == ("Done\x1b[2J.\n", 0)
    assert err.splitlines() == [
        "model: embedded:tiny; Tiny; no key; resuming after 2 messages",
        "Note: It is for trying out.",
        "Let me look.",
        "> read_file a\\x1b[31m.txt",
        "  failed: bad\\x1b]0;x\\x07",
    ]


def test_text_on_a_terminal_streams_without_control_sequences() -> None:
    out, err, _ = print_run("text", live=True)

    assert out == "Let me look.\nDone\\x1b[2J.\n"
    assert "Let me look." not in err
    assert "\x1b" not in out + err


@pytest.mark.parametrize(
    ("outcome", "message", "code"),
    [
        (
            RunOutcome(status="max_turns", turns=3, session_id="s"),
            "--max-turns limit was reached after 3 model calls",
            3,
        ),
        (RunOutcome(status="max_total_tokens"), "--max-total-tokens", 3),
        (
            RunOutcome(status="completed", text="half", stop_reason="max_tokens"),
            "cut off at its output limit. Raise",
            3,
        ),
        (RunOutcome(status="completed", text="", stop_reason="max_tokens"), "before its first word", 3),
        (RunOutcome(status="denied", denied=("no writing",)), "Stopped: no writing", 4),
        (RunOutcome(status="aborted", session_id="s"), "Interrupted. Resume with --continue.", 130),
        (RunOutcome(status="error", error=ConfigError("bad")), "Error: bad", 2),
    ],
)
def test_problems_are_reported(outcome: RunOutcome, message: str, code: int) -> None:
    _, err, given = print_run("text", outcome, events=[])

    assert message in err
    assert given == code


def test_json_output_is_the_result_only() -> None:
    out, err, _ = print_run("json")

    assert json.loads(out)["text"] == "Done\x1b[2J."
    assert err == ""


def test_stream_json_is_one_line_per_event() -> None:
    lines = [json.loads(line) for line in print_run("stream-json")[0].splitlines()]

    assert [line["type"] for line in lines] == [
        "agent_start", "turn_start", "text_delta", "text_delta", "message_end", "tool_execution_start",
        "tool_execution_end", "turn_start", "text_delta", "message_end", "result",
    ]  # fmt: skip
    assert lines[0] == {
        "type": "agent_start", "run_id": "r1", "model": "embedded:tiny", "session_id": "s1", "cwd": "/x", "resumed": 2,
        "tools": ["read_file"], "version": 2,
    }  # fmt: skip
    assert lines[4]["message"]["content"][1]["name"] == "read_file"
    assert lines[-1]["usage"]["output_tokens"] == 3


def test_change_of_the_tools_is_a_line_of_each_output_that_wants_it() -> None:
    change = ToolsChange(added=("search", "fetch"), removed=("read_file",))
    err = io.StringIO()
    create_printer("text", Console(io.StringIO(), err, {"NO_COLOR": "1"}, verbose=True)).on_event(change)

    assert err.getvalue() == "Tools: +search +fetch -read_file\n"
    assert print_run("text", events=[change])[1] == ""
    line = json.loads(print_run("stream-json", events=[change])[0].splitlines()[0])
    assert line == {"type": "tools_change", "added": ["search", "fetch"], "removed": ["read_file"]}


def test_stream_json_prints_nothing_twice() -> None:
    message = Message.assistant("Done.")
    results = Message("user", (ToolResultBlock("c1", "read_file", "text"),))
    events: list[Event] = [
        MessageStart(message),
        ToolCallDelta(1, "{"),
        TextEnd(0, "Done."),
        MessageEnd(results),
        AgentEnd("r1", (message,), "completed"),
    ]

    assert [json.loads(line)["type"] for line in print_run("stream-json", events=events)[0].splitlines()] == ["result"]


@pytest.mark.covers("ERR-09")
def test_stream_json_redacts_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    error = ErrorInfo(type="NetworkError", message="no route with correct-horse-battery")
    failed = Message("assistant", error=error.message)
    events: list[Event] = [
        ModelCallRetry(1, 3, 0.5, error),
        MessageEnd(failed, error=error),
        McpServer("files", error=error),
        SubagentEvent(("scout-1",), ModelCallRetry(1, 3, 0.5, error)),
    ]

    out, _, _ = print_run("stream-json", events=events)

    assert len(out.splitlines()) == 5
    assert "no route with" in out
    assert "correct-horse" not in out


@pytest.mark.parametrize("form", ["text", "json"])
def test_warning_of_a_limit_is_a_note_of_both_printers(form: str) -> None:
    near = LimitWarning("max_cost", "run", 0.8, 1.0)
    out, err, _ = print_run(form, events=[near, replace(near, exceeded=True)])
    assert "Note: $0.80 of $1.00 used. The run stops at the limit." in err
    assert err.count("$0.80") == 1
    assert "0.80" not in out


def test_downloads_are_reported_on_stderr_only() -> None:
    events: list[Event] = [Progress("fetching 1 MB", last=True), Notice("odd")]

    for form in ("text", "json", "stream-json"):
        out, err, _ = print_run(form, events=events)
        assert "fetching" in err
        assert "fetching" not in out


def test_lone_surrogate_is_replaced_in_json() -> None:
    line = to_json_line(TextDelta(0, "a\udcff"))

    assert line is not None
    assert json.loads(encode(line))["text"] == "a\ufffd"


def test_value_without_json_form_is_printed_as_text() -> None:
    end = ToolExecutionEnd(CALL, ToolResultBlock("c1", details={"where": object}))
    line = to_json_line(end)

    assert line is not None
    assert "object" in json.loads(encode(line))["result"]["details"]["where"]


def test_published_schema_is_current(repository: Path) -> None:
    file = repository / "docs" / "stream-json.schema.json"

    current = file.read_text(encoding="utf-8") == json_schema.schema()
    assert current, "run: python -m mainspring.app.cli.json_schema > docs/stream-json.schema.json"


# --- failures ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (SessionError("x"), 2),
        (ProviderConfigError("x"), 2),
        (PermissionDeniedError("x"), 4),
        (AuthenticationError("x"), 5),
        (AgentProviderError("x", cause=RateLimitedError("x")), 5),
        (AgentProviderError("x", cause=InvalidResponseError("x", reason="empty")), 1),
        (AgentProviderError("x"), 1),
        (AgentAbortedError("x"), 130),
        (KeyboardInterrupt(), 130),
        (ValueError("x"), 1),
    ],
)
def test_exit_codes_of_errors(error: BaseException, code: int) -> None:
    assert exit_code_for_error(error) == code


@pytest.mark.covers("BYD-14")
@pytest.mark.parametrize(
    ("outcome", "signal", "code"),
    [
        (RunOutcome(status="completed"), 0, 0),
        (RunOutcome(status="no_output", output_error="does not fit", error=AgentOutputError("none")), 0, 1),
        (RunOutcome(status="completed", stop_reason="max_tokens"), 0, 3),
        (RunOutcome(status="error", error=ConfigError("x")), 0, 2),
        (RunOutcome(status="max_turns"), 0, 3),
        (RunOutcome(status="max_cost"), 0, 3),
        (RunOutcome(status="denied"), 0, 4),
        (RunOutcome(status="error", error=RateLimitedError("x")), 0, 5),
        (RunOutcome(status="aborted"), 15, 143),
    ],
)
def test_every_output_format_has_the_same_exit_code(outcome: RunOutcome, signal: int, code: int) -> None:
    for form in ("text", "json", "stream-json"):
        out = io.StringIO()
        assert create_printer(form, Console(out, io.StringIO(), {"NO_COLOR": "1"})).finish(outcome, signal) == code
        if form != "text":
            assert json.loads(out.getvalue().splitlines()[-1])["exit_code"] == code


def test_exit_codes_of_signals() -> None:
    assert exit_code_for(RunOutcome(status="aborted"), 15) == 143
    assert exit_code_for(RunOutcome(status="completed"), 2) == 0


@pytest.mark.covers("ERR-09")
def test_errors_suggest_a_fix_and_redact_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")

    text = describe_error(AgentProviderError("x", cause=NetworkError("no route")))
    assert "--continue" in text
    assert "correct-horse" not in describe_error(ConfigError("key correct-horse-battery is wrong"))
    assert (
        describe_error(FileNotFoundError(2, "No such file or directory", "a.txt")) == "a.txt: No such file or directory"
    )
    assert "with -v for the stack trace" in describe_error(ZeroDivisionError("division by zero"))


@pytest.mark.covers("ERR-04")
@pytest.mark.parametrize(
    ("error", "code"),
    [(ZeroDivisionError("x"), 1), (ConfigError("x"), 2), (KeyboardInterrupt(), 130), (BrokenPipeError(), 141)],
)
def test_any_exception_becomes_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def raise_error(console: Console) -> int:
        raise error

    assert run_command(argparse.Namespace(verbose=False), raise_error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == (0 if isinstance(error, BrokenPipeError) else 1)


@pytest.mark.covers("ERR-04", "OPT-03")
def test_verbose_errors_have_a_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def raise_error(console: Console) -> int:
        raise ZeroDivisionError("x")

    run_command(argparse.Namespace(verbose=True), raise_error)

    assert "Traceback" in capsys.readouterr().err
