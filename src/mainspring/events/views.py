"""Views of a run: pure functions that turn an event into the event that a follower gets, or into None."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.events.base import Event
from mainspring.events.types import (
    Done,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamError,
    StreamStart,
    SubagentEvent,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
)
from mainspring.messages import Message

_REPEATED = (
    Done,
    MessageStart,
    MessageUpdate,
    StreamError,
    StreamStart,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
)


def without_blocks(event: Event) -> Event | None:
    """Return the event for a follower that reads deltas and complete messages.

    The start and end of blocks, messages and turns repeat what these contain, and a message with tool results repeats the
    results of the calls: they become None.
    """
    if isinstance(event, SubagentEvent):
        inner = without_blocks(event.event)
        return None if inner is None else event if inner is event.event else replace(event, event=inner)
    if isinstance(event, _REPEATED):
        return None
    if isinstance(event, MessageEnd) and isinstance(event.message, Message) and event.message.tool_results:
        return None
    return event
