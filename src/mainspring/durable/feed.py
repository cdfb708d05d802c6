"""What a run tells, for followers in any process: numbered, resumable, apart from the log that the run is played again from.

Text comes in pieces that were gathered for a moment. A worker that dies may leave a piece of text unfinished: `Attempt` says that
the run was taken up again, and what text came since the last `MessageDone` is void. The other events come once each, whatever dies.
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
    """A worker takes the run up: for the first time (1) or again. Text since the last `MessageDone` is void."""

    number: int
    agent: str = ""


class TurnBegan(Struct, frozen=True, tag="turn"):
    """A model call is about to be made."""

    turn: int


class Text(Struct, frozen=True, tag="text"):
    """A piece of the answer."""

    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A piece of the model's reasoning."""

    text: str


class MessageDone(Struct, frozen=True, tag="message"):
    """A message is complete: a prompt, an answer, or tool results. ``number`` counts from 1 in each run."""

    number: int
    message: AgentMessage


class CallBegan(Struct, frozen=True, tag="tool_start"):
    """A tool call is taken up."""

    call: ToolUseBlock
    label: str = ""


class CallProgress(Struct, frozen=True, tag="tool_update"):
    """Output of a tool that goes on."""

    call_id: str
    name: str
    output: str = ""
    title: str = ""


class CallDone(Struct, frozen=True, tag="tool_end"):
    """A call has its result; ``seconds`` is the time the tool itself took."""

    call: ToolUseBlock
    result: ToolResultBlock
    title: str = ""
    seconds: float = 0.0


class Retry(Struct, frozen=True, tag="retry"):
    """A model call failed and will be made again in ``delay`` seconds."""

    attempt: int
    max_retries: int
    delay: float
    error: str


class WaitingCall(Struct, frozen=True):
    """A call that waits for an answer, and why.

    Attributes:
        call: The call, with the id under which it is answered: that of a sub-agent's call begins with the sub-agent's name.
        reason: Why it waits.
        agent: The sub-agent whose call it is, by its name in the run's tree; empty for the run's own.
        number: Of the question; counts from 1 in the run and in each sub-agent.
    """

    call: ToolUseBlock
    reason: str = ""
    agent: str = ""
    number: int = 0


class Asked(Struct, frozen=True, tag="asked"):
    """The run waits for answers to these calls, or a sub-agent of it does; with none, that one goes on.

    ``number`` counts from 1 in the run and in each sub-agent. ``agent`` is the sub-agent whose calls they are; what others wait for
    is as it was.
    """

    number: int
    calls: tuple[WaitingCall, ...]
    agent: str = ""


class RunEnded(Struct, frozen=True, tag="end"):
    """The run is over. The last event, unless the run was cancelled or could not be done at all: ask `Engine.info` then."""

    status: RunStatus
    text: str = ""
    error: str = ""


FeedEvent: TypeAlias = (
    Attempt | TurnBegan | Text | Thinking | MessageDone | CallBegan | CallProgress | CallDone | Retry | Asked | RunEnded
)
"""Everything that a feed can hold. As JSON, told apart by ``type``."""


class FeedItem(Struct, frozen=True):
    """An event and its number, which grows by one from 1 in each run."""

    number: int
    event: FeedEvent


class Feed(Protocol):
    """The events of runs."""

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """Add events in this order, all or none of them; gives the number of the last one."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """Events with a higher number, in their order, at most ``limit``; none for a run that is unknown.

        A number that was read once is never followed by a lower one that appears later.
        """
        ...

    async def wait(self, run_id: str, after: int = 0) -> None:
        """Return once there is an event with a higher number. Waits for ever if need be: cancel it, or use a timeout."""
        ...


_KIND: Any = FeedEvent


def encode_event(event: FeedEvent) -> bytes:
    """An event as JSON, with its ``type``."""
    return encode(event)


def decode_event(data: bytes) -> FeedEvent:
    """What `encode_event` gave.

    Raises:
        DurableError: If it is something else.
    """
    return decode(data, _KIND)


class MemoryFeed:
    """A `Feed` that lives and dies with the process."""

    def __init__(self) -> None:
        self._events: dict[str, list[FeedEvent]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """As `Feed.append`."""
        kept = self._events.setdefault(run_id, [])
        kept.extend(events)
        changed = self._changed.pop(run_id, None)
        if changed is not None:
            changed.set()
        return len(kept)

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """As `Feed.read`."""
        kept = self._events.get(run_id, [])
        return [FeedItem(n, event) for n, event in enumerate(kept[after : after + limit], after + 1)]

    async def wait(self, run_id: str, after: int = 0) -> None:
        """As `Feed.wait`."""
        while len(self._events.get(run_id, ())) <= after:
            await self._changed.setdefault(run_id, asyncio.Event()).wait()

    def forget(self, run_id: str) -> None:
        """Let go of what a run told."""
        self._events.pop(run_id, None)
