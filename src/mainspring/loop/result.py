"""The result of a run, and the handle of a run that streams its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError, AgentOutputError, attribute_error, misuse_error
from mainspring.events import AgentStats, Event, EventStream, RunStatus
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import HookBus
from mainspring.messages import UNKNOWN_COST, AgentMessage, Cost, Message, StopReason, ToolResultBlock, Usage
from mainspring.type_variables import OutputT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mainspring.tools.schema.output import convert_output
else:
    convert_output = lazy_function("mainspring.tools.schema.output", "convert_output")

T = TypeVar("T")


_ADVICE: dict[RunStatus, str] = {
    "paused": "Answer the pending calls with agent.answer(...), then run again without a prompt. ",
    "max_turns": "Raise the limit, or run again without a prompt to continue. ",
    "max_total_tokens": "Raise the limit, or run again without a prompt to continue. ",
    "max_cost": "Raise the limit, or run again without a prompt to continue. ",
    "max_seconds": "Raise the limit, or run again without a prompt to continue. ",
}


class RunResult(
    Struct,
    Generic[OutputT],
    frozen=True,
    kw_only=True,
    eq=False,
    repr_omit_defaults=True,
    rename={"output_or_none": "output"},
):
    """How a run ended.

    Attributes:
        status: ``completed``, or the reason why the run ended early.
        text: Text of the last response.
        output_or_none: The output; ``None`` if it is missing. `output` raises an error then.
        output_error: Why a requested structured output is missing.
        messages: The messages that the run added to the history.
        stop_reason: Why the model stopped last.
        stats: Figures.
        error: The failure, if the caller requested a result instead of an exception.
        run_id: ID of the run.
        agent: Name of the agent that answered: the one that ran, or the last one to which the conversation was handed over.
    """

    status: RunStatus
    text: str = ""
    output_or_none: OutputT | None = None
    output_error: str = ""
    messages: tuple[AgentMessage, ...] = ()
    stop_reason: StopReason | None = None
    stats: AgentStats = AgentStats()
    error: AgentError | None = None
    run_id: str = ""
    agent: str = ""

    @property
    def output(self) -> OutputT:
        """The output, of the agent's output type. Without an output type, the text of the last response.

        Raises:
            AgentOutputError: If the output is missing because a limit ended the run, the run was paused or denied, or it failed.
        """
        if self.output_error or (self.output_or_none is None and self.status != "completed"):
            reason = self.output_error or f"The run ended ({self.status}) without an output"
            error = AgentOutputError(
                f"{reason.rstrip('.')}. {_ADVICE.get(self.status, '')}Check result.status before you read result.output; "
                "result.text is the text of the last response."
            )
            error.outcome = self
            raise error
        return cast("OutputT", self.output_or_none)

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results of all tool calls of the run, in order."""
        return tuple([block for message in self.messages for block in message.tool_results])

    @property
    def usage(self) -> Usage:
        """Tokens of the run."""
        return self.stats.usage

    @property
    def cost(self) -> Cost:
        """Cost in US dollars of the calls with a known price. See `Cost.is_known` and `Usage.unpriced_calls`."""
        return self.stats.usage.cost or UNKNOWN_COST

    @property
    def turns(self) -> int:
        """Number of turns."""
        return self.stats.turns

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(self, "RunResult", name)

        def __getitem__(self, key: Any) -> Any:
            raise misuse_error("RunResult", "[]", "is not subscriptable")

    def output_as(self, kind: TypeForm[T]) -> T:
        """Return the output as an instance of ``kind``, for an output that a JSON Schema, or the schema of one run, describes.

        Args:
            kind: Any type that can be an output type: a class, ``list[int]``, ``A | B``, a ``Literal``, ... An output of
                another type is converted through its JSON data.

        Raises:
            AgentOutputError: If the output is missing.
            AgentError: If it does not fit.
        """
        answer = convert_output(self.output, kind)
        if answer.error is not None:
            raise AgentError(f"The output, of type {type(self.output).__name__}, does not fit {kind!r}: {answer.error}")
        return answer.value

    @classmethod
    def from_messages(cls, messages: Sequence[AgentMessage], **fields: Any) -> Self:
        """Build a result from the messages that a run added."""
        last = next((m for m in reversed(messages) if isinstance(m, Message) and m.role == "assistant"), None)
        text = last.text if last else ""
        fields.setdefault("status", "error")
        reason = last.stop_reason if last else None
        return cls(text=text, output_or_none=cast("Any", text), messages=tuple(messages), stop_reason=reason, **fields)

    def with_error(self, error: AgentError) -> Self:
        """Return a copy with the failure that ended the run."""
        status: RunStatus = "no_output" if isinstance(error, AgentOutputError) else "error"
        return replace(self, status="aborted" if isinstance(error, AgentAbortedError) else status, error=error)


class RunHandle(Generic[OutputT]):
    """A run that streams its events: iterate over the events, await `result`.

    The iteration ends after the last event and never raises; `result` raises the failure.

    Attributes:
        signal: Aborts the run when set.
        create_output_reader: Creates a function that returns the output so far for each event, or `UNSET`.
    """

    def __init__(
        self,
        bus: HookBus,
        signal: CancelToken,
        start: Callable[[], Awaitable[RunResult[OutputT]]],
        *,
        subagents: bool = False,
    ) -> None:
        self.signal = signal
        self.create_output_reader: Callable[[], Callable[[Event], Any]] | None = None
        self._bus = bus
        self._start = start
        self._has_subagents = subagents
        self._events: EventStream[Event, RunResult[OutputT]] = EventStream()
        self._tasks: asyncio.TaskGroup | None = None

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(self, "RunHandle", name)

        def __iter__(self) -> Any:
            raise misuse_error("RunHandle", "for", "is not iterable")

        def __await__(self) -> Any:
            raise misuse_error("RunHandle", "await", "cannot be awaited")

    @property
    def has_started(self) -> bool:
        """True if the run has started."""
        return self._tasks is not None

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise RuntimeError(
                "This run has already started. Start a new one with agent.stream(...) or agent_loop(...)."
            )
        self._unobserve = self._bus.subscribe(self._events.publish, subagents=self._has_subagents)
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
            self._events.fail(AgentAbortedError("its task was cancelled"))
            raise
        finally:
            self._unobserve()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._events.ended:
            self.signal.cancel("The caller left the stream.")
        # The error of the block is not passed to the group, so that it leaves the block unchanged after the run has ended.
        assert self._tasks is not None
        await self._tasks.__aexit__(None, None, None)

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run."""
        self.signal.cancel(reason)

    async def result(self) -> RunResult[OutputT]:
        """Wait for the end of the run and return its result.

        Raises:
            AgentError: As `CoreAgent.run`.
            RuntimeError: If the run was not entered with ``async with``.
        """
        return await self._require_started().result()

    async def outputs(self) -> AsyncGenerator[OutputT]:
        """Iterate over the output while the model writes it: ``async for output in run.outputs()``.

        Each value is of the output type and fits its schema. Until the last one, items of lists and optional fields may be
        missing, a text may be cut off, and output functions and validators have not run; so a value that a validator rejects may
        be among them. The last value is the output of the run.

        The iteration reads the events of the run: do not iterate over them as well.

        Raises:
            AgentError: As `CoreAgent.run`.
        """
        read = self.create_output_reader() if self.create_output_reader is not None else None
        last: Any = UNSET
        async for event in self:
            value = UNSET if read is None else read(event)
            if value is not UNSET and value != last:
                last = value
                yield value
        yield (await self.result()).output

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._require_started()

    def _require_started(self) -> EventStream[Event, RunResult[OutputT]]:
        if self._tasks is None:  # without a run the caller would wait forever
            raise RuntimeError(
                "The run has not started. Use `async with agent.stream(...) as run:`, then `async for event in run:`."
            )
        return self._events


class LoopRun(Coroutine[Any, Any, RunResult]):
    """A run of `agent_loop`: await it for its result, or iterate over it for its events.

    It is a coroutine, so ``asyncio.run`` and ``create_task`` accept it. The iteration raises the failure of the run after the
    last event; after the iteration, await the run for its result. Leaving the iteration early aborts the run.
    """

    def __init__(self, bus: HookBus, signal: CancelToken, run: Coroutine[Any, Any, RunResult]) -> None:
        self._run = run
        self._events = RunHandle(bus, signal, lambda: run)

    def __await__(self) -> Generator[Any, Any, RunResult]:
        return (self._events.result() if self._events.has_started else self._run).__await__()

    def send(self, value: Any, /) -> Any:
        """Continue the run up to its next wait: for the event loop."""
        return self._run.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the run: for the event loop."""
        return self._run.throw(*error)

    def close(self) -> None:
        """Close a run that is not needed."""
        self._run.close()

    async def __aiter__(self) -> AsyncGenerator[Event]:
        async with self._events as events:
            async for event in events:
                yield event
            await events.result()
