"""The feed: text in pieces, without the events that earlier attempts published."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mainspring.durable.dbos.log import Poller
from mainspring.durable.feed import FeedEvent, FeedItem
from mainspring.durable.feed_writer import FeedWriter
from mainspring.errors import DurableError
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    AttemptStart,
    ErrorInfo,
    MessageEnd,
    MessageUpdate,
    ModelCallRetry,
    RunStatus,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ToolExecutionEnd,
    TurnStart,
)
from mainspring.events.codec import encode
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock

pytestmark = pytest.mark.covers("BYD-31")


class FeedLog:
    """The feed of a run, with the events of an earlier attempt."""

    def __init__(self, attempt: int, existing: Sequence[FeedEvent] = ()) -> None:
        self.attempt = attempt
        self.events = list(existing)
        self.writes = 0

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        return [FeedItem(n, e) for n, e in enumerate(self.events, 1) if n > after][:2]

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        self.events.extend(events)
        self.writes += 1


def call_done(key: str) -> ToolExecutionEnd:
    return ToolExecutionEnd(ToolUseBlock("same", "t", {"key": key}), ToolResultBlock("same", content=key))


def make_end(status: RunStatus, text: str = "", error: str = "") -> AgentEnd:
    return AgentEnd("r", (), status, text, error=ErrorInfo(type="E", message=error) if error else None)


def to_json(events: Sequence[FeedEvent]) -> list[bytes]:
    """Encode events to compare them: events are equal only to themselves."""
    return [encode(event) for event in events]


async def write_feed(log: FeedLog, events: Sequence[FeedEvent], every: float = 5.0) -> None:
    writer = FeedWriter(cast("Any", log), every, lambda: False)
    await writer.begin("a")
    writing = asyncio.ensure_future(writer.write())
    for event in events:
        writer.publish(event)
    writer.close()
    await writing


async def test_text_is_joined_into_one_write() -> None:
    log = FeedLog(1)
    await write_feed(
        log,
        [
            TextDelta(0, "a"),
            TextDelta(0, "b"),
            ThinkingDelta(0, "c"),
            ThinkingDelta(0, "d"),
            TextDelta(0, "e"),
            make_end("completed"),
        ],
    )
    assert to_json(log.events) == to_json(
        [AttemptStart(1, "a"), TextDelta(0, "ab"), ThinkingDelta(0, "cd"), TextDelta(0, "e"), make_end("completed")]
    )
    assert log.writes == 1


async def test_events_of_an_earlier_attempt_are_not_repeated() -> None:
    before = [AttemptStart(1, "a"), TurnStart(1, ""), TextDelta(0, "x"), call_done("1"), TurnStart(2, "")]
    log = FeedLog(2, before)
    await write_feed(
        log,
        [TurnStart(1, ""), call_done("1"), TurnStart(2, ""), TextDelta(0, "x"), call_done("2"), make_end("completed")],
    )
    assert to_json(log.events[len(before) :]) == to_json(
        [AttemptStart(2, "a"), TextDelta(0, "x"), call_done("2"), make_end("completed")]
    )


async def test_retried_run_publishes_only_a_different_end() -> None:
    failed, done_at_last = make_end("error", error="no tools"), make_end("completed", "Done.")
    log = FeedLog(2, [AttemptStart(1, "a"), failed])
    await write_feed(log, [failed])
    assert to_json(log.events[2:]) == to_json([AttemptStart(2, "a")])
    log.attempt = 3
    await write_feed(log, [done_at_last])
    assert to_json(log.events[3:]) == to_json([AttemptStart(3, "a"), done_at_last])


def test_feed_events_round_trip_and_unknown_types_are_rejected() -> None:
    for event in (AttemptStart(1), TextDelta(0, "\ud800"), call_done("1"), make_end("error", error="x")):
        again = FeedItem(1, data=FeedItem(1, event).data).event
        assert type(again) is type(event)
    with pytest.raises(DurableError, match="This version cannot read"):
        _ = FeedItem(1, data=b'{"type":"unknown"}').event


async def test_one_poll_serves_all_waiting_readers() -> None:
    numbers, polls = {"a": 1}, 0

    async def poll(keys: Sequence[str]) -> dict[str, int]:
        nonlocal polls
        polls += 1
        if polls == 1:
            raise OSError("away")
        return {key: numbers.get(key, 0) for key in keys}

    watch = Poller(poll, 0.001)
    await asyncio.gather(*(watch.wait("a", 0) for _ in range(50)))
    assert polls == 2
    waiting = asyncio.ensure_future(watch.wait("b", 3))
    await asyncio.sleep(0)
    watch.notify("b", 3)
    assert not waiting.done()
    watch.notify("b", 4)
    await waiting
    abandoned = asyncio.ensure_future(watch.wait("c", 0))
    await asyncio.sleep(0)
    await watch.aclose()
    await asyncio.wait([abandoned])
    assert abandoned.cancelled()


async def test_approval_requests_of_two_subagents_are_kept_apart() -> None:
    """The order in which subagents ask differs between attempts."""
    one, two = (
        ApprovalRequest(f"{agent}/c", ToolUseBlock(f"{agent}/c", "t", {}), agent=agent) for agent in ("one-1", "two-1")
    )
    answer = ApprovalResult("one-1/c", "once")
    log = FeedLog(2, [AttemptStart(1, "a"), one, answer])
    await write_feed(log, [two, one, answer, one])  # models may reuse a call ID, so the last request is another one
    approvals = [e for e in log.events if isinstance(e, ApprovalRequest | ApprovalResult)]
    assert [(e.type, e.id) for e in approvals] == [
        ("approval_request", "one-1/c"),
        ("approval_result", "one-1/c"),
        ("approval_request", "two-1/c"),
        ("approval_request", "one-1/c"),
    ]


async def test_events_are_stored_without_secrets_and_without_what_only_this_process_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "value-9f8e7d6c5b4a")
    failure = ErrorInfo(type="E", message="refused value-9f8e7d6c5b4a")
    log = FeedLog(1)
    draft = cast("Any", object())
    retry = ModelCallRetry(1, 2, 0.5, failure, exception=cast("Any", ValueError()))
    await write_feed(log, [TextDelta(0, "a", draft, 3), retry, AgentEnd("r", (), "error", error=failure)])
    _, text, retried, end = cast("Any", log.events)
    assert (text.draft, retried.exception) == (None, None)
    assert "9f8e" not in str(to_json(log.events))
    assert (retried.error.type, end.error.type) == ("E", "E")


async def test_feed_has_the_messages_and_calls_of_a_run_but_not_the_starts_and_ends_of_blocks() -> None:
    log = FeedLog(1)
    writer = FeedWriter(cast("Any", log), 5.0, lambda: False)
    await writer.begin("a")
    result = ToolResultBlock("c", content="r")
    for event in (
        TurnStart(1, "t1"),
        MessageUpdate(TextDelta(0, "x")),
        MessageUpdate(TextEnd(0, "x")),
        MessageEnd(Message.assistant("x"), seconds=0.12345),
        MessageEnd(Message("user", (result,))),
        TurnStart(1, "t2"),
    ):
        writer(event)
    writer.close()
    await writer.write()
    assert [e.type for e in log.events] == [
        *("attempt_start", "turn_start", "text_delta", "message_end", "message_end", "turn_start")
    ]
    messages = [e for e in log.events if isinstance(e, MessageEnd)]
    assert [(m.number, m.seconds) for m in messages] == [(1, 0.123), (2, 0)]
    assert [e.turn for e in log.events if isinstance(e, TurnStart)] == [1, 2]
