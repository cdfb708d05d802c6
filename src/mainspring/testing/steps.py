"""A run written down, and given back without its model, tools and clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import ErrorCode, MainspringError, ModelError, model_error
from mainspring.events import Done, StreamEvent, StreamStart
from mainspring.loop import LiveSteps, Steps
from mainspring.loop.steps import QueueReader
from mainspring.messages import AgentMessage, Message, ToolUseBlock
from mainspring.models import ModelProvider, ModelRequest
from mainspring.tools import ToolResult
from mainspring.tools.execute import rebuild_exception


class RecordedStep(Struct, frozen=True):
    """One thing that a run asked of the outside, and what it got. Plain data, so it can be stored."""

    kind: str
    value: Any = None
    error: dict[str, Any] | None = None


class RecordingSteps:
    """Passes everything on and writes down what came back, as `Step` values in order.

    Attributes:
        record: What has been written down.
    """

    def __init__(self, steps: Steps | None = None) -> None:
        self.record: list[RecordedStep] = []
        self._steps = steps or LiveSteps()

    def now(self) -> datetime:
        return self._keep("now", self._steps.now())

    def elapsed(self) -> float:
        return self._keep("elapsed", self._steps.elapsed())

    def new_id(self) -> str:
        return self._keep("id", self._steps.new_id())

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return self._keep("sleep", await self._steps.sleep(seconds, signal))

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        return self._steps.after(seconds, callback)

    async def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        try:
            async with aclosing(cast("Any", self._steps.model(provider, request))) as events:
                async for event in events:
                    if isinstance(event, Done):
                        self._keep("model", event.message)
                    yield event
        except ModelError as error:
            self.record.append(RecordedStep("model", error.partial, _error_fields(error)))
            raise

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        try:
            result = await self._steps.tool(call, run)
        except Exception as error:
            self.record.append(
                RecordedStep(f"tool:{call.id}", None, {"type": type(error).__name__, "message": str(error)})
            )
            raise
        return self._keep(f"tool:{call.id}", result)

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        return self._keep(topic, tuple(await self._steps.receive(topic, getter)))

    def _keep(self, kind: str, value: Any) -> Any:
        self.record.append(RecordedStep(kind, value))
        return value


class ReplayError(MainspringError):
    """The run asked for something else than the record holds: the code or its inputs are not the ones recorded."""


class ReplaySteps:
    """Gives back what `RecordingSteps` wrote down; touches neither model nor tools nor clock.

    Steps of one kind are given out in their order; calls of tools are found by their id, since parallel calls may end in
    any order.
    """

    def __init__(self, record: Sequence[RecordedStep]) -> None:
        self._left: dict[str, list[RecordedStep]] = {}
        for step in record:
            self._left.setdefault(step.kind, []).append(step)

    def now(self) -> datetime:
        return self._next("now").value

    def elapsed(self) -> float:
        return self._next("elapsed").value

    def new_id(self) -> str:
        return self._next("id").value

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return self._next("sleep").value

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        return lambda: None  # a limit that was reached shows in the recorded clock

    async def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        step = self._next("model")
        if step.error is not None:
            raise model_error(**{**step.error, "code": ErrorCode(step.error["code"]), "partial": step.value})
        message: Message = step.value
        yield StreamStart()
        yield Done(message.stop_reason or "end_turn", message)

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        step = self._next(f"tool:{call.id}")
        if step.error is not None:
            raise rebuild_exception(step.error["type"], step.error["message"])
        return step.value

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        return self._next(topic).value

    def _next(self, kind: str) -> RecordedStep:
        left = self._left.get(kind)
        if not left:
            raise ReplayError(f"the record holds no further {kind!r} step; the run took another way than when recorded")
        return left.pop(0)


def _error_fields(error: ModelError) -> dict[str, Any]:
    fields = ("message", "code", "reason", "retryable", "retry_after", "status", "provider", "model", "request_id")
    return {name: getattr(error, name) for name in fields}
