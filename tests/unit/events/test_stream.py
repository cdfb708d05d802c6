"""The event stream and cancel tokens: no event is lost, and every waiting reader is released."""

import asyncio
from typing import Any

import pytest

from mainspring.cancellation import CancelToken, run_cancellable, sleep
from mainspring.events import EventStream


def make_stream() -> EventStream[str, str]:
    return EventStream(lambda e: e.startswith("end:"), lambda e: e[4:])


@pytest.mark.covers("STR-01", "STR-02", "STR-03", "TST-09", "TST-03")
async def test_events_published_before_a_reader_attaches_are_read() -> None:
    events = make_stream()
    for event in ("a", "b", "end:done", "late"):
        events.publish(event)
    assert [e async for e in events] == ["a", "b", "end:done"]
    assert await events.result() == "done"
    assert events.ended


@pytest.mark.covers("STR-01", "STR-03", "TST-09")
async def test_every_waiting_reader_is_released_at_the_end() -> None:
    events = make_stream()

    async def read() -> list[str]:
        return [e async for e in events]

    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(read()) for _ in range(3)]
        results = [tasks.create_task(events.result()) for _ in range(2)]
        await asyncio.sleep(0)
        events.publish("a")
        events.publish("end:x")
    assert sorted(e for r in readers for e in r.result()) == ["a", "end:x"]
    assert [r.result() for r in results] == ["x", "x"]


@pytest.mark.covers("STR-01", "STR-03")
async def test_failure_ends_iteration_and_is_raised_by_result_only() -> None:
    events: EventStream[str, str] = EventStream()
    events.publish("a")
    events.fail(OSError("gone"))
    assert [e async for e in events] == ["a"]
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await events.result()


async def test_end_sets_the_result_and_later_events_are_dropped() -> None:
    events: EventStream[str, int] = EventStream()
    events.end(7)
    events.end(8)
    events.publish("x")
    assert [e async for e in events] == []
    assert await events.result() == 7


async def test_cancelled_reader_loses_no_event() -> None:
    events = make_stream()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(anext(aiter(events)))  # pyright: ignore[reportArgumentType]
        await asyncio.sleep(0)
        reader.cancel()
    events.publish("a")
    assert await anext(aiter(events)) == "a"


async def test_cancel_token_calls_its_callbacks_once() -> None:
    token = CancelToken()
    calls: list[str] = []
    remove = token.on_cancel(lambda: calls.append("removed"))
    remove()
    token.on_cancel(lambda: calls.append("early"))
    token.cancel("first")
    token.cancel("second")
    token.on_cancel(lambda: calls.append("late"))
    await token.wait()
    assert (calls, token.reason, token.cancelled) == (["early", "late"], "first", True)


@pytest.mark.covers("RET-13")
async def test_sleep_ends_when_the_token_is_cancelled() -> None:
    token = CancelToken()
    async with asyncio.TaskGroup() as tasks:
        sleeping = tasks.create_task(sleep(3600, token))
        await asyncio.sleep(0)
        await asyncio.to_thread(token.cancel)
    assert sleeping.result() is False
    assert await sleep(0, CancelToken()) is True


async def test_task_that_ignores_cancellation_is_abandoned() -> None:
    token, release = CancelToken(), asyncio.Event()

    async def stubborn() -> str:
        while True:
            try:
                await release.wait()
                return "late"
            except asyncio.CancelledError:
                continue

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(run_cancellable(stubborn, token, grace=0.01))
        await asyncio.sleep(0)
        token.cancel("stop")
    assert waiting.cancelled()
    release.set()


async def test_task_that_ends_within_its_grace_period_returns_its_result() -> None:
    token = CancelToken()

    async def clean_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "tidied"
        return "never"

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(run_cancellable(clean_up, token, grace=5))
        await asyncio.sleep(0)
        token.cancel()
    assert waiting.result() == "tidied"


@pytest.mark.covers("STR-01")
@pytest.mark.parametrize("part", ["is_final", "extract"])
async def test_stream_whose_function_raises_fails_for_producer_and_readers(part: str) -> None:
    options: dict[str, Any] = {"is_final": lambda event: event == "last", "extract": lambda event: event}
    stream = EventStream[str, str](**{**options, part: lambda event: 1 // 0})
    waiting = asyncio.ensure_future(stream.result())
    reading = asyncio.ensure_future(collect(stream))
    await asyncio.sleep(0)

    with pytest.raises(ZeroDivisionError):
        stream.push("last")

    assert stream.ended
    with pytest.raises(ZeroDivisionError):
        await waiting
    assert "last" in await reading


async def collect(stream: EventStream[str, str]) -> list[str]:
    return [event async for event in stream]
