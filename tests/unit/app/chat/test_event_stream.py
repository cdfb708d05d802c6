"""The event buffer: order, and limits for a slow reader."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.app.chat.event_stream import MAX_PENDING_PROGRESS, EventBuffer
from mainspring.app.chat.events import (
    AnswerText,
    ChatEvent,
    ChildEvent,
    Notice,
    StatusChanged,
    ThinkingText,
    ToolProgress,
)
from mainspring.app.chat.types import Status


async def read_all(buffer: EventBuffer) -> list[ChatEvent]:
    buffer.close()
    return [event async for event in buffer]


async def test_waiting_chunks_are_joined() -> None:
    buffer = EventBuffer()
    for piece in ("a", "b", "c"):
        buffer.publish(AnswerText(piece))
    buffer.publish(Notice("between"))
    buffer.publish(AnswerText("d"))

    assert await read_all(buffer) == [AnswerText("abc"), Notice("between"), AnswerText("d")]


async def test_buffer_stays_small_for_a_slow_reader() -> None:
    buffer = EventBuffer()
    for i in range(100_000):
        buffer.publish(ChildEvent(f"agent-{i % 3}", AnswerText("x")))
        buffer.publish(ToolProgress("call", "y" * 10))

    assert len(buffer) == 4
    events = await read_all(buffer)
    assert (
        sum(len(e.event.text) for e in events if isinstance(e, ChildEvent) and isinstance(e.event, AnswerText))
        == 100_000
    )
    [progress] = [e for e in events if isinstance(e, ToolProgress)]
    assert len(progress.output) <= MAX_PENDING_PROGRESS


async def test_only_the_latest_status_is_kept() -> None:
    buffer = EventBuffer()
    for turns in range(5):
        buffer.publish(StatusChanged(Status(model="m", turns=turns)))

    assert await read_all(buffer) == [StatusChanged(Status(model="m", turns=4))]


async def test_chunk_that_was_read_is_not_extended() -> None:
    buffer = EventBuffer()
    buffer.publish(AnswerText("a"))
    first = await anext(buffer)
    buffer.publish(AnswerText("b"))

    assert first == AnswerText("a")
    assert await read_all(buffer) == [AnswerText("b")]


async def test_progress_keeps_the_last_title() -> None:
    buffer = EventBuffer()
    buffer.publish(ToolProgress("1", "a", "first"))
    buffer.publish(ToolProgress("1", "b"))
    buffer.publish(ToolProgress("1", "", "second"))

    assert await read_all(buffer) == [ToolProgress("1", "ab", "second")]


async def test_waiting_reader_is_woken_and_released() -> None:
    buffer = EventBuffer()
    waiting = asyncio.ensure_future(anext(buffer))
    await asyncio.sleep(0)
    buffer.publish(Notice("now"))
    assert await waiting == Notice("now")
    last = asyncio.ensure_future(anext(buffer))
    await asyncio.sleep(0)
    buffer.close()

    with pytest.raises(StopAsyncIteration):
        await last
    buffer.publish(Notice("too late"))
    assert len(buffer) == 0


_EVENTS = st.one_of(
    st.text(max_size=3).map(AnswerText),
    st.text(max_size=3).map(ThinkingText),
    st.text(max_size=3).map(Notice),
    st.tuples(st.sampled_from("ab"), st.text(max_size=3)).map(lambda t: ChildEvent(t[0], AnswerText(t[1]))),
)


@given(st.lists(st.one_of(_EVENTS, st.none()), max_size=30))
def test_no_event_is_lost_and_text_stays_in_order(steps: list[ChatEvent | None]) -> None:
    """``None`` means that the reader takes one event."""

    async def go() -> list[ChatEvent]:
        buffer, got = EventBuffer(), list[ChatEvent]()
        for step in steps:
            if step is not None:
                buffer.publish(step)
            elif len(buffer):
                got.append(await anext(buffer))
        return got + await read_all(buffer)

    got = asyncio.run(go())
    pushed = [s for s in steps if s is not None]

    def texts(events: list[ChatEvent], kind: type[AnswerText] | type[ThinkingText], child: str = "") -> str:
        nested = [e.event for e in events if isinstance(e, ChildEvent) and e.id == child] if child else events
        return "".join(e.text for e in nested if isinstance(e, kind))

    for kind in (AnswerText, ThinkingText):
        assert texts(got, kind) == texts(pushed, kind)
    for child in "ab":
        assert texts(got, AnswerText, child) == texts(pushed, AnswerText, child)
    assert [e for e in got if isinstance(e, Notice)] == [e for e in pushed if isinstance(e, Notice)]
