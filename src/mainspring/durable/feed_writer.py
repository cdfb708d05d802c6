"""Writes the events of a run to its feed: text in batches, every other event once across all attempts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from mainspring.durable.feed import FeedEvent, FeedItem
from mainspring.errors import format_exception
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    AttemptStart,
    ErrorInfo,
    Event,
    MessageEnd,
    MessageUpdate,
    ModelCallRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.events.codec import without_in_process
from mainspring.events.views import redact_errors
from mainspring.loop import RunResult
from mainspring.redaction import redact_environment

_FLUSH_SIZE = 200
"""Number of events that are written before the interval is over."""


def _dedup_key(event: FeedEvent) -> str:
    """Return the key of an event that each attempt repeats. Empty for events that may repeat."""
    match event:
        case TurnStart(turn=number) | MessageEnd(number=number):
            return f"{event.type} {number}"
        case ToolExecutionStart(call=call) | ToolExecutionEnd(call=call):
            return f"{event.type} {call.id}"
        case ApprovalRequest(id=id) | ApprovalResult(id=id):
            return f"{event.type} {id}"
        case AgentEnd(status=status, error=error):
            return f"{event.type} {status} {error and error.message}"  # A run that was retried can end again.
        case _:
            return ""


class FeedLog(Protocol):
    """The feed of one run. A `RunLog` is one."""

    @property
    def attempt(self) -> int:
        """1 for the first attempt, more after the run was resumed."""
        ...

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        """Return events after a number, in batches."""
        ...

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """Send events to followers."""
        ...


class FeedWriter:
    """Writes the events of a run to its feed. Call `begin` first and `close` last, and run `write` concurrently.

    Args:
        log: The log of the run.
        interval_seconds: Seconds for which text is collected.
        replaying: Returns True if an earlier attempt has already reported the current events.
    """

    def __init__(self, log: FeedLog, interval_seconds: float, replaying: Callable[[], bool]) -> None:
        self._log = log
        self._interval_seconds = interval_seconds
        self._replaying = replaying
        # Counted, since some models reuse call IDs.
        self._recorded: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._events: list[FeedEvent] = []
        self._messages = 0
        self._turns = 0
        self._full = asyncio.Event()
        self._some = asyncio.Event()
        self._closed = False

    async def begin(self, agent: str) -> None:
        """Load what earlier attempts reported."""
        after = 0
        while self._log.attempt > 1 and (items := await self._log.read_feed(after)):
            after = items[-1].number
            self._recorded.update(_dedup_key(item.event) for item in items)
        self.publish(AttemptStart(self._log.attempt, agent))

    def __call__(self, event: Event) -> None:
        """Handle an event of the agent."""
        match event.event if isinstance(event, MessageUpdate) else event:
            case TurnStart() as turn:  # An agent counts from 1 again after a pause.
                self._turns += 1
                self.publish(replace(turn, turn=self._turns))
            case MessageEnd() as message:
                self._messages += 1
                self.publish(replace(message, number=self._messages, seconds=round(message.seconds, 3)))
            case ToolExecutionStart() as start:
                self.publish(start)
            case ToolExecutionEnd() as end:
                self.publish(replace(end, seconds=round(end.seconds, 3)))
            case (TextDelta() | ThinkingDelta() | ToolExecutionUpdate() | ModelCallRetry()) as shown if (
                not self._replaying()
            ):
                self.publish(shown)
            case _:
                pass

    def publish(self, event: FeedEvent) -> None:
        """Queue an event, unless it was reported before."""
        key = _dedup_key(event)
        self._seen[key] += 1
        if key and self._seen[key] <= self._recorded[key]:
            return
        last = self._events[-1] if self._events else None
        match last, event:
            case (TextDelta(), TextDelta()) | (ThinkingDelta(), ThinkingDelta()) if last.index == event.index:
                self._events[-1] = type(event)(event.index, last.text + event.text)
            case _:
                self._events.append(without_in_process(redact_errors(event, redact_environment)))
        self._some.set()
        if len(self._events) >= _FLUSH_SIZE or isinstance(event, ApprovalRequest | ApprovalResult | AgentEnd):
            self._full.set()

    def publish_end(self, run_id: str, ended: RunResult | BaseException) -> None:
        """Queue the end of the run."""
        if isinstance(ended, BaseException):
            info = ErrorInfo.from_exception(ended, format_exception(ended))
            self.publish(AgentEnd(run_id, (), "error", error=info))
        else:
            info = ErrorInfo.from_exception(ended.error) if ended.error else None
            self.publish(AgentEnd(run_id, (), ended.status, ended.text, error=info))

    async def write(self) -> None:
        """Write queued events until `close`. Run it concurrently with the run."""
        while self._events or not self._closed:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._full.wait()
            self._some.clear()
            self._full.clear()
            events, self._events = self._events, []
            if events:
                await self._log.emit(events)

    def close(self) -> None:
        """Make `write` return once everything is written."""
        self._closed = True
        self._some.set()
        self._full.set()
