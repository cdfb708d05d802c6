"""Unread events of a slow follower: pieces of one text are joined, so that their number does not grow with the text."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

from msgspec.structs import replace

from mainspring.events.base import Event
from mainspring.events.response import TextDelta, ThinkingDelta, ToolCallDelta
from mainspring.events.types import SubagentEvent, ToolExecutionUpdate

MAX_PENDING_PROGRESS = 65_536
"""Maximum characters of progress that are stored. Older ones are dropped, since the final result contains them."""

_TEXTS: dict[type[Event], tuple[str, str]] = {
    TextDelta: ("index", "text"),
    ThinkingDelta: ("index", "text"),
    ToolCallDelta: ("index", "text"),
}
"""Events that are pieces of a text that must stay complete: the field that identifies the text, and the field with the piece."""

_PROGRESS: dict[type[Event], tuple[str, str]] = {ToolExecutionUpdate: ("call_id", "output")}
"""The same for progress, of which only the end is needed."""


class _JoinedText:
    """Pieces of one text that were not read yet."""

    __slots__ = ("field", "last", "max_size", "parts", "size", "title", "wrapper")

    def __init__(self, event: Event, field: str, max_size: int | None, wrapper: SubagentEvent | None) -> None:
        self.last = event
        self.field = field
        self.max_size = max_size
        self.wrapper = wrapper
        self.parts: deque[str] = deque()
        self.size = 0
        self.title = ""

    def add(self, event: Event) -> None:
        self.last = event
        if isinstance(event, ToolExecutionUpdate):
            self.title = event.title or self.title
        text: str = getattr(event, self.field)
        self.parts.append(text)
        self.size += len(text)
        while self.max_size is not None and self.size > self.max_size and len(self.parts) > 1:
            self.size -= len(self.parts.popleft())

    def to_event(self) -> Event:
        event = self.last
        if len(self.parts) > 1 or (self.max_size is not None and self.size > self.max_size):
            text = "".join(self.parts)
            changes = {self.field: text if self.max_size is None else text[-self.max_size :]}
            event = replace(event, **changes, **({"title": self.title} if self.title else {}))
        return event if self.wrapper is None else replace(self.wrapper, event=event)


class Coalescer:
    """Unread events, in order.

    Args:
        progress: Further events whose pieces are joined like the output of a tool: the field that identifies the text, and the field
            with the piece.
        latest: Events that describe a state: of several in a row, only the last remains.
    """

    def __init__(
        self, *, progress: Mapping[type[Any], tuple[str, str]] | None = None, latest: tuple[type[Any], ...] = ()
    ) -> None:
        self._joined_kinds: dict[type[Event], tuple[str, str, int | None]] = {
            **{kind: (*fields, None) for kind, fields in _TEXTS.items()},
            **{kind: (*fields, MAX_PENDING_PROGRESS) for kind, fields in {**_PROGRESS, **(progress or {})}.items()},
        }
        self._latest = frozenset(latest)
        self._events: deque[Event | _JoinedText] = deque()
        self._open: dict[Hashable, _JoinedText] = {}  # texts that the next piece extends, since only pieces followed

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event) -> None:
        """Add an event."""
        wrapper = event if type(event) is SubagentEvent else None
        inner = event if wrapper is None else wrapper.event
        kind = type(inner)
        fields = self._joined_kinds.get(kind)
        if fields is None or (isinstance(inner, ToolExecutionUpdate) and inner.metadata):
            if kind in self._latest and self._events and type(self._events[-1]) is kind:
                self._events[-1] = event
            else:
                self._events.append(event)
            self._open.clear()
            return
        id, field, max_size = fields
        key = (kind, getattr(inner, id), None if wrapper is None else wrapper.path)
        joined = self._open.get(key)
        if joined is None:
            self._open[key] = joined = _JoinedText(inner, field, max_size, wrapper)
            self._events.append(joined)
        joined.add(inner)

    def pop(self) -> Event:
        """Remove the oldest event and return it.

        Raises:
            IndexError: If all events were read.
        """
        first = self._events.popleft()
        if isinstance(first, _JoinedText):
            self._open = {key: joined for key, joined in self._open.items() if joined is not first}
            return first.to_event()
        return first

    def take(self) -> list[Event]:
        """Remove all events and return them."""
        return [self.pop() for _ in range(len(self._events))]
