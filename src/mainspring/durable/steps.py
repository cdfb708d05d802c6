"""The steps of a durable run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from datetime import datetime
from typing import Any, cast

from msgspec.structs import replace

from mainspring.cancellation import CancelToken, sleep as sleep_live
from mainspring.durable.approvals import ApprovalLoop, PendingApprovals
from mainspring.durable.engine import RunLog, RunMessage, StepSlot
from mainspring.durable.records import StepRecord, StoredResult, decode, encode, from_stored_error, to_stored_error
from mainspring.errors import ModelError
from mainspring.events import Done, StreamEvent, StreamStart
from mainspring.loop import CoreAgent, LiveSteps, RunResult
from mainspring.loop.steps import QueueReader
from mainspring.messages import AgentMessage, Message, ToolUseBlock, utc_now
from mainspring.messages.message import ensure_unique_call_ids
from mainspring.models import ModelProvider, ModelRequest
from mainspring.tools import Tool, ToolErrorCode, ToolRegistry, ToolResult
from mainspring.tools.execute import error_result
from mainspring.tools.tool import AGENT_SOURCE

UNKNOWN_OUTCOME = (
    "Interrupted: the program ended while this call was running. Whether it did its work is unknown, and it is not repeated "
    "automatically. Check its effects before you repeat it."
)

_in_tool: ContextVar[bool] = ContextVar("in_tool", default=False)
_spawning: ContextVar[StepSlot | None] = ContextVar("spawning", default=None)


class DurableSteps(LiveSteps):
    """`Steps` that store their results, and return them again when another process resumes the run.

    A finished model call is never repeated. A tool call that was started and not finished is repeated only if its tool is
    `idempotent`; otherwise, the model learns that the outcome is unknown. The slots of a message's calls are reserved together when
    the message arrives, so that the calls can run concurrently. Without a log, the steps are executed directly.

    Args:
        log: The log of the run on its engine.
        nested: Names of tools that only start an agent, which has its own log.
    """

    __slots__ = (
        "_agent",
        "_at",
        "_base",
        "_count",
        "_log",
        "_nested",
        "_places",
        "_read",
        "_since",
        "passed_replay",
        "replayed_calls",
        "approvals",
    )

    def __init__(self, log: RunLog | None = None, *, nested: frozenset[str] = frozenset({"spawn"})) -> None:
        super().__init__()
        self._log = log
        self._nested = nested
        self._agent: CoreAgent | None = None
        self._places: dict[str, tuple[StepSlot, StepSlot]] = {}
        self._read: dict[str, int] = {}
        self._count = 0
        self._base = 0.0
        self._since = time.monotonic()
        self._at: datetime | None = None
        self.passed_replay = asyncio.Event()
        """Set once this attempt executes something that no earlier attempt finished."""
        self.replayed_calls: set[str] = set()
        """IDs of the calls whose result was read back: an earlier attempt made them."""
        self.approvals: PendingApprovals | None = None
        """The pending approvals of the run and its subagents."""

    def bind(self, agent: CoreAgent) -> None:
        """Set the agent, whose tools determine which calls may be repeated."""
        self._agent = agent

    def attach(self, log: RunLog) -> None:
        """Set the log."""
        self._log = log
        self._since = time.monotonic()

    @property
    def replaying(self) -> bool:
        """True if the last step was replayed from an earlier attempt: its events were already reported."""
        return self._at is not None

    # --- clock and ids ----------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self._at or utc_now()

    def elapsed(self) -> float:
        return self._base + time.monotonic() - self._since

    def new_id(self) -> str:
        if self._log is None:
            return super().new_id()
        self._count += 1
        return f"{self._log.run_id}-{self._count:x}"

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _record(self, place: StepSlot, name: str, work: Callable[[], Awaitable[StepRecord]]) -> StepRecord:
        """Return the outcome of a step and set the clock to it."""
        recorded = place.is_recorded
        if not recorded:
            self.passed_replay.set()

        async def do() -> bytes:
            return encode(replace(await work(), at=utc_now(), elapsed=self.elapsed()))

        record = decode(await place.run(name, do), StepRecord)
        if recorded:
            self._at, self._base, self._since = record.at, record.elapsed, time.monotonic()
        else:
            self._at = None
        return record

    def _outcome(self, **fields: Any) -> StepRecord:
        return StepRecord(at=utc_now(), elapsed=0.0, **fields)

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        if self._log is None or _in_tool.get():
            return await super().sleep(seconds, signal)

        async def begin() -> StepRecord:
            return self._outcome()

        began = await self._record(self._log.next_step(), "sleep", begin)
        return await sleep_live(max(0.0, seconds - (utc_now() - began.at).total_seconds()), signal)

    async def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        if self._log is None or _in_tool.get():
            async with aclosing(cast("Any", provider.stream(request))) as events:
                async for event in events:
                    yield event
            return
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        raised: Exception | None = None

        async def ask() -> StepRecord:
            nonlocal raised
            try:
                async with aclosing(cast("Any", provider.stream(request))) as events:
                    async for event in events:
                        if type(event) is Done:
                            return self._outcome(message=ensure_unique_call_ids(event.message, self.new_id))
                        queue.put_nowait(event)
            except Exception as error:
                raised = error
                partial = error.partial if isinstance(error, ModelError) else None
                return self._outcome(message=partial, failure=to_stored_error(error))
            return self._outcome()

        place = self._log.next_step()
        recorded = place.is_recorded
        asking = asyncio.ensure_future(self._record(place, f"model {provider.provider}:{provider.model}", ask))
        asking.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            record = await asking
        finally:
            await _finish_task(asking)
        if record.failure is not None:
            raise raised or from_stored_error(record.failure, record.message)
        if isinstance(record.message, Message):
            for call in record.message.tool_uses:
                self._places[call.id] = (self._log.next_step(), self._log.next_step())
            if recorded:
                yield StreamStart()
            yield Done(record.message.stop_reason or "end_turn", record.message)

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        if self._log is None or _in_tool.get():
            return await run()
        begun, done = self._places.pop(call.id, None) or (self._log.next_step(), self._log.next_step())
        if done.is_recorded:
            self.replayed_calls.add(call.id)
        if self._starts_agent(call.name):
            token = _spawning.set(done)
            try:
                return await run()
            finally:
                _spawning.reset(token)
        if not self._is_idempotent(call.name) and not done.is_recorded and await self._was_started(begun, call.name):
            unknown = error_result(UNKNOWN_OUTCOME, ToolErrorCode.UNKNOWN)
            return cast(
                "ToolResult",
                (await self._record(done, f"tool {call.name}", _const(self._outcome(result=unknown)))).result,
            )
        raised: Exception | None = None

        async def do() -> StepRecord:
            nonlocal raised
            token = _in_tool.set(True)
            try:
                return self._outcome(result=await run())
            except Exception as error:
                raised = error
                return self._outcome(failure=to_stored_error(error))
            finally:
                _in_tool.reset(token)

        record = await self._record(done, f"tool {call.name}", do)
        if record.failure is not None:
            raise raised or from_stored_error(record.failure)
        return cast("ToolResult", record.result)

    async def _was_started(self, place: StepSlot, name: str) -> bool:
        """Return True if an earlier attempt started this call. If not, record that it starts now."""
        fresh = False

        async def begin() -> StepRecord:
            nonlocal fresh
            fresh = True
            return self._outcome()

        await self._record(place, f"begin {name}", begin)
        return not fresh

    def _find_tool(self, name: str) -> Tool | None:
        """Return a tool of the agent that answers, which another agent may be after a handoff."""
        agent = self._agent
        if agent is None:
            return None
        own = {alias: own for own, alias in agent.tool_aliases.items()}.get(name, name)
        tools: ToolRegistry = getattr(agent, "current_tools", agent.tools)
        return tools.get(own)

    def _starts_agent(self, name: str) -> bool:
        tool = self._find_tool(name)
        return name in self._nested or (tool is not None and tool.source == AGENT_SOURCE)

    def _is_idempotent(self, name: str) -> bool:
        tool = self._find_tool(name)
        return tool is not None and tool.idempotent

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        if self._log is None:
            return await super().receive(topic, getter)
        place = self._log.next_step()
        if place.is_recorded:
            record = await self._record(place, topic, _const(self._outcome()))
        elif place.is_before_recorded:
            return ()
        else:
            here = tuple(await super().receive(topic, getter))
            letters = await _read_messages(self._log, topic, self._read.get(topic, 0))
            if not here and not letters:
                return here
            sent = tuple([decode(message.body, _MESSAGE) for message in letters])
            last_number = letters[-1].number if letters else 0
            record = await self._record(place, topic, _const(self._outcome(messages=here + sent, taken=last_number)))
        self._read[topic] = max(self._read.get(topic, 0), record.taken)
        return record.messages

    async def wait(self, topic: str) -> bytes:
        """Return the next message to the root run under a topic. Waits until there is one."""
        assert self._log is not None
        place = self._log.next_step()
        log = self.approvals.log if self.approvals is not None else self._log
        if not place.is_recorded:
            self.passed_replay.set()

        async def poll() -> bytes:
            after = self._read.get(topic, 0)
            while not (letters := await _read_messages(log, topic, self._read.get(topic, 0))):
                await log.wait_for_message(after)
                found = await log.messages(after)
                after = found[-1].number if found else after
            return encode(letters[0])

        message = decode(await place.wait(f"wait for {topic}", poll), RunMessage)
        self._read[topic] = message.number
        return message.body

    # --- subagents --------------------------------------------------------------------------------------------------

    def for_child(self) -> DurableSteps:
        """Return steps for a subagent. They store nothing until `run_subagent` provides a log."""
        steps = DurableSteps(nested=self._nested)
        steps.approvals, steps.passed_replay = self.approvals, self.passed_replay
        return steps

    async def run_subagent(
        self, agent: CoreAgent, name: str, run: Callable[[], Awaitable[RunResult]], signal: CancelToken
    ) -> RunResult:
        """Run a subagent with a separate stored log. Its approvals are requested like those of the run.

        Args:
            agent: The subagent, created with the steps of `for_child`.
            name: Its name in this run's tree.
            run: Starts it, or resumes it after a pause.
            signal: Set when it is stopped.
        """
        place, steps = _spawning.get(), agent.steps
        if self._log is None or place is None or not isinstance(steps, DurableSteps):
            return await run()

        async def work(log: RunLog) -> bytes:
            steps.attach(log)
            steps.bind(agent)
            token = _spawning.set(None)
            try:
                questions = steps.approvals
                if questions is None:
                    return encode(StoredResult.from_result(await run()))
                known = log.run_id.removeprefix(f"{questions.log.run_id}.")
                return encode(
                    StoredResult.from_result(
                        await ApprovalLoop(agent, questions, steps, known, signal).run_to_completion(run)
                    )
                )
            finally:
                _spawning.reset(token)

        result = await place.child(f"{self._log.run_id}.{name}", name, work)
        return decode(result, StoredResult).result()


_MESSAGE: Any = AgentMessage


async def _read_messages(log: RunLog, topic: str, after: int) -> list[RunMessage]:
    return [message for message in await log.messages(after) if message.topic == topic]


def _const(outcome: StepRecord) -> Callable[[], Awaitable[StepRecord]]:
    async def give() -> StepRecord:
        return outcome

    return give


async def _finish_task(task: asyncio.Future[Any]) -> None:
    """Cancel a step whose result is no longer needed."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
