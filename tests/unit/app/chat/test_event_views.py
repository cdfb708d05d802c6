"""Views on the events of an agent: what a front end gets, and that each of them survives the wire."""

from typing import Any

import pytest

from mainspring.app.chat.event_views import AgentEventView
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.tool_display import MAX_LINES
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ContextCompacted,
    ErrorInfo,
    Event,
    LimitWarning,
    MessageEnd,
    ModelCallRetry,
    Notice,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    SubagentStats,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
    decode,
    encode,
)
from mainspring.messages import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.message_builder import MessageBuilder
from mainspring.tools import ToolErrorCode

CALL = ToolUseBlock("c1", "shell", {"command": "make"})


def view(*events: Event) -> list[Any]:
    published: list[ChatEvent] = []
    listener = AgentEventView(published.append, str.title)
    for event in events:
        listener(event)
    for event in published:
        assert encode(decode(encode(event), ChatEvent)) == encode(event)
    return [event for event in published if event.type != "working_change"]


def end(content: Any, **fields: Any) -> ToolExecutionEnd:
    return ToolExecutionEnd(CALL, ToolResultBlock("c1", "shell", content, **fields))


def test_errors_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    error = ErrorInfo(type="NetworkError", message="no route with correct-horse-battery")
    failed = MessageEnd(Message("assistant", (TextBlock("So"),), error=error.message), error=error)

    notice = Notice(f"MCP server 'x' failed: {error.message}", "warn")
    published = view(ModelCallRetry(1, 3, 0.5, error), failed, SubagentEvent(("scout-1",), failed), notice)

    assert [event.type for event in published] == ["model_retry", "message_end", "subagent_event", "notice"]
    assert all(b"no route with" in encode(event) for event in published)
    assert not any(b"correct-horse" in encode(event) for event in published)


def test_limit_that_is_near_is_a_notice_and_a_compaction_is_published_once() -> None:
    near = LimitWarning("max_turns", "run", 4, 5)
    compacted = ContextCompacted("asked", 9, 2, "A summary.")
    exceeded = LimitWarning("tool_calls", "run", 3, 2, exceeded=True, tool="shell")

    published = view(near, compacted, exceeded, SubagentEvent(("scout-1",), compacted))

    notice = Notice("4 of 5 turns used. The run stops at the limit.", "warn")
    assert [encode(event) for event in published] == [encode(notice), encode(compacted)]


def test_result_is_shortened_and_has_no_images_or_details() -> None:
    lines = "\n".join(map(str, range(1000)))
    content = (TextBlock(lines), ImageBlock("image/png", "aGk="))
    start, ended = view(
        ToolExecutionStart(CALL), end(content, details={"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"})
    )

    assert (start.display.name, start.display.summary) == ("Shell", "make")
    assert ended.result.text.count("\n") < MAX_LINES
    assert ended.result.details is None
    assert (ended.display.hidden_lines, ended.display.images) == (1002 - MAX_LINES, 1)
    assert [(diff.path, diff.added, diff.removed) for diff in ended.display.diffs] == [("x", 1, 1)]


def test_each_call_starts_once_and_a_denied_call_says_so() -> None:
    denied = end("no", is_error=True, details={"code": ToolErrorCode.PERMISSION_DENIED})
    resumed = view(ToolExecutionStart(CALL), AgentEnd("r", (), "paused"), ToolExecutionStart(CALL), end("ok"))
    rejected = view(denied)

    assert [event.type for event in resumed] == ["tool_execution_start", "tool_execution_end"]
    assert [event.type for event in rejected] == ["tool_execution_start", "tool_execution_end"]
    assert [event.status for event in (resumed[-1], rejected[-1])] == ["ok", "denied"]


def test_text_does_not_keep_the_message_and_messages_of_the_user_are_left_out() -> None:
    builder = MessageBuilder("p", "m")
    delta = builder.text(builder.open_text().index, "hi")
    user, answer = Message.user("hello"), Message.assistant("hi")
    published = view(AgentStart("r"), TurnStart(1, "t"), MessageEnd(user), delta, MessageEnd(answer))

    assert [event.type for event in published] == ["text_delta", "message_end"]
    assert (delta.draft is not None, published[0].draft) == (True, None)


def test_events_of_a_subagent_keep_their_path() -> None:
    stats = SubagentStats(child_id="a", child="", depth=1, status="error")
    inner = SubagentEvent(("a",), ToolExecutionStart(CALL))
    ended = SubagentEnd("a", "", "look", 1, stats, error=ErrorInfo(type="KeyError", message=""))
    started = SubagentStart("a", "", "look")
    published = view(started, inner, SubagentEvent(("a",), TurnStart(1, "t")), ended, ended)

    assert [event.type for event in published] == [
        *("subagent_start", "subagent_event", "subagent_end"),
        *("subagent_start", "subagent_end"),  # each end has a start
    ]
    assert published[1].path == ("a",)
    assert published[1].event.display.name == "Shell"
    assert published[2].error.message == "KeyError"


@pytest.mark.covers("CLI-15")
def test_events_of_a_nested_subagent_keep_their_whole_path() -> None:
    [start] = view(SubagentEvent(("a", "b"), ToolExecutionStart(CALL)))

    assert (start.path, start.event.call) == (("a", "b"), CALL)


def test_progress_has_only_data_for_front_ends() -> None:
    [update] = view(ToolExecutionUpdate("c1", "shell", "out", "a\nb", {"terminal": "t1", "private": object()}))

    assert (update.output, update.title, update.metadata) == ("out", "a b", {"terminal": "t1"})
