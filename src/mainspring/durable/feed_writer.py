"""Writes the events of a run to its feed: text in batches, every other event once across all attempts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from mainspring.durable.engine import RunLog
from mainspring.durable.feed import (
    Asked,
    Attempt,
    CallBegan,
    CallDone,
    CallProgress,
    FeedEvent,
    MessageDone,
    Retry,
    RunEnded,
    Text,
    Thinking,
    TurnBegan,
)
from mainspring.events import (
    Event,
    MessageEnd,
    MessageUpdate,
    ModelRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.redaction import redact_environment

_FLUSH_SIZE = 200
"""Number of events that are written before the interval is over."""


def _dedup_key(event: FeedEvent) -> str:
    """Return the key of an event that each attempt repeats. Empty for events that may repeat."""
    match event:
        case TurnBegan(turn=turn):
            return f"turn {turn}"
        case MessageDone(number=number):
            return f"message {number}"
        case CallBegan(call=call):
            return f"begin {call.id}"
        case CallDone(call=call):
            return f"end {call.id}"
        case Asked(number=number):
            return f"asked {event.agent} {number} {len(event.calls)}"
        case RunEnded(status=status, error=error):
            return f"over {status} {error}"  # A run that was retried can end again.
        case _:
            return ""


class FeedWriter:
    """Writes the events of a run to its feed. Call `begin` first and `close` last, and run `write` concurrently.

    Args:
        log: The log of the run.
        interval_seconds: Seconds for which text is collected.
        replaying: Returns True if an earlier attempt has already reported the current events.
    """

    def __init__(self, log: RunLog, interval_seconds: float, replaying: Callable[[], bool]) -> None:
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
        self.publish(Attempt(self._log.attempt, agent))

    def __call__(self, event: Event) -> None:
        """Handle an event of the agent."""
        feed_event = self._durable_event(event)
        if feed_event is None and not self._replaying():
            feed_event = _transient_event(event.event if isinstance(event, MessageUpdate) else event)
        if feed_event is not None:
            self.publish(feed_event)

    def _durable_event(self, event: Event) -> FeedEvent | None:
        match event:
            case TurnStart():
                self._turns += 1
                return TurnBegan(self._turns)
            case MessageEnd(message=message):
                self._messages += 1
                return MessageDone(self._messages, message)
            case ToolExecutionStart(call=call):
                return CallBegan(call, event.label)
            case ToolExecutionEnd(call=call, result=result):
                return CallDone(call, result, event.title, round(event.seconds, 3))
            case _:
                return None

    def publish(self, event: FeedEvent) -> None:
        """Queue an event, unless it was reported before."""
        key = _dedup_key(event)
        self._seen[key] += 1
        if key and self._seen[key] <= self._recorded[key]:
            return
        last = self._events[-1] if self._events else None
        match last, event:
            case (Text(text=before), Text(text=more)):
                self._events[-1] = Text(before + more)
            case (Thinking(text=before), Thinking(text=more)):
                self._events[-1] = Thinking(before + more)
            case _:
                self._events.append(event)
        self._some.set()
        if len(self._events) >= _FLUSH_SIZE or isinstance(event, Asked | RunEnded):
            self._full.set()

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


def _transient_event(event: Event) -> FeedEvent | None:
    match event:
        case TextDelta(text=text):
            return Text(text)
        case ThinkingDelta(text=text):
            return Thinking(text)
        case ToolExecutionUpdate(call_id=id, name=name):
            return CallProgress(id, name, event.output, event.title)
        case ModelRetry(attempt=attempt, max_retries=limit, delay=delay, error=error):
            return Retry(attempt, limit, delay, redact_environment(error.message))
        case _:
            return None
