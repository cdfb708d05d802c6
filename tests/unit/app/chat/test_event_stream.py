"""The event buffer: order, and limits for a slow reader."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from mainspring.app.chat.event_stream import EventBuffer
from mainspring.app.chat.events import ChatEvent, StatusChange
from mainspring.app.chat.types import Status
from mainspring.events import Notice, SubagentEvent, TextDelta, ThinkingDelta, ToolExecutionUpdate
from mainspring.events.coalescer import MAX_PENDING_PROGRESS
from tests.unit.app.chat import event_builders as make


async def read_all(buffer: EventBuffer) -> list[ChatEvent]:
    buffer.close()
    return [event async for event in buffer]


async def test_waiting_chunks_are_joined() -> None:
    buffer = EventBuffer()
    for piece in ("a", "b", "c"):
        buffer.publish(make.text(piece))
    buffer.publish(Notice("between"))
    buffer.publish(make.text("d"))

    assert make.encoded(await read_all(buffer)) == make.encoded([make.text("abc"), Notice("between"), make.text("d")])


async def test_buffer_stays_small_for_a_slow_reader() -> None:
    buffer = EventBuffer()
    for i in range(100_000):
        buffer.publish(make.in_subagent(f"agent-{i % 3}", make.text("x")))
        buffer.publish(make.tool_update("call", "y" * 10))

    assert len(buffer) == 4
    events = await read_all(buffer)
    assert (
        sum(len(e.event.text) for e in events if isinstance(e, SubagentEvent) and isinstance(e.event, TextDelta))
        == 100_000
    )
    [progress] = [e for e in events if isinstance(e, ToolExecutionUpdate)]
    assert len(progress.output) <= MAX_PENDING_PROGRESS


async def test_only_the_latest_status_is_kept() -> None:
    buffer = EventBuffer()
    for turns in range(5):
        buffer.publish(StatusChange(Status(model="m", turns=turns)))

    assert make.encoded(await read_all(buffer)) == make.encoded([StatusChange(Status(model="m", turns=4))])


async def test_chunk_that_was_read_is_not_extended() -> None:
    buffer = EventBuffer()
    buffer.publish(make.text("a"))
    first = await anext(buffer)
    buffer.publish(make.text("b"))

    assert make.encoded([first]) == make.encoded([make.text("a")])
    assert make.encoded(await read_all(buffer)) == make.encoded([make.text("b")])


async def test_progress_keeps_the_last_title() -> None:
    buffer = EventBuffer()
    buffer.publish(make.tool_update("1", "a", "first"))
    buffer.publish(make.tool_update("1", "b"))
    buffer.publish(make.tool_update("1", "", "second"))

    assert make.encoded(await read_all(buffer)) == make.encoded([make.tool_update("1", "ab", "second")])


async def test_waiting_reader_is_woken_and_released() -> None:
    buffer = EventBuffer()
    waiting = asyncio.ensure_future(anext(buffer))
    await asyncio.sleep(0)
    buffer.publish(Notice("now"))
    assert make.encoded([await waiting]) == make.encoded([Notice("now")])
    last = asyncio.ensure_future(anext(buffer))
    await asyncio.sleep(0)
    buffer.close()

    with pytest.raises(StopAsyncIteration):
        await last
    buffer.publish(Notice("too late"))
    assert len(buffer) == 0


_EVENTS = st.one_of(
    st.text(max_size=3).map(make.text),
    st.text(max_size=3).map(make.thinking),
    st.text(max_size=3).map(Notice),
    st.tuples(st.sampled_from("ab"), st.text(max_size=3)).map(lambda t: make.in_subagent(t[0], make.text(t[1]))),
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

    def texts(events: list[ChatEvent], kind: type[TextDelta] | type[ThinkingDelta], child: str = "") -> str:
        nested = [e.event for e in events if isinstance(e, SubagentEvent) and e.path == (child,)] if child else events
        return "".join(e.text for e in nested if isinstance(e, kind))

    for kind in (TextDelta, ThinkingDelta):
        assert texts(got, kind) == texts(pushed, kind)
    for child in "ab":
        assert texts(got, TextDelta, child) == texts(pushed, TextDelta, child)
    assert [e for e in got if isinstance(e, Notice)] == [e for e in pushed if isinstance(e, Notice)]
