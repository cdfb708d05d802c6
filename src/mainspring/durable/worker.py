"""Agents with durable runs: started here, executed by a worker, answered from anywhere."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.durable.approvals import ANSWER, Answer, ApprovalLoop, PendingApprovals, approval_topic
from mainspring.durable.client_tools import ClientContext, install_client_tools
from mainspring.durable.engine import FINAL_STATES, Engine, RunInfo, RunLog, RunState
from mainspring.durable.feed import FeedItem
from mainspring.durable.feed_writer import FeedWriter
from mainspring.durable.records import StoredResult, decode, encode
from mainspring.durable.steps import DurableSteps
from mainspring.errors import ConfigError, DurableError
from mainspring.events import ApprovalRequest, Event
from mainspring.loop import CoreAgent, RunResult
from mainspring.messages import AgentMessage, Message, TextBlock, to_messages

AgentWithDeps: TypeAlias = CoreAgent | tuple[CoreAgent, Any]
"""An agent, or an agent and the dependencies of its runs."""

Factory: TypeAlias = Callable[[DurableSteps], AgentWithDeps | AbstractAsyncContextManager[AgentWithDeps]]
"""Creates an agent with the given steps: ``lambda steps: Agent("openai:gpt-5-mini", tools=[...], steps=steps)``. It returns the agent, or
the agent and the dependencies of its runs, or an async context manager that provides either until the attempt ends.

Called once for each attempt at a run. Must create the same agent each time.
"""

OnEvent: TypeAlias = Callable[[str, Event], None]
"""Called with run ID and event as events happen. Events of an earlier attempt are not repeated."""


_MAX_ACTIVE_RUNS = 10_000  # Runs in which paused ones are searched.
_READ_BATCH = 64  # Size of the buffer of a follower; a slow reader keeps these events in memory.


class RunInput(Struct, frozen=True, kw_only=True):
    """The input of a run."""

    prompt: tuple[AgentMessage, ...]
    history: tuple[AgentMessage, ...] = ()
    brought: ClientContext | None = None


class DurableRun:
    """A run, usable from any process that can reach its engine.

    Attributes:
        id: The ID.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    async def info(self) -> RunInfo:
        """Return the state of the run. ``error`` also contains the reason why the live workers cannot execute a waiting run, and why a ``done`` run
        was not successful (`result` has the details).

        Raises:
            DurableError: If the run is unknown.
        """
        found = await self._engine.info(self.id)
        if found is None:
            raise DurableError(f"Unknown run: {self.id}.")
        if found.state == "done":
            with suppress(DurableError):  # Deleted in the meantime, or of another version.
                failure = decode(await self._engine.result(self.id), StoredResult).failure
                found = replace(found, error=f"{failure.type}: {failure.text}" if failure else "")
        return replace(found, state="paused") if found.state == "running" and await self.pending() else found

    async def steer(self, text: str) -> None:
        """Send a steering message, which joins at the next step."""
        await self._send_message("steer", text)

    async def follow_up(self, text: str) -> None:
        """Send a follow-up message, which joins when the run would end."""
        await self._send_message("follow_up", text)

    async def _send_message(self, topic: Literal["steer", "follow_up"], text: str) -> None:
        await self._engine.send(self.id, topic, encode(Message.user(text)))

    async def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the calls that wait for approval, including those of subagents. Empty unless the run is paused."""
        found = await self._engine.read(self.id, "pending")
        return decode(found, tuple[ApprovalRequest, ...]) if found else ()

    async def approve(self, call_id: str, *, input: dict[str, object] | None = None) -> bool:
        """Allow a call, with other arguments if ``input`` is given. Returns False if the call was already answered."""
        return await self._answer(call_id, allow=True, input=input)

    async def deny(self, call_id: str, reason: str = "the user denied it", *, stop: bool = False) -> bool:
        """Deny a call; with ``stop``, also end the run. Returns False if the call was already answered."""
        return await self._answer(call_id, allow=False, reason=reason, stop=stop)

    async def _answer(self, call_id: str, **fields: Any) -> bool:
        waiting = {request.id: request for request in await self.pending()}
        if call_id not in waiting:
            names = ", ".join(sorted(waiting)) or "none"
            raise DurableError(f"No call {call_id!r} of run {self.id} waits for an answer. Waiting calls: {names}.")
        call = waiting[call_id]
        answer = Answer(number=call.number, call_id=call_id, **fields)
        key = f"answer {call.number} {call_id}"
        return await self._engine.send(self.id, approval_topic(call.agent), encode(answer), key=key)

    async def events(self, after: int = 0) -> AsyncGenerator[FeedItem, None]:
        """Iterate over the events of the run until it is finished, from the beginning or after a known event.

        Args:
            after: The number of the last event that is known.
        """
        feed, over = self._engine.feed, False
        while True:
            items = await feed.read(self.id, after, _READ_BATCH)
            for item in items:
                after = item.number
                yield item
            if items:
                continue
            if over:
                return
            over = await self._wait_for_event_or_end(after)

    async def _wait_for_event_or_end(self, after: int) -> bool:
        """Wait for an event. Returns True if there may be none because the run is finished."""
        waiting = asyncio.ensure_future(self._engine.feed.wait(self.id, after))
        ending = asyncio.ensure_future(self._engine.wait_until_ended(self.id))
        try:
            await asyncio.wait([waiting, ending], return_when=asyncio.FIRST_COMPLETED)
            return ending.done()
        finally:
            waiting.cancel()
            ending.cancel()
            await asyncio.wait([waiting, ending])

    async def abort(self, reason: str = "aborted") -> None:
        """Abort the run, even in the middle of a step. Its calls get results with the reason."""
        await self._engine.send(self.id, "abort", reason.encode(), key="abort")
        # A run that waits for an answer has no step to cancel: this message is the answer then.
        none = Answer(number=0, call_id="", allow=False, reason=reason, abort=True)
        await self._engine.send(self.id, ANSWER, encode(none), key="abort as an answer")

    async def cancel(self) -> None:
        """Prevent the run from being resumed, even if no worker is there to `abort` it. It has no result then."""
        await self._engine.cancel(self.id)

    async def retry(self) -> None:
        """Resume a failed or cancelled run where it stopped.

        Raises:
            DurableError: If the run is unknown or in another state.
        """
        await self._engine.retry(self.id)

    async def result(self, *, timeout: float | None = None) -> RunResult:
        """Wait for the end of the run, in whichever process it is executed.

        Args:
            timeout: Seconds to wait. None waits forever.

        Raises:
            DurableError: If the run could not be executed. A failure of the model is in the result's ``error``.
            TimeoutError: If the run is not finished in time. The message has its state.
        """
        try:
            encoded = await self._engine.result(self.id, timeout=timeout)
        except TimeoutError:
            info = await self.info()
            reason = f": {info.error}. A DurableWorker executes runs only inside `async with`." if info.error else ""
            raise TimeoutError(f"Run {self.id} is not finished after {timeout}s. It is {info.state}{reason}") from None
        return decode(encoded, StoredResult).result()


class DurableClient:
    """Starts runs and finds them again. Needs no agents: workers have those.

    Args:
        engine: Where runs are stored.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.engine.aclose()

    async def start(
        self,
        agent: str,
        prompt: str | Sequence[AgentMessage],
        *,
        run_id: str = "",
        history: Sequence[AgentMessage] = (),
        client_context: ClientContext | None = None,
    ) -> DurableRun:
        """Queue a run for a worker.

        Args:
            agent: Name of the agent definition.
            prompt: The task.
            run_id: ID of the run. A second `start` with the same ID returns the existing run. Generated if omitted.
            history: A conversation to continue: that of another run, truncated to where it is forked.
            client_context: Tools and context of the client.

        Raises:
            DurableError: If prompt and history are empty, or a run with this ID has another agent.
        """
        messages = tuple(to_messages(prompt))
        if any(isinstance(m, Message) and not m.text.strip() and _is_text(m) for m in messages):
            raise DurableError("The prompt is empty.")
        if not messages and not history and client_context is None:
            raise DurableError("Nothing to run. Pass a prompt, or a history to continue.")
        run_id = run_id or f"run-{time.time_ns() // 1_000_000:011x}{os.urandom(5).hex()}"
        order = encode(RunInput(prompt=messages, history=tuple(history), brought=client_context))
        await self.engine.start(run_id, agent, order)
        known = await self.engine.info(run_id)
        if known is not None and known.agent != agent:
            raise DurableError(f"Run {run_id} belongs to the agent {known.agent!r}, not {agent!r}. Use another run ID.")
        return DurableRun(self.engine, run_id)

    def run(self, run_id: str) -> DurableRun:
        """Return a run that was started before."""
        return DurableRun(self.engine, run_id)

    async def list(self, *, state: RunState | None = None, limit: int = 100) -> Sequence[RunInfo]:
        """List runs, newest first."""
        if state in ("running", "paused"):
            candidates = await self.engine.runs(state="running", limit=_MAX_ACTIVE_RUNS)
        else:
            candidates = await self.engine.runs(state=state, limit=limit)
        found: list[RunInfo] = []
        for run in candidates:
            is_paused = run.state == "running" and await self.run(run.id).pending()
            shown = replace(run, state="paused") if is_paused else run
            if state in (None, shown.state):
                found.append(shown)
            if len(found) == limit:
                break
        return found

    async def delete(self, run_id: str) -> None:
        """Delete a finished run with all its data.

        Raises:
            DurableError: If the run is unknown or not finished.
        """
        await self.engine.delete(run_id)

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        """Delete all runs in these states that ended more than ``older_than`` seconds ago. Returns their number.

        Raises:
            DurableError: If one of the states is not final.
        """
        return await self.engine.prune(older_than, states, dry_run=dry_run)


class DurableWorker(DurableClient):
    """A worker that executes the runs of its agents. ``async with DurableWorker(engine, {"name": make}) as agents: ...``.

    Args:
        engine: Where runs are stored.
        agents: A factory for each agent. It returns the agent, or the agent and the dependencies of its runs, or a context manager
            of either for each attempt.
        concurrency: Maximum number of concurrent runs.
        on_event: Called with events as they happen.
        feed_every: Seconds for which text is collected before followers get it; events are stored permanently. None for no feed.

    Raises:
        ConfigError: If an agent is not a function.
    """

    def __init__(
        self,
        engine: Engine,
        agents: Mapping[str, Factory],
        *,
        concurrency: int = 8,
        on_event: OnEvent | None = None,
        feed_every: float | None = 0.2,
    ) -> None:
        super().__init__(engine)
        self._agents = dict(agents)
        for name, factory in self._agents.items():
            if not callable(factory):
                raise ConfigError(
                    f"The agent {name!r} of a DurableWorker must be a function that creates it for the steps of an attempt, not "
                    f"{factory!r:.80}. Write: def make(steps: DurableSteps) -> Agent: return Agent(..., steps=steps)."
                )
        self._concurrency = concurrency
        self._on_event = on_event
        self._feed_every = feed_every

    async def __aenter__(self) -> Self:
        await self.engine.start_worker(self._main, list(self._agents), concurrency=self._concurrency)
        return self

    async def drain(self, seconds: float = 30.0) -> None:
        """Start no further work, and wait for active model and tool calls to finish, at most this long. Then leave.

        Another worker resumes unfinished runs where they are.
        """
        await self.engine.drain(seconds)

    async def start(
        self,
        agent: str,
        prompt: str | Sequence[AgentMessage],
        *,
        run_id: str = "",
        history: Sequence[AgentMessage] = (),
        client_context: ClientContext | None = None,
    ) -> DurableRun:
        """Like `DurableRuns.start`, but refuses an unknown agent."""
        self._factory(agent)
        return await super().start(agent, prompt, run_id=run_id, history=history, client_context=client_context)

    def _factory(self, name: str) -> Factory:
        factory = self._agents.get(name)
        if factory is None:
            raise DurableError(f"Unknown agent: {name!r}. Available: {', '.join(sorted(self._agents)) or 'none'}.")
        return factory

    async def _main(self, log: RunLog, name: str, input: bytes) -> bytes:
        """Execute one attempt at a run from its beginning. Finished steps are not repeated."""
        steps = DurableSteps(log)
        try:
            if self._feed_every is None:
                result = await self._run(log, steps, name, input, None)
            else:
                writer = FeedWriter(log, self._feed_every, lambda: steps.replaying)
                await writer.begin(name)
                async with asyncio.TaskGroup() as group:
                    group.create_task(writer.write())
                    result = await self._report_end(log.run_id, self._run(log, steps, name, input, writer), writer)
            if isinstance(result, Exception):
                raise result
        except Exception as error:
            raise _first_cause(error) from None
        return encode(StoredResult.from_result(result))

    async def _report_end(
        self, run_id: str, running: Coroutine[Any, Any, RunResult], feed_writer: FeedWriter
    ) -> RunResult | Exception:
        """Report the outcome. A failure is returned, not raised, so that it is written before everything ends."""
        try:
            result = await running
        except Exception as error:
            cause = _first_cause(error)
            feed_writer.publish_end(run_id, cause)
            return cause
        else:
            feed_writer.publish_end(run_id, result)
            return result
        finally:
            feed_writer.close()

    async def _run(
        self, log: RunLog, steps: DurableSteps, name: str, input: bytes, feed_writer: FeedWriter | None
    ) -> RunResult:
        order = decode(input, RunInput)
        async with self._made(name, steps) as (agent, deps):
            return await self._play(log, steps, agent, deps, order, feed_writer)

    @asynccontextmanager
    async def _made(self, name: str, steps: DurableSteps) -> AsyncGenerator[tuple[CoreAgent, Any]]:
        """Create the agent for one attempt, and the dependencies of its runs."""
        created = self._factory(name)(steps)
        async with created if isinstance(created, AbstractAsyncContextManager) else nullcontext(created) as made:
            agent, deps = made if isinstance(made, tuple) else (made, None)
            if agent.steps is not steps:
                raise DurableError(
                    f"The agent {name!r} does not use the given steps. Create it with Agent(..., steps=steps)."
                )
            yield agent, deps

    async def _play(
        self,
        log: RunLog,
        steps: DurableSteps,
        agent: CoreAgent,
        deps: Any,
        order: RunInput,
        feed_writer: FeedWriter | None,
    ) -> RunResult:
        steps.bind(agent)
        if order.brought is not None:
            install_client_tools(agent, order.brought, log)
        if order.history:
            agent.context.messages.extend(order.history)
        if self._on_event is not None:
            agent.subscribe(_LiveEventListener(self._on_event, log.run_id, steps))
        if feed_writer is not None:
            agent.subscribe(feed_writer)
        questions = steps.approvals = PendingApprovals(log, feed_writer.publish if feed_writer is not None else None)

        def run() -> Awaitable[RunResult]:
            prompt = () if agent.pending is not None else list(order.prompt)
            return agent.run(prompt, raise_errors=False, deps=deps)

        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(_watch_for_abort(log, steps, agent))
            try:
                return await ApprovalLoop(agent, questions, steps).run_to_completion(run)
            finally:
                stopping.cancel()


def _is_text(message: Message) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _first_cause(error: Exception) -> Exception:
    """Return the original failure of a task group."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return _first_cause(group.exceptions[0])
    return error


class _LiveEventListener:
    """Reports events, without those that an earlier attempt reported."""

    def __init__(self, on_event: OnEvent, run_id: str, steps: DurableSteps) -> None:
        self._on_event = on_event
        self._run_id = run_id
        self._steps = steps

    def __call__(self, event: Event) -> None:
        if not self._steps.replaying:
            self._on_event(self._run_id, event)


async def _watch_for_abort(log: RunLog, steps: DurableSteps, agent: CoreAgent) -> None:
    """Abort the agent when a message requests it. Steps of earlier attempts are replayed first."""
    read = 0
    await steps.passed_replay.wait()
    while True:
        for message in await log.messages(read):
            read = message.number
            if message.topic == "abort":
                agent.abort(message.body.decode("utf-8", "replace"))
                return
        await log.wait_for_message(read)
