"""A buffer of events for a client: in order, and bounded if the client reads slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable

from msgspec.structs import replace

from mainspring.app.chat.events import (
    AnswerText,
    ChatEvent,
    ChildEvent,
    QueueChanged,
    ShellOutput,
    StatusChanged,
    ThinkingText,
    ToolProgress,
    Working,
)

MAX_PENDING_PROGRESS = 65_536
"""Maximum characters of progress that are buffered. Older ones are dropped, since the final result contains them."""

_REPLACEABLE_EVENTS = (StatusChanged, QueueChanged, Working)  # of several in a row, only the last remains


class _CoalescedText:
    """Pieces of one text that were not read yet."""

    __slots__ = ("first", "max_size", "parts", "size")

    def __init__(self, first: ChatEvent, max_size: int | None) -> None:
        self.first = first
        self.max_size = max_size
        self.parts: deque[str] = deque()
        self.size = 0

    def add(self, event: ChatEvent) -> None:
        title = _title(event)
        if title:
            self.first = _replace_text(self.first, None, title)
        text = _text(event)
        self.parts.append(text)
        self.size += len(text)
        while self.max_size is not None and self.size > self.max_size and len(self.parts) > 1:
            self.size -= len(self.parts.popleft())

    def to_event(self) -> ChatEvent:
        text = "".join(self.parts)
        return _replace_text(self.first, text if self.max_size is None else text[-self.max_size :], "")


class EventBuffer(AsyncIterator[ChatEvent]):
    """A buffer of events for one reader. Pushing never waits.

    Unread pieces of a text are joined, so that the buffer does not grow with their number.
    """

    def __init__(self) -> None:
        self._events: deque[ChatEvent | _CoalescedText] = deque()
        self._open: dict[
            Hashable, _CoalescedText
        ] = {}  # texts that the next piece can extend, since no other event followed
        self._closed = False
        self._has_events = asyncio.Event()

    def publish(self, event: ChatEvent) -> None:
        """Add an event. It is dropped if the buffer is closed."""
        if self._closed:
            return
        key = _coalescing_key(event)
        if key is not None:
            pieces = self._open.get(key)
            if pieces is None:
                max_size = None if key[-1] == "" else MAX_PENDING_PROGRESS
                self._open[key] = pieces = _CoalescedText(event, max_size)
                self._events.append(pieces)
            pieces.add(event)
        else:
            last = self._events[-1] if self._events else None
            if isinstance(event, _REPLACEABLE_EVENTS) and type(last) is type(event):
                self._events[-1] = event
            else:
                self._events.append(event)
            self._open.clear()
        self._has_events.set()

    def close(self) -> None:
        """Accept no further events. Buffered ones can still be read."""
        self._closed = True
        self._has_events.set()

    def __len__(self) -> int:
        return len(self._events)

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._has_events.clear()
            await self._has_events.wait()
        first = self._events.popleft()
        if isinstance(first, _CoalescedText):
            self._open = {key: pieces for key, pieces in self._open.items() if pieces is not first}
            return first.to_event()
        return first


def _coalescing_key(event: ChatEvent) -> tuple[Hashable, ...] | None:
    """Return the key that pieces of one text share. Its last part is empty if the text must stay complete."""
    match event:
        case AnswerText() | ThinkingText():
            return type(event), ""
        case ToolProgress(terminal=terminal) if terminal:
            return None
        case ToolProgress(id=id) | ShellOutput(id=id):
            return type(event), id
        case ChildEvent(id=id, event=inner):
            key = _coalescing_key(inner)
            return None if key is None else (id, *key)
        case _:
            return None


def _text(event: ChatEvent) -> str:
    match event:
        case AnswerText(text=text) | ThinkingText(text=text) | ShellOutput(text=text) | ToolProgress(output=text):
            return text
        case ChildEvent(event=inner):
            return _text(inner)
        case _:
            return ""


def _title(event: ChatEvent) -> str:
    match event:
        case ToolProgress(title=title):
            return title
        case ChildEvent(event=ToolProgress(title=title)):
            return title
        case _:
            return ""


def _replace_text(event: ChatEvent, text: str | None, title: str) -> ChatEvent:
    match event:
        case AnswerText() | ThinkingText() | ShellOutput():
            return event if text is None else replace(event, text=text)
        case ToolProgress():
            return replace(event, output=event.output if text is None else text, title=title or event.title)
        case ChildEvent(event=inner):
            return replace(event, event=_replace_text(inner, text, title))
        case _:
            return event
