"""`RunFeed`: several readers follow a run of this process, each from an event number."""

import asyncio
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from mainspring import Agent
from mainspring.durable import FeedItem, RunFeed
from mainspring.durable.feed import FeedEvent
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, ModelError
from mainspring.events import AgentEnd, MessageEnd, TextDelta
from mainspring.events.codec import decode
from mainspring.testing import Reply, ScriptedModel


def make_agent(*script: Any) -> Agent:
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}))


async def read(feed: RunFeed, after: int = 0) -> list[FeedItem]:
    return [item async for item in feed.follow(after)]


async def test_readers_get_the_same_events_from_any_number() -> None:
    feed = RunFeed(make_agent(Reply("One two three.")).conversation().stream("Hi"), run_id="r1")
    early = [asyncio.ensure_future(read(feed)) for _ in range(5)]

    result = await feed.result()
    readers = [*[await each for each in early], await read(feed)]

    numbers = [item.number for item in readers[0]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all([(i.number, i.data) for i in items] == [(i.number, i.data) for i in readers[0]] for items in readers)
    assert [i.number for i in await read(feed, after=3)] == numbers[3:]
    assert await read(feed, after=len(numbers)) == []
    assert result.text == "One two three."
    last = readers[0][-1].event
    assert isinstance(last, AgentEnd)
    assert (last.run_id, last.status, last.text) == ("r1", "completed", "One two three.")
    assert "".join(i.event.text for i in readers[0] if isinstance(i.event, TextDelta)) == "One two three."
    kind: Any = FeedEvent
    assert [repr(decode(i.data, kind)) for i in readers[0]] == [repr(i.event) for i in readers[0]]
    assert feed.ended


async def test_reader_that_leaves_does_not_stop_the_run() -> None:
    feed = RunFeed(make_agent(Reply("Hello.", delay=0.01)).stream("Hi"))
    async with aclosing(feed.follow()) as events:
        first = await anext(events)

    rest = await read(feed, first.number)

    assert [i.number for i in rest][0] == 2
    assert isinstance(rest[-1].event, AgentEnd)


async def test_slow_run_is_followed_live() -> None:
    feed = RunFeed(make_agent(Reply("Hello.", delay=3600)).stream("Hi"), interval_seconds=0)
    async with aclosing(feed.follow()) as events:
        names = [(await anext(events)).event.type for _ in range(3)]
    assert names[0] == "attempt_start"
    assert "turn_start" in names
    assert not feed.ended
    feed.abort("enough")

    [*_, last] = await read(feed)

    assert isinstance(last.event, AgentEnd)
    assert last.event.status == "aborted"
    with pytest.raises(AgentAbortedError):
        await feed.result()


async def test_failure_is_the_last_event() -> None:
    feed = RunFeed(make_agent(ModelError("The host is down.")).stream("Hi"))

    [*_, last] = await read(feed)

    assert isinstance(last.event, AgentEnd)
    assert last.event.error is not None
    assert (last.event.status, "The host is down." in last.event.error.message) == ("error", True)
    with pytest.raises(AgentProviderError):
        await feed.result()


async def test_exception_before_the_run_ends_the_feed() -> None:
    agent = make_agent("Hello.")
    feed = RunFeed(agent.stream(""))  # "Nothing to run" is raised before the run begins

    with anyio.fail_after(5):
        [*_, last] = await read(feed)

    assert isinstance(last.event, AgentEnd)
    assert last.event.status == "error"


async def test_messages_are_numbered() -> None:
    items = await read(RunFeed(make_agent("Hello.").stream("Hi")))
    assert [i.event.number for i in items if isinstance(i.event, MessageEnd)] == [1, 2]
