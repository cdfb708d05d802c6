"""Everything by which a run touches the outside, behind one seam.

Every model call, tool call, clock, id, sleep and wait of the loop goes through `Steps`. Above: `loop.py`, `turn.py`,
`dispatch.py`. Below: the world itself (`LiveSteps`), a record of an earlier run, or a durable engine. Given
the same answers from its steps, a run does the same things in the same order.
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
"""Hands out what is waiting (steering, follow-ups), and keeps nothing back."""


class Steps(Protocol):
    """How the loop reaches models, tools, time and people."""

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def new_id(self) -> str:
        """A name nobody else has."""
        ...

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        """Wait; false if ``signal`` cut it short."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        """Call ``callback`` once ``seconds`` have passed; what is returned takes that back."""
        ...

    def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Make one model call, without retries.

        Raises:
            ModelError: As the provider does.
        """
        ...

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run one tool call. ``run`` raises what the tool raised."""
        ...

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        """Take what is waiting under ``topic`` (``steer`` or ``follow_up``)."""
        ...


class LiveSteps:
    """The world itself."""

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
