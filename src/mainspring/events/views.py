"""Views of a run: pure functions that turn an event into the event that a follower gets, or into None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mainspring.errors import format_exception
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
    AgentStart,
    ContextCompacted,
    McpServer,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelCallRetry,
    SubagentEnd,
    SubagentEvent,
    ToolExecutionEnd,
    TurnEnd,
    UsageUpdate,
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


LOGGED_EVENTS = (AgentStart, MessageEnd, ModelCallRetry, UsageUpdate, ToolExecutionEnd, ContextCompacted, AgentEnd)
"""The events that have more than content; see `without_content`."""


def without_content(event: Event, redact: Callable[[str], str]) -> Event | None:
    """Return the event for a log of calls and costs: without prompts, responses, and outputs; None if nothing else is in it.

    Arguments of calls stay, and the error code of a result. ``redact`` is applied to the texts of errors, and to those of the loop in
    place of a result.
    """
    event = redact_errors(event, redact)
    match event:
        case AgentStart():
            return replace(event, system="", tools=())
        case AgentEnd(stats=stats):
            stats = replace(stats, turn_usage=(), output=None)
            return replace(event, messages=(), text="", output_error="", stats=stats, denied=())
        case MessageEnd(message=Message(role="assistant", error=text) as message):
            return replace(event, message=replace(message, content=(), error=None if event.error else text))
        case ToolExecutionEnd(result=result, exception=raised):
            facts: dict[str, Any] = result.details or {}
            code = facts.get("code")
            # A failure with a code and without a title has only its message; others may contain output.
            is_message = not event.has_output or (code not in (None, "UNKNOWN") and not event.title)
            text = result.text if is_message else ""
            text = text if raised is None else format_exception(raised)
            details = {"code": code} if code else None
            return replace(event, result=replace(result, content=redact(text), details=details), title="", display=None)
        case ContextCompacted():
            return replace(event, summary="")
        case ModelCallRetry() | UsageUpdate():
            return event
        case _:
            return None


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
            ModelCallRetry(error=error)
            | McpServer(error=ErrorInfo() as error)
            | SubagentEnd(error=ErrorInfo() as error)
            | AgentEnd(error=ErrorInfo() as error)
        ):
            return replace(event, error=replace(error, message=redact(error.message)))
        case _:
            return event
