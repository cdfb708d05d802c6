"""The feed: text in pieces, without the events that earlier attempts published."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mainspring.durable.dbos.log import Poller
from mainspring.durable.feed import (
    Asked,
    Attempt,
    CallDone,
    FeedEvent,
    FeedItem,
    RunEnded,
    Text,
    Thinking,
    TurnBegan,
    WaitingCall,
    decode_feed_event,
    encode_feed_event,
)
from mainspring.durable.feed_writer import FeedWriter
from mainspring.errors import DurableError
from mainspring.messages import ToolResultBlock, ToolUseBlock

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


def call_done(key: str) -> CallDone:
    return CallDone(ToolUseBlock("same", "t", {"key": key}), ToolResultBlock("same", content=key))


async def write_feed(log: FeedLog, events: Sequence[FeedEvent], every: float = 5.0) -> None:
    writer = FeedWriter(cast("Any", log), every, lambda: False)
    await writer.begin("a")
    writing = asyncio.ensure_future(writer.write())
    for event in events:
        writer.publish(event)
    writer.close()
    await asyncio.wait_for(writing, 5)


async def test_text_is_joined_into_one_write() -> None:
    log = FeedLog(1)
    await write_feed(log, [Text("a"), Text("b"), Thinking("c"), Thinking("d"), Text("e"), RunEnded("completed")])
    assert log.events == [Attempt(1, "a"), Text("ab"), Thinking("cd"), Text("e"), RunEnded("completed")]
    assert log.writes == 1


async def test_events_of_an_earlier_attempt_are_not_repeated() -> None:
    before = [Attempt(1, "a"), TurnBegan(1), Text("x"), call_done("1"), TurnBegan(2)]
    log = FeedLog(2, before)
    await write_feed(
        log, [TurnBegan(1), call_done("1"), TurnBegan(2), Text("x"), call_done("2"), RunEnded("completed")]
    )
    assert log.events[len(before) :] == [Attempt(2, "a"), Text("x"), call_done("2"), RunEnded("completed")]


async def test_retried_run_publishes_only_a_different_end() -> None:
    failed, done_at_last = RunEnded("error", "", "no tools"), RunEnded("completed", "Done.")
    log = FeedLog(2, [Attempt(1, "a"), failed])
    await write_feed(log, [failed])
    assert log.events[2:] == [Attempt(2, "a")]
    log.attempt = 3
    await write_feed(log, [done_at_last])
    assert log.events[3:] == [Attempt(3, "a"), done_at_last]


def test_feed_events_round_trip_and_unknown_types_are_rejected() -> None:
    for event in (Attempt(1), Text("\ud800"), call_done("1"), RunEnded("error", "", "x")):
        again = decode_feed_event(encode_feed_event(event))
        assert type(again) is type(event)
    with pytest.raises(DurableError, match="This version cannot read"):
        decode_feed_event(b'{"type":"unknown"}')


async def test_one_poll_serves_all_waiting_readers() -> None:
    numbers, polls = {"a": 1}, 0

    async def poll(keys: Sequence[str]) -> dict[str, int]:
        nonlocal polls
        polls += 1
        if polls == 1:
            raise OSError("away")
        return {key: numbers.get(key, 0) for key in keys}

    watch = Poller(poll, 0.001)
    await asyncio.wait_for(asyncio.gather(*(watch.wait("a", 0) for _ in range(50))), 5)
    assert polls == 2
    waiting = asyncio.ensure_future(watch.wait("b", 3))
    await asyncio.sleep(0)
    watch.notify("b", 3)
    assert not waiting.done()
    watch.notify("b", 4)
    await asyncio.wait_for(waiting, 5)
    abandoned = asyncio.ensure_future(watch.wait("c", 0))
    await asyncio.sleep(0)
    await watch.aclose()
    await asyncio.wait([abandoned])
    assert abandoned.cancelled()


async def test_approval_requests_of_two_subagents_are_kept_apart() -> None:
    """The order in which subagents ask differs between attempts."""
    call = WaitingCall(ToolUseBlock("c", "t", {}))
    log = FeedLog(2, [Attempt(1, "a"), Asked(1, (call,), "one-1")])
    await write_feed(log, [Asked(1, (call,), "two-1"), Asked(1, (call,), "one-1")])
    assert [e.agent for e in log.events if isinstance(e, Asked)] == ["one-1", "two-1"]
