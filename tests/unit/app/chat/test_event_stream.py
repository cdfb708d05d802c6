"""Events on their way: in order, and bounded where the reader is slow."""

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


async def read(outbox: EventBuffer) -> list[ChatEvent]:
    outbox.close()
    return [event async for event in outbox]


async def test_pieces_that_wait_are_joined() -> None:
    outbox = EventBuffer()
    for piece in ("a", "b", "c"):
        outbox.publish(AnswerText(piece))
    outbox.publish(Notice("between"))
    outbox.publish(AnswerText("d"))

    assert await read(outbox) == [AnswerText("abc"), Notice("between"), AnswerText("d")]


async def test_what_a_slow_reader_waits_for_does_not_grow_with_the_number_of_pieces() -> None:
    outbox = EventBuffer()
    for i in range(100_000):
        outbox.publish(ChildEvent(f"agent-{i % 3}", AnswerText("x")))
        outbox.publish(ToolProgress("call", "y" * 10))

    assert len(outbox) == 4
    events = await read(outbox)
    assert (
        sum(len(e.event.text) for e in events if isinstance(e, ChildEvent) and isinstance(e.event, AnswerText))
        == 100_000
    )
    [progress] = [e for e in events if isinstance(e, ToolProgress)]
    assert len(progress.output) <= MAX_PENDING_PROGRESS


async def test_only_the_latest_state_matters() -> None:
    outbox = EventBuffer()
    for turns in range(5):
        outbox.publish(StatusChanged(Status(model="m", turns=turns)))

    assert await read(outbox) == [StatusChanged(Status(model="m", turns=4))]


async def test_a_piece_that_was_read_takes_no_more() -> None:
    outbox = EventBuffer()
    outbox.publish(AnswerText("a"))
    first = await anext(outbox)
    outbox.publish(AnswerText("b"))

    assert first == AnswerText("a")
    assert await read(outbox) == [AnswerText("b")]


async def test_the_title_of_progress_is_the_last_one() -> None:
    outbox = EventBuffer()
    outbox.publish(ToolProgress("1", "a", "first"))
    outbox.publish(ToolProgress("1", "b"))
    outbox.publish(ToolProgress("1", "", "second"))

    assert await read(outbox) == [ToolProgress("1", "ab", "second")]


async def test_a_reader_that_waits_is_woken_and_released() -> None:
    outbox = EventBuffer()
    waiting = asyncio.ensure_future(anext(outbox))
    await asyncio.sleep(0)
    outbox.publish(Notice("now"))
    assert await waiting == Notice("now")
    last = asyncio.ensure_future(anext(outbox))
    await asyncio.sleep(0)
    outbox.close()

    with pytest.raises(StopAsyncIteration):
        await last
    outbox.publish(Notice("too late"))
    assert len(outbox) == 0


_EVENTS = st.one_of(
    st.text(max_size=3).map(AnswerText),
    st.text(max_size=3).map(ThinkingText),
    st.text(max_size=3).map(Notice),
    st.tuples(st.sampled_from("ab"), st.text(max_size=3)).map(lambda t: ChildEvent(t[0], AnswerText(t[1]))),
)


@given(st.lists(st.one_of(_EVENTS, st.none()), max_size=30))
def test_nothing_is_lost_and_each_text_stays_in_order(steps: list[ChatEvent | None]) -> None:
    """``None`` is a reader that takes one event."""

    async def go() -> list[ChatEvent]:
        outbox, got = EventBuffer(), list[ChatEvent]()
        for step in steps:
            if step is not None:
                outbox.publish(step)
            elif len(outbox):
                got.append(await anext(outbox))
        return got + await read(outbox)

    got = asyncio.run(go())
    pushed = [s for s in steps if s is not None]

    def texts(events: list[ChatEvent], kind: type[AnswerText] | type[ThinkingText], child: str = "") -> str:
        own = [e.event for e in events if isinstance(e, ChildEvent) and e.id == child] if child else events
        return "".join(e.text for e in own if isinstance(e, kind))

    for kind in (AnswerText, ThinkingText):
        assert texts(got, kind) == texts(pushed, kind)
    for child in "ab":
        assert texts(got, AnswerText, child) == texts(pushed, AnswerText, child)
    assert [e for e in got if isinstance(e, Notice)] == [e for e in pushed if isinstance(e, Notice)]
