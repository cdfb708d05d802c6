"""What a run gives back: while it goes, and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError
from mainspring.events import Event, EventStream, RunStatus, SubagentStats
from mainspring.loop.hooks import HookBus
from mainspring.messages import AgentMessage, Cost, Message, StopReason, Usage

T = TypeVar("T")


class AgentStats(Struct, frozen=True, kw_only=True):
    """Figures of a run.

    Attributes:
        turns: How many model calls were answered.
        usage: Tokens of all of them.
        turn_usage: Tokens of each.
        tool_counts: How often each tool was called.
        seconds: How long the run took.
        side_usage: Tokens used beside the conversation (side calls, sub-agents), by purpose; part of ``usage``.
        output: The structured output; ``None`` where none was asked for, or none came.
        children: Figures of each sub-agent that the run started, in the order in which they ended (`ChildStats`).
    """

    turns: int = 0
    usage: Usage = Usage()
    turn_usage: tuple[Usage, ...] = ()
    tool_counts: dict[str, int] = {}
    seconds: float = 0.0
    side_usage: dict[str, Usage] = {}
    output: Any = None
    children: tuple[SubagentStats, ...] = ()


class RunResult(Struct, frozen=True, kw_only=True, eq=False):
    """How a run ended.

    Attributes:
        status: ``completed``, or what ended it.
        text: Text of the last answer.
        output: The structured answer, where one was asked for; else, or where none came, the text.
        output_error: Why there is no structured answer, where one was asked for and none came.
        messages: What the run added to the history.
        stop_reason: Why the model stopped last.
        stats: Figures.
        error: What failed, where the caller wanted no exception.
        run_id: Name of the run.
    """

    status: RunStatus
    text: str = ""
    output: Any = None
    output_error: str = ""
    messages: tuple[AgentMessage, ...] = ()
    stop_reason: StopReason | None = None
    stats: AgentStats = AgentStats()
    error: AgentError | None = None
    run_id: str = ""

    @property
    def usage(self) -> Usage:
        """Tokens of the run."""
        return self.stats.usage

    @property
    def cost(self) -> Cost | None:
        """US dollars of the run; ``None`` where a price is unknown."""
        return self.stats.usage.cost

    @property
    def turns(self) -> int:
        """How many model calls were answered."""
        return self.stats.turns

    def output_as(self, kind: type[T]) -> T:
        """The structured answer, as the class that was asked for: type checkers know then what it is.

        Raises:
            AgentError: If none came; the text says why.
        """
        if self.output_error or not isinstance(self.output, kind):
            raise AgentError(self.output_error or f"The output is of type {type(self.output).__name__}, not {kind!r}.")
        return self.output

    @classmethod
    def from_messages(cls, messages: Sequence[AgentMessage], **fields: Any) -> Self:
        """The result as far as a run got."""
        last = next((m for m in reversed(messages) if isinstance(m, Message) and m.role == "assistant"), None)
        text = last.text if last else ""
        fields.setdefault("status", "error")
        reason = last.stop_reason if last else None
        return cls(text=text, output=text, messages=tuple(messages), stop_reason=reason, **fields)

    def failed(self, error: AgentError) -> RunResult:
        """The same, with the failure that ended it."""
        return replace(self, status="aborted" if isinstance(error, AgentAbortedError) else "error", error=error)


class RunHandle:
    """A run while it goes: iterate for its events, await `result` for how it ended.

    Iterating ends after the last event and never raises; a failure is raised by `result`.
    """

    def __init__(self, bus: HookBus, signal: CancelToken, start: Callable[[], Awaitable[RunResult]]) -> None:
        self.signal = signal
        self._bus = bus
        self._start = start
        self._events: EventStream[Event, RunResult] = EventStream()
        self._tasks: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise RuntimeError("This run has already started. Call agent.stream(...) for a new one.")
        self._unobserve = self._bus.observe(self._events.push)
        self._tasks = tasks = asyncio.TaskGroup()
        await tasks.__aenter__()
        tasks.create_task(self._drive())
        return self

    async def _drive(self) -> None:
        try:
            self._events.end(await self._start())
        except Exception as error:
            self._events.fail(error)
        except asyncio.CancelledError:
            self._events.fail(AgentAbortedError("The run was cancelled."))
            raise
        finally:
            self._unobserve()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._events.ended:
            self.signal.cancel("The caller left the stream.")
        # The error of the block is not the group's: it must come out as it is, after the run has been wound up.
        assert self._tasks is not None
        await self._tasks.__aexit__(None, None, None)

    def abort(self, reason: str = "aborted") -> None:
        """Stop the run."""
        self.signal.cancel(reason)

    async def result(self) -> RunResult:
        """Wait for the end.

        Raises:
            AgentError: As `CoreAgent.run`.
            RuntimeError: If it was not entered with ``async with``: it has not begun.
        """
        return await self._begun().result()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._begun()

    def _begun(self) -> EventStream[Event, RunResult]:
        if self._tasks is None:  # nothing would ever come
            raise RuntimeError(
                "The run has not started. Use `async with agent.stream(...) as run:`, then `async for event in run:`."
            )
        return self._events
