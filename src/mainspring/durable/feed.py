"""The events of a run for followers in any process: numbered, resumable, and separate from the log that replays the run.

Text comes in chunks that are collected for a moment. A crashed worker may leave a text unfinished: `Attempt` reports that the run
was resumed, and the text since the last `MessageDone` is void. All other events come exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from mainspring.durable.records import decode, encode
from mainspring.events import RunStatus
from mainspring.messages import AgentMessage, ToolResultBlock, ToolUseBlock


class Attempt(Struct, frozen=True, tag="attempt"):
    """A worker starts (1) or resumes the run. Text since the last `MessageDone` is void."""

    number: int
    agent: str = ""


class TurnBegan(Struct, frozen=True, tag="turn"):
    """A model call is about to be made."""

    turn: int


class Text(Struct, frozen=True, tag="text"):
    """A chunk of the response's text."""

    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A chunk of the model's reasoning."""

    text: str


class MessageDone(Struct, frozen=True, tag="message"):
    """A message is complete: a prompt, a response, or tool results. ``number`` counts from 1 in each run."""

    number: int
    message: AgentMessage


class CallBegan(Struct, frozen=True, tag="tool_start"):
    """A tool call starts."""

    call: ToolUseBlock
    label: str = ""


class CallProgress(Struct, frozen=True, tag="tool_update"):
    """Output of a running tool."""

    call_id: str
    name: str
    output: str = ""
    title: str = ""


class CallDone(Struct, frozen=True, tag="tool_end"):
    """A call has its result. ``seconds`` is the run time of the tool itself."""

    call: ToolUseBlock
    result: ToolResultBlock
    title: str = ""
    seconds: float = 0.0


class Retry(Struct, frozen=True, tag="retry"):
    """A model call failed and will be retried in ``delay`` seconds."""

    attempt: int
    max_retries: int
    delay: float
    error: str


class WaitingCall(Struct, frozen=True):
    """A call that waits for an approval, and the reason.

    Attributes:
        call: The call, with the ID under which it is answered. The ID of a subagent's call starts with the subagent's name.
        reason: Why it waits.
        agent: The subagent that made the call, by its name in the run's tree. Empty for the run itself.
        number: Number of the question, counted from 1 in the run and in each subagent.
    """

    call: ToolUseBlock
    reason: str = ""
    agent: str = ""
    number: int = 0


class Asked(Struct, frozen=True, tag="asked"):
    """The run or one of its subagents waits for answers to these calls. No calls means that it has resumed.

    ``number`` counts from 1 in the run and in each subagent. ``agent`` is the subagent that made the calls. The pending calls of other
    subagents are unchanged.
    """

    number: int
    calls: tuple[WaitingCall, ...]
    agent: str = ""


class RunEnded(Struct, frozen=True, tag="end"):
    """The run is finished. The last event, unless the run was cancelled or could not be executed: see `Engine.info` then."""

    status: RunStatus
    text: str = ""
    error: str = ""


FeedEvent: TypeAlias = (
    Attempt | TurnBegan | Text | Thinking | MessageDone | CallBegan | CallProgress | CallDone | Retry | Asked | RunEnded
)
"""The union of all feed events. ``type`` distinguishes them in JSON."""


class FeedItem(Struct, frozen=True):
    """An event and its number, which increases by one from 1 in each run."""

    number: int
    event: FeedEvent


class Feed(Protocol):
    """The events of runs."""

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """Add events in this order, all or none. Returns the number of the last one."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """Return at most ``limit`` events with a higher number, in order. Empty for an unknown run.

        After a number was read, no lower number appears later.
        """
        ...

    async def wait(self, run_id: str, after: int = 0) -> None:
        """Return once there is an event with a higher number. Waits forever: cancel it, or use a timeout."""
        ...


_KIND: Any = FeedEvent


def encode_feed_event(event: FeedEvent) -> bytes:
    """Encode an event as JSON, with its ``type``."""
    return encode(event)


def decode_feed_event(data: bytes) -> FeedEvent:
    """Decode the output of `encode_event`.

    Raises:
        DurableError: If the data is invalid.
    """
    return decode(data, _KIND)


class MemoryFeed:
    """A `Feed` in the memory of the process."""

    def __init__(self) -> None:
        self._events: dict[str, list[FeedEvent]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """See `Feed.append`."""
        stored = self._events.setdefault(run_id, [])
        stored.extend(events)
        changed = self._changed.pop(run_id, None)
        if changed is not None:
            changed.set()
        return len(stored)

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """See `Feed.read`."""
        events = self._events.get(run_id, [])
        return [FeedItem(n, event) for n, event in enumerate(events[after : after + limit], after + 1)]

    async def wait(self, run_id: str, after: int = 0) -> None:
        """See `Feed.wait`."""
        while len(self._events.get(run_id, ())) <= after:
            await self._changed.setdefault(run_id, asyncio.Event()).wait()

    def delete(self, run_id: str) -> None:
        """Delete the events of a run."""
        self._events.pop(run_id, None)
