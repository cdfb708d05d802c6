"""What goes to followers: text in pieces, and what earlier attempts told left out."""

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


class Log:
    """Of a run that an earlier attempt has told of."""

    def __init__(self, attempt: int, told: Sequence[FeedEvent] = ()) -> None:
        self.attempt = attempt
        self.events = list(told)
        self.writes = 0

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        return [FeedItem(n, e) for n, e in enumerate(self.events, 1) if n > after][:2]

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        self.events.extend(events)
        self.writes += 1


def done(key: str) -> CallDone:
    return CallDone(ToolUseBlock("same", "t", {"key": key}), ToolResultBlock("same", content=key))


async def tell(log: Log, events: Sequence[FeedEvent], every: float = 5.0) -> None:
    telling = FeedWriter(cast("Any", log), every, lambda: False)
    await telling.begin("a")
    writing = asyncio.ensure_future(telling.write())
    for event in events:
        telling.publish(event)
    telling.close()
    await asyncio.wait_for(writing, 5)


async def test_text_is_joined_and_written_at_once() -> None:
    log = Log(1)
    await tell(log, [Text("a"), Text("b"), Thinking("c"), Thinking("d"), Text("e"), RunEnded("completed")])
    assert log.events == [Attempt(1, "a"), Text("ab"), Thinking("cd"), Text("e"), RunEnded("completed")]
    assert log.writes == 1


async def test_what_was_told_is_told_no_more_and_ids_may_come_again() -> None:
    before = [Attempt(1, "a"), TurnBegan(1), Text("x"), done("1"), TurnBegan(2)]
    log = Log(2, before)
    await tell(log, [TurnBegan(1), done("1"), TurnBegan(2), Text("x"), done("2"), RunEnded("completed")])
    assert log.events[len(before) :] == [Attempt(2, "a"), Text("x"), done("2"), RunEnded("completed")]


async def test_a_run_that_was_tried_again_tells_another_end_and_the_same_one_once() -> None:
    failed, done_at_last = RunEnded("error", "", "no tools"), RunEnded("completed", "Done.")
    log = Log(2, [Attempt(1, "a"), failed])
    await tell(log, [failed])
    assert log.events[2:] == [Attempt(2, "a")]
    log.attempt = 3
    await tell(log, [done_at_last])
    assert log.events[3:] == [Attempt(3, "a"), done_at_last]


def test_an_event_survives_its_way_and_others_are_refused() -> None:
    for event in (Attempt(1), Text("\ud800"), done("1"), RunEnded("error", "", "x")):
        again = decode_feed_event(encode_feed_event(event))
        assert type(again) is type(event)
    with pytest.raises(DurableError, match="This version cannot read"):
        decode_feed_event(b'{"type":"unknown"}')


async def test_one_look_serves_all_who_wait() -> None:
    numbers, looks = {"a": 1}, 0

    async def look(keys: Sequence[str]) -> dict[str, int]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise OSError("away")
        return {key: numbers.get(key, 0) for key in keys}

    watch = Poller(look, 0.001)
    await asyncio.wait_for(asyncio.gather(*(watch.wait("a", 0) for _ in range(50))), 5)
    assert looks == 2
    waiting = asyncio.ensure_future(watch.wait("b", 3))
    await asyncio.sleep(0)
    watch.notify("b", 3)
    assert not waiting.done()
    watch.notify("b", 4)
    await asyncio.wait_for(waiting, 5)
    left = asyncio.ensure_future(watch.wait("c", 0))
    await asyncio.sleep(0)
    await watch.aclose()
    await asyncio.wait([left])
    assert left.cancelled()


async def test_what_one_sub_agent_asks_is_not_taken_for_what_another_one_asked() -> None:
    """Which of two asks first is not the same in each attempt."""
    call = WaitingCall(ToolUseBlock("c", "t", {}))
    log = Log(2, [Attempt(1, "a"), Asked(1, (call,), "one-1")])
    await tell(log, [Asked(1, (call,), "two-1"), Asked(1, (call,), "one-1")])
    assert [e.agent for e in log.events if isinstance(e, Asked)] == ["one-1", "two-1"]
