"""Views of a run: pure functions that turn an event into the event that a follower gets, or into None."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.events.base import ErrorInfo, Event
from mainspring.events.response import (
    Done,
    StreamError,
    StreamStart,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from mainspring.events.types import (
    AgentEnd,
    McpServer,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelRetry,
    SubagentEnd,
    SubagentEvent,
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
        return None if without_blocks(event.event) is None else event
    if isinstance(event, _REPEATED):
        return None
    if isinstance(event, MessageEnd) and isinstance(event.message, Message) and event.message.tool_results:
        return None
    return event


def redact_errors(event: Event, redact: Callable[[str], str]) -> Event:
    """Return the event with ``redact`` applied to the texts of its errors; the same event if it has none."""
    match event:
        case SubagentEvent(event=inner):
            redacted = redact_errors(inner, redact)
            return event if redacted is inner else replace(event, event=redacted)
        case MessageEnd(message=Message(error=str() as text) as message, error=error):
            info = error and replace(error, message=redact(error.message))
            return replace(event, message=replace(message, error=redact(text)), error=info)
        case (
            ModelRetry(error=error)
            | McpServer(error=ErrorInfo() as error)
            | SubagentEnd(error=ErrorInfo() as error)
            | AgentEnd(error=ErrorInfo() as error)
        ):
            return replace(event, error=replace(error, message=redact(error.message)))
        case _:
            return event
