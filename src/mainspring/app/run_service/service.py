"""Runs of many tenants on one engine, the base of servers. Each tenant sees only its own runs."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from mainspring.app.run_service.schemas import (
    Abort,
    Approve,
    Deny,
    Fork,
    ResultView,
    RunState,
    RunView,
    StartRun,
    WaitingView,
)
from mainspring.durable import DurableClient, DurableRun, DurableWorker, Engine, Factory, MemoryEngine, RunInfo
from mainspring.durable.client_tools import ClientContext
from mainspring.durable.feed import FeedItem
from mainspring.errors import DurableError, MainspringError, describe_failure
from mainspring.events import MessageEnd
from mainspring.messages import AgentMessage, Message
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.durable.dbos.engine import DbosEngine

__all__ = ["Factory", "RunService", "ServiceOptions"]


class ServiceError(MainspringError):
    """The request failed.

    Attributes:
        code: Error code for programs.
        retry_after: Seconds after which a retry can succeed; 0 if unknown.
    """

    def __init__(self, code: str, text: str, *, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after = retry_after


class RunNotFoundError(ServiceError):
    """The run does not exist, or it belongs to another tenant: the error is the same."""

    def __init__(self) -> None:
        super().__init__("unknown_run", "Run not found.")


class ConflictError(ServiceError):
    """The state of the run does not allow the request."""


class NotFoundError(ServiceError):
    """The request names something that does not exist."""


class LimitError(ServiceError):
    """A limit was reached."""


class ShuttingDownError(ServiceError):
    """The service is shutting down and accepts no runs."""


class InvalidError(ServiceError):
    """The request is invalid in a way that a schema cannot express."""

    def __init__(self, text: str) -> None:
        super().__init__("invalid", text)


_OWN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TERMINAL_STATES = ("done", "failed", "cancelled")
_TITLES = 2_000
_TITLE = 80


class ServiceOptions(Struct, frozen=True, kw_only=True):
    """Limits of a service.

    Attributes:
        runs: Maximum number of active or paused runs of one tenant.
        concurrency: Maximum number of runs of each agent that this process executes at the same time, including paused runs.
        default: Name of the default agent (default: the first one).
    """

    runs: int = 16
    concurrency: int = 256
    default: str = ""


class RunService:
    """Starts, finds, and controls runs of tenants. A run ID is the tenant name, a period, and the rest. ``async with RunService(engine, agents) as service: ...``.

    Args:
        engine: Engine that stores the runs.
        agents: Functions that create the agents whose runs this process executes; if empty, separate workers execute them.
        options: Limits of the service.
    """

    def __init__(
        self, engine: Engine, agents: Mapping[str, Factory] | None = None, options: ServiceOptions | None = None
    ) -> None:
        self.options = options or ServiceOptions()
        self.engine = engine
        self._local_agents = tuple(agents or ())
        self._runs: DurableClient = (
            DurableWorker(engine, agents, concurrency=self.options.concurrency) if agents else DurableClient(engine)
        )
        self._start_locks: dict[str, asyncio.Lock] = {}
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._open = AsyncExitStack()
        self.closing = False
        """Whether the service is shutting down."""

    async def __aenter__(self) -> Self:
        if isinstance(self._runs, DurableWorker):
            await self._open.enter_async_context(self._runs)
        else:
            self._open.push_async_callback(self.engine.aclose)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing = True
        await self._open.aclose()

    @property
    def is_worker(self) -> bool:
        """Return True if this process executes runs."""
        return isinstance(self._runs, DurableWorker)

    async def drain(self, seconds: float, *, keeps: bool) -> int:
        """Stop accepting runs, and wait until active runs finish.

        Args:
            seconds: Maximum number of seconds to wait.
            keeps: Whether runs outlive this process: then only their current steps must finish, and another worker resumes them.

        Returns:
            Number of runs that are still active.
        """
        self.closing = True
        if not isinstance(self._runs, DurableWorker):
            return 0
        if keeps:
            await self._runs.drain(seconds)
            return 0
        until = time.monotonic() + seconds
        while running := [r for r in await self._active("") if not await self._is_waiting_for_approval(r)]:
            remaining = until - time.monotonic()
            if remaining <= 0:
                break
            try:
                async with asyncio.timeout(min(remaining, 1.0)):
                    await self.engine.wait_until_ended(running[0].id)
            except TimeoutError:
                continue
        return len(await self._active(""))

    # --- runs of a tenant -------------------------------------------------------------------------------------------

    async def agents(self) -> Sequence[str]:
        """Return the names of the available agents, the default first."""
        elsewhere = {name for worker in await self.engine.workers() for name in worker.agents}
        names = [*self._local_agents, *sorted(elsewhere - set(self._local_agents))]
        first = self.options.default
        return [first, *[n for n in names if n != first]] if first else names

    async def start(self, tenant: str, order: StartRun) -> tuple[RunView, bool]:
        """Start a run. Return its view, and whether it is new.

        Raises:
            NotFoundError: If the agent does not exist.
            LimitError: If too many runs of this tenant are active.
            ShuttingDownError: If the service is shutting down.
        """
        agent = await self._agent(order.agent or "")
        return await self._start(tenant, agent, [Message.user(order.prompt)], order.key)

    async def start_with_messages(
        self, tenant: str, agent: str, messages: Sequence[AgentMessage], key: str, client_context: ClientContext
    ) -> str:
        """Start a run with a conversation and the context of its client. Return its ID.

        Raises:
            ConflictError: If a run with this key exists.
            ServiceError: As for `start`.
        """
        view, new = await self._start(tenant, await self._agent(agent), messages, key, client_context)
        if not new:
            raise ConflictError(
                "known_run", f"This run already exists. Follow it as {view.id}, or use another ID for the new run."
            )
        return view.id

    async def _agent(self, name: str) -> str:
        """Return the agent with a name, or the default agent."""
        known = await self.agents()
        agent = name or (known[0] if known else "")
        if not agent or (self.is_worker and agent not in known):
            raise NotFoundError(
                "unknown_agent", f"Unknown agent: {agent!r}. Available agents: {', '.join(known) or 'none'}."
            )
        return agent

    async def fork(self, tenant: str, run_id: str, order: Fork) -> tuple[RunView, bool]:
        """Start a run with the conversation of another run, up to a message. The other run may still be running.

        Raises:
            RunNotFoundError: If the run does not exist.
            ConflictError: If the run has no such message.
        """
        info = await self._info(tenant, run_id)
        messages = await self._conversation(run_id, None if order.at is None else int(order.at))
        return await self._start(tenant, info.agent, [*messages, Message.user(order.prompt)], order.key)

    async def _start(
        self,
        tenant: str,
        agent: str,
        prompt: Sequence[AgentMessage],
        key: str | None,
        client_context: ClientContext | None = None,
    ) -> tuple[RunView, bool]:
        if self.closing:
            raise ShuttingDownError("closing", "The service is shutting down. Try again in a moment.", retry_after=2.0)
        run_id = f"{tenant}.{key or f'{time.time_ns() // 1_000_000:011x}{os.urandom(5).hex()}'}"
        async with self._start_locks.setdefault(tenant, asyncio.Lock()):
            if key and (found := await self.engine.info(run_id)) is not None:
                return await self._view(found), False
            active = await self._active(f"{tenant}.")
            if len(active) >= self.options.runs:
                asking = sum([await self._is_waiting_for_approval(info) for info in active])
                raise LimitError(
                    "too_many_runs",
                    f"Too many runs: {pluralize(len(active), 'run is', 'runs are')} active, of which {pluralize(asking, 'needs', 'need')} approval of a tool call. "
                    "Approve or stop a run, or wait until one ends.",
                    retry_after=5.0,
                )
            try:
                await self._runs.start(agent, prompt, run_id=run_id, client_context=client_context)
            except DurableError as error:
                raise ConflictError("refused", str(error)) from None
        self._keep_title(run_id, _shorten_title(prompt[-1].text) if isinstance(prompt[-1], Message) else "")
        return await self.view(tenant, run_id), True

    async def reachable(self, seconds: float) -> bool:
        """Return True if the engine responds in time."""
        try:
            async with asyncio.timeout(seconds):
                await self.engine.runs(limit=1)
        except Exception:  # a database can fail in many ways
            return False
        return True

    async def count_active_runs(self) -> dict[str, int]:
        """Count the active runs of all tenants, by state."""
        counts = {"waiting": 0, "running": 0}
        for info in await self._active(""):
            counts[info.state] += 1
        return counts

    async def _active(self, prefix: str) -> Sequence[RunInfo]:
        limit = 10_000
        waiting = await self.engine.runs(state="waiting", limit=limit, prefix=prefix)
        return [*waiting, *await self.engine.runs(state="running", limit=limit, prefix=prefix)]

    async def _is_waiting_for_approval(self, info: RunInfo) -> bool:
        return bool(await self._run(info.id).pending())

    async def runs(self, tenant: str, *, state: RunState | None = None, limit: int = 50) -> tuple[RunView, ...]:
        """Return the runs of a tenant, the newest first."""
        requested = "running" if state == "paused" else state
        found = await self.engine.runs(state=requested, limit=limit, prefix=f"{tenant}.")
        views = [await self._view(info) for info in found]
        return tuple([v for v in views if state in (None, v.state)])

    async def view(self, tenant: str, run_id: str) -> RunView:
        """Return the state of a run.

        Raises:
            RunNotFoundError: If the tenant has no such run.
        """
        return await self._view(await self._info(tenant, run_id))

    async def follow(self, tenant: str, run_id: str, after: int = 0) -> AsyncGenerator[FeedItem, None]:
        """Yield the events of a run until it ends, from the beginning or after a number.

        Raises:
            RunNotFoundError: If the tenant has no such run; before the first event.
        """
        await self._info(tenant, run_id)
        async with aclosing(self._run(run_id).events(after)) as items:
            async for item in items:
                yield item

    async def is_fully_read(self, tenant: str, run_id: str, after: int) -> bool:
        """Return True if a run has ended and has no events after a number."""
        info = await self._info(tenant, run_id)
        return info.state in _TERMINAL_STATES and not await self.engine.feed.read(run_id, after, 1)

    async def result(self, tenant: str, run_id: str, wait: float = 0.0) -> ResultView:
        """Return the result of a run.

        Args:
            tenant: Tenant of the run.
            run_id: ID of the run.
            wait: Maximum number of seconds to wait until it ends.

        Raises:
            RunNotFoundError: If the tenant has no such run.
            ConflictError: If the run has not ended.
        """
        info = await self._info(tenant, run_id)
        if info.state not in _TERMINAL_STATES and wait > 0:
            try:
                async with asyncio.timeout(wait):
                    await self.engine.wait_until_ended(run_id)
            except TimeoutError:
                pass
            info = await self._info(tenant, run_id)
        if info.state not in _TERMINAL_STATES:
            raise ConflictError("not_over", "The run has not ended.")
        if info.state != "done":
            status = "aborted" if info.state == "cancelled" else "error"
            return ResultView(id=run_id, status=status, text="", error=info.error)
        result = await self._run(run_id).result(timeout=10)
        usage = result.stats.usage
        return ResultView(
            id=run_id,
            status=result.status,
            text=result.text,
            output=to_builtins(result.output_or_none, enc_hook=str),
            error=describe_failure(result.error) if result.error else result.output_error,
            turns=result.stats.turns,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cost=usage.cost.total if usage.cost else None,
            unpriced_calls=usage.count_unpriced(),
            estimated_calls=usage.estimated_calls,
            seconds=round(result.stats.seconds, 3),
        )

    async def send_message(self, tenant: str, run_id: str, text: str, *, as_follow_up: bool = False) -> None:
        """Send a message to a run: as a steering message, or as a follow-up."""
        run = await self._active_run(tenant, run_id)
        await (run.follow_up(text) if as_follow_up else run.steer(text))

    async def abort(self, tenant: str, run_id: str, order: Abort) -> None:
        """Stop a run."""
        run = await self._active_run(tenant, run_id)
        await run.abort(order.reason)

    async def approve(self, tenant: str, run_id: str, order: Approve) -> None:
        """Allow a tool call.

        Raises:
            ConflictError: If no such tool call needs approval.
        """
        run = await self._active_run(tenant, run_id)
        await self._check_answered(run.approve(order.call_id, input=order.input))

    async def deny(self, tenant: str, run_id: str, order: Deny) -> None:
        """Deny a tool call.

        Raises:
            ConflictError: If no such tool call needs approval.
        """
        run = await self._active_run(tenant, run_id)
        await self._check_answered(run.deny(order.call_id, order.reason, stop=order.stop))

    async def _check_answered(self, answering: Any) -> None:
        try:
            await answering
        except DurableError as error:
            raise ConflictError("not_waiting", str(error)) from None

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _run(self, run_id: str) -> DurableRun:
        return self._runs.run(run_id)

    async def _info(self, tenant: str, run_id: str) -> RunInfo:
        owner, dot, own = run_id.partition(".")
        if owner != tenant or not dot or not _OWN.fullmatch(own):
            raise RunNotFoundError
        found = await self.engine.info(run_id)
        if found is None or found.parent:
            raise RunNotFoundError
        return found

    async def _active_run(self, tenant: str, run_id: str) -> DurableRun:
        info = await self._info(tenant, run_id)
        if info.state in _TERMINAL_STATES:
            raise ConflictError("over", f"The run has ended ({info.state}). Fork it to continue.")
        return self._run(run_id)

    async def _view(self, info: RunInfo) -> RunView:
        waiting = await self._run(info.id).pending() if info.state == "running" else ()
        state: RunState = "paused" if waiting else info.state
        calls = [WaitingView.from_call(call) for call in waiting]
        return RunView(
            id=info.id,
            agent=info.agent,
            state=state,
            created=info.created,
            title=await self._title(info.id),
            worker=info.worker,
            error=info.error,
            waiting=tuple(calls),
        )

    async def _title(self, run_id: str) -> str:
        """Return the beginning of the run's last prompt; a fork begins with copied messages."""
        known = self._titles.get(run_id)
        if known is not None:
            return known
        title = ""
        for item in await self.engine.feed.read(run_id, 0, 500):
            match item.event:
                case MessageEnd(message=Message(role="user") as message) if text := message.text.strip():
                    title = _shorten_title(text)
                case MessageEnd():
                    pass
                case _ if title:  # the prompt is complete once another event follows
                    break
                case _:
                    pass
        if title:
            self._keep_title(run_id, title)
        return title

    def _keep_title(self, run_id: str, title: str) -> None:
        self._titles[run_id] = title
        if len(self._titles) > _TITLES:
            self._titles.popitem(last=False)

    async def _conversation(self, run_id: str, at: int | None) -> list[AgentMessage]:
        """Return the messages of a run up to one of them, as the beginning of another run."""
        messages: list[AgentMessage] = []
        after = 0
        while items := await self.engine.feed.read(run_id, after):
            after = items[-1].number
            finished = [item.event for item in items if isinstance(item.event, MessageEnd)]
            messages += [event.message for event in finished if at is None or event.number <= at]
        if at is not None and at > len(messages):
            raise ConflictError("unknown_message", f"The run has no message {at}. It has {len(messages)} messages.")
        if messages and isinstance(messages[-1], Message) and messages[-1].tool_uses:
            messages.pop()  # the results of its tool calls are missing
        # The other run paid for these messages.
        return [replace(m, usage=None, id="") if isinstance(m, Message) else m for m in messages]


def _shorten_title(text: str) -> str:
    return " ".join(text.split())[:_TITLE]


def create_engine(url: str | None, *, version: str = "1", keep: int = 1_000) -> Engine:
    """Create the engine at a URL; without a URL, one that stores runs in memory.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Version of the code that creates the agents.
        keep: Maximum number of ended runs that stay in memory.

    Raises:
        ConfigError: If a required package is not installed.
    """
    return MemoryEngine(version, keep=keep) if url is None else create_durable_engine(url, version=version)


def create_durable_engine(url: str, **options: Any) -> DbosEngine:
    """Create the engine at a URL.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        options: Options of `DbosEngine`.

    Raises:
        ConfigError: If a required package is not installed, or the URL is invalid.
    """
    return import_module("mainspring.durable.dbos.engine").DbosEngine(url, **options)
