"""The interface between a run and the outside: models, tools, time, IDs, and queues.

Every model call, tool call, clock, ID, sleep, and wait of the loop goes through `Steps`. An implementation calls the real model
and tools (`LiveSteps`), replays a recorded run, or records in a durable engine. With the same results from its steps, a run
does the same things in the same order.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

from mainspring.cancellation import CancelToken, sleep
from mainspring.events import StreamEvent
from mainspring.messages import AgentMessage, ToolUseBlock, utc_now
from mainspring.models import ModelProvider, ModelRequest
from mainspring.tools import ToolResult

QueueReader = Callable[[], "Awaitable[Sequence[AgentMessage]] | Sequence[AgentMessage]"]
"""Takes the messages that wait in a queue (steering or follow-up)."""


class Steps(Protocol):
    """How the loop reaches models, tools, time, and queues."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        ...

    def elapsed(self) -> float:
        """Return the seconds of a monotonic clock."""
        ...

    def new_id(self) -> str:
        """Return a unique ID."""
        ...

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        """Sleep; return False if ``signal`` ended the sleep early."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        """Call ``callback`` after ``seconds``; the returned function cancels the call."""
        ...

    def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Make one model call, without retries.

        Raises:
            ModelError: If the provider fails.
        """
        ...

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run one tool call. ``run`` raises the exception of the tool."""
        ...

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        """Take the messages that wait in the queue ``topic`` (``steer`` or ``follow_up``)."""
        ...


class LiveSteps:
    """Steps that call the real model, tools, and clock."""

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = f"{time.time_ns() // 1_000_000:011x}{os.urandom(5).hex()}"
        self._count = 0

    def now(self) -> datetime:
        return utc_now()

    def elapsed(self) -> float:
        return time.monotonic()

    def new_id(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:04x}"

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return await sleep(seconds, signal)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        return asyncio.get_running_loop().call_later(seconds, callback).cancel

    def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        return provider.stream(request)

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        return await run()

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        waiting = getter()
        return waiting if isinstance(waiting, Sequence) else await waiting
