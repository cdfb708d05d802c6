"""Agents whose runs outlive their process: started here, done by a worker, answered from anywhere."""

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
from mainspring.durable.feed import Asked, FeedItem, RunEnded, WaitingCall
from mainspring.durable.feed_writer import FeedWriter
from mainspring.durable.records import StoredResult, decode, encode
from mainspring.durable.steps import DurableSteps
from mainspring.errors import DurableError
from mainspring.events import Event
from mainspring.loop import CoreAgent, RunResult
from mainspring.messages import AgentMessage, Message, TextBlock, to_messages

Factory: TypeAlias = Callable[[DurableSteps], CoreAgent | AbstractAsyncContextManager[CoreAgent]]
"""Makes an agent with the given steps: ``lambda steps: Agent("openai:gpt-5-mini", tools=[...], steps=steps)``; or gives an async
context manager that has the agent until the attempt is over.

It is called anew for every attempt at a run, and must make the same agent each time.
"""

OnEvent: TypeAlias = Callable[[str, Event], None]
"""Told of the events of runs as they happen: run id, event. What an earlier attempt told is not told again."""


_READ_BATCH = 64  # events that a follower holds: one that reads slowly holds them for long


class RunInput(Struct, frozen=True, kw_only=True):
    """What a run is to do."""

    prompt: tuple[AgentMessage, ...]
    history: tuple[AgentMessage, ...] = ()
    brought: ClientContext | None = None


class DurableRun:
    """A run, from anywhere that can reach its engine.

    Attributes:
        id: Its name.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    async def info(self) -> RunInfo:
        """How far it is. ``error`` also says why a run that waits cannot be taken up by the workers that are there, and what
        failed in one that is ``done`` without success (its `result` has the rest).

        Raises:
            DurableError: If there is no such run.
        """
        found = await self._engine.info(self.id)
        if found is None:
            raise DurableError(f"there is no run {self.id}")
        if found.state == "done":
            with suppress(DurableError):  # deleted meanwhile, or of another version
                failure = decode(await self._engine.result(self.id), StoredResult).failure
                found = replace(found, error=f"{failure.type}: {failure.text}" if failure else "")
        return found

    async def steer(self, text: str) -> None:
        """Let a message join at the next step."""
        await self._send_message("steer", text)

    async def follow_up(self, text: str) -> None:
        """Let a message join where the run would end."""
        await self._send_message("follow_up", text)

    async def _send_message(self, topic: Literal["steer", "follow_up"], text: str) -> None:
        await self._engine.send(self.id, topic, encode(Message.user(text)))

    async def pending(self) -> tuple[WaitingCall, ...]:
        """The calls that wait for an answer, those of sub-agents included; none unless the run is paused."""
        found = await self._engine.read(self.id, "pending")
        return decode(found, Asked).calls if found else ()

    async def approve(self, call_id: str, *, input: dict[str, object] | None = None) -> bool:
        """Let a call be made, with other arguments if ``input`` is given. Only the first answer to a call counts: false for another."""
        return await self._answer(call_id, allow=True, input=input)

    async def deny(self, call_id: str, reason: str = "the user said no", *, stop: bool = False) -> bool:
        """Refuse a call; with ``stop`` the run ends then. Only the first answer to a call counts: false for another."""
        return await self._answer(call_id, allow=False, reason=reason, stop=stop)

    async def _answer(self, call_id: str, **fields: Any) -> bool:
        waiting = {w.call.id: w for w in await self.pending()}
        if call_id not in waiting:
            names = ", ".join(sorted(waiting)) or "none"
            raise DurableError(f"no call {call_id!r} of the run {self.id} waits for an answer; waiting: {names}")
        call = waiting[call_id]
        answer = Answer(number=call.number, call_id=call_id, **fields)
        key = f"answer {call.number} {call_id}"
        return await self._engine.send(self.id, approval_topic(call.agent), encode(answer), key=key)

    async def follow(self, after: int = 0) -> AsyncGenerator[FeedItem, None]:
        """What the run tells, from the beginning or after a number that was read before, until it is over.

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
        """Wait for an event; true if there may be none because the run is over."""
        waiting = asyncio.ensure_future(self._engine.feed.wait(self.id, after))
        ending = asyncio.ensure_future(self._engine.ended(self.id))
        try:
            await asyncio.wait([waiting, ending], return_when=asyncio.FIRST_COMPLETED)
            return ending.done()
        finally:
            waiting.cancel()
            ending.cancel()
            await asyncio.wait([waiting, ending])

    async def abort(self, reason: str = "aborted") -> None:
        """Stop the run, in mid-step if need be; its calls get results that say so."""
        await self._engine.send(self.id, "abort", reason.encode(), key="abort")
        # Where it waits for an answer there is no step to break off: this is the answer then.
        none = Answer(number=0, call_id="", allow=False, reason=reason, abort=True)
        await self._engine.send(self.id, ANSWER, encode(none), key="abort as an answer")

    async def cancel(self) -> None:
        """Have the run never taken up again, though no worker is there to `abort` it. It has no result then."""
        await self._engine.cancel(self.id)

    async def retry(self) -> None:
        """Let a run that failed or was cancelled go on where it was.

        Raises:
            DurableError: If there is no such run, or it did neither.
        """
        await self._engine.retry(self.id)

    async def result(self, *, timeout: float | None = None) -> RunResult:
        """Wait for the end, wherever the run is done.

        Args:
            timeout: Seconds to wait; for ever if left out.

        Raises:
            DurableError: If the run could not be done; a failure of the model is in the result's ``error``.
            TimeoutError: If it is not over in time; the text says how far it is.
        """
        try:
            kept = await self._engine.result(self.id, timeout=timeout)
        except TimeoutError:
            info = await self.info()
            why = f": {info.error}. A DurableAgents does runs only inside `async with`" if info.error else ""
            raise TimeoutError(f"the run {self.id} is not over after {timeout} s, it is {info.state}{why}") from None
        return decode(kept, StoredResult).result()


class DurableClient:
    """Starts runs and finds them again. Needs no agents: those are the workers'.

    Args:
        engine: Where runs are kept.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def start(
        self,
        agent: str,
        prompt: str | Sequence[AgentMessage],
        *,
        run_id: str = "",
        history: Sequence[AgentMessage] = (),
        brought: ClientContext | None = None,
    ) -> DurableRun:
        """Have an agent run by some worker.

        Args:
            agent: Name of its definition.
            prompt: What it is to do.
            run_id: Name of the run, by which a second `start` finds the first; made up if left out.
            history: A conversation to go on from: that of another run, cut where it is to fork.
            brought: What the client brings beside the prompt.

        Raises:
            DurableError: If there is nothing to run, or a run of this name does something else.
        """
        messages = tuple(to_messages(prompt))
        if any(isinstance(m, Message) and not m.text.strip() and _is_text(m) for m in messages):
            raise DurableError("the prompt is empty")
        if not messages and not history and brought is None:
            raise DurableError("there is nothing to run: give a prompt, or a history to go on from")
        run_id = run_id or f"run-{time.time_ns() // 1_000_000:011x}{os.urandom(5).hex()}"
        order = encode(RunInput(prompt=messages, history=tuple(history), brought=brought))
        await self.engine.start(run_id, agent, order)
        known = await self.engine.info(run_id)
        if known is not None and known.agent != agent:
            raise DurableError(
                f"the run {run_id} is one of the agent {known.agent!r}, not {agent!r}; take another name"
            )
        return DurableRun(self.engine, run_id)

    def run(self, run_id: str) -> DurableRun:
        """A run that was started before."""
        return DurableRun(self.engine, run_id)

    async def list(self, *, state: RunState | None = None, limit: int = 100) -> Sequence[RunInfo]:
        """Runs, the newest first."""
        return await self.engine.runs(state=state, limit=limit)

    async def delete(self, run_id: str) -> None:
        """Forget a run that is over, with all that is kept of it.

        Raises:
            DurableError: If there is no such run, or it is not over.
        """
        await self.engine.delete(run_id)

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        """Forget all runs of these states that ended more than so many seconds ago, with all that is kept of them; says how many.

        Raises:
            DurableError: If one of the states is one of runs that are not over.
        """
        return await self.engine.prune(older_than, states, dry_run=dry_run)


class DurableWorker(DurableClient):
    """Agents whose runs are done here: a worker. ``async with DurableAgents(engine, {"name": make}) as agents: ...``.

    Args:
        engine: Where runs are kept.
        agents: How to make each agent.
        concurrency: How many runs at once.
        on_event: Told of events as they happen.
        feed_every: Seconds for which text is gathered before followers get it; events are kept for good. None for no feed.
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
        self._concurrency = concurrency
        self._on_event = on_event
        self._feed_every = feed_every

    async def __aenter__(self) -> Self:
        await self.engine.work(self._main, list(self._agents), concurrency=self._concurrency)
        return self

    async def drain(self, seconds: float = 30.0) -> None:
        """Begin nothing any more, and let what a model or a tool is at come to its end, for so long at most; then leave.

        Runs that are not over are taken up where they are by another worker.
        """
        await self.engine.drain(seconds)

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
        brought: ClientContext | None = None,
    ) -> DurableRun:
        """As `DurableRuns.start`; a name that nobody here knows is refused."""
        self._factory(agent)
        return await super().start(agent, prompt, run_id=run_id, history=history, brought=brought)

    def _factory(self, name: str) -> Factory:
        factory = self._agents.get(name)
        if factory is None:
            raise DurableError(f"there is no agent {name!r}; there are {', '.join(sorted(self._agents)) or 'none'}")
        return factory

    async def _main(self, log: RunLog, name: str, input: bytes) -> bytes:
        """One attempt at a run, from its beginning; what was done before is not done again."""
        steps = DurableSteps(log)
        try:
            if self._feed_every is None:
                result = await self._run(log, steps, name, input, None)
            else:
                telling = FeedWriter(log, self._feed_every, lambda: steps.replaying)
                await telling.begin(name)
                async with asyncio.TaskGroup() as group:
                    group.create_task(telling.write())
                    result = await self._tell_end(self._run(log, steps, name, input, telling), telling)
            if isinstance(result, Exception):
                raise result
        except Exception as error:
            raise _first_cause(error) from None
        return encode(StoredResult.of(result))

    async def _tell_end(self, running: Coroutine[Any, Any, RunResult], telling: FeedWriter) -> RunResult | Exception:
        """The outcome, told; a failure is given rather than raised, so that it is written before all ends."""
        try:
            result = await running
        except Exception as error:
            cause = _first_cause(error)
            telling.tell(RunEnded("error", "", f"{type(cause).__name__}: {cause}"))
            return cause
        else:
            telling.tell(RunEnded(result.status, result.text, str(result.error or "")))
            return result
        finally:
            telling.close()

    async def _run(
        self, log: RunLog, steps: DurableSteps, name: str, input: bytes, telling: FeedWriter | None
    ) -> RunResult:
        order = decode(input, RunInput)
        async with self._made(name, steps) as agent:
            return await self._play(log, steps, agent, order, telling)

    @asynccontextmanager
    async def _made(self, name: str, steps: DurableSteps) -> AsyncGenerator[CoreAgent]:
        """The agent for one attempt."""
        made = self._factory(name)(steps)
        async with made if isinstance(made, AbstractAsyncContextManager) else nullcontext(made) as agent:
            if agent.steps is not steps:
                raise DurableError(
                    f"the agent {name!r} was not made with the steps that were given: Agent(..., steps=steps)"
                )
            yield agent

    async def _play(
        self, log: RunLog, steps: DurableSteps, agent: CoreAgent, order: RunInput, telling: FeedWriter | None
    ) -> RunResult:
        steps.bind(agent)
        if order.brought is not None:
            install_client_tools(agent, order.brought, log)
        if order.history:
            agent.context.messages.extend(order.history)
        if self._on_event is not None:
            agent.subscribe(_LiveEventListener(self._on_event, log.run_id, steps))
        if telling is not None:
            agent.subscribe(telling)
        questions = steps.questions = PendingApprovals(log, telling.tell if telling is not None else None)

        def run() -> Awaitable[RunResult]:
            return agent.run(() if agent.pending is not None else list(order.prompt), raise_errors=False)

        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(_watch_for_abort(log, steps, agent))
            try:
                return await ApprovalLoop(agent, questions, steps).run_to_completion(run)
            finally:
                stopping.cancel()


def _is_text(message: Message) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _first_cause(error: Exception) -> Exception:
    """What failed, where a group of tasks is told to have."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return _first_cause(group.exceptions[0])
    return error


class _LiveEventListener:
    """Tells of events, but not of those that an earlier attempt told."""

    def __init__(self, on_event: OnEvent, run_id: str, steps: DurableSteps) -> None:
        self._on_event = on_event
        self._run_id = run_id
        self._steps = steps

    def __call__(self, event: Event) -> None:
        if not self._steps.replaying:
            self._on_event(self._run_id, event)


async def _watch_for_abort(log: RunLog, steps: DurableSteps, agent: CoreAgent) -> None:
    """Abort the agent once a letter says so; what an earlier attempt did before is played again first."""
    read = 0
    await steps.live.wait()
    while True:
        for letter in await log.letters(read):
            read = letter.number
            if letter.topic == "abort":
                agent.abort(letter.body.decode("utf-8", "replace"))
                return
        await log.new_letter(read)
