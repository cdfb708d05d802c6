"""An engine in memory: for tests, and for programs that want the interface without a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice

from mainspring.durable.attempt import Attempt, NonDeterminismError
from mainspring.durable.engine import (
    FINAL_STATES,
    RunFunction,
    RunInfo,
    RunLog,
    RunMessage,
    RunState,
    StepFunction,
    Worker,
    require_final_states,
    require_retryable,
    run_not_finished_error,
    waiting_reason,
)
from mainspring.durable.feed import FeedEvent, FeedItem, MemoryFeed
from mainspring.errors import DurableError
from mainspring.redaction import redact


class _RunRecord:
    """The state of one run, shared by all attempts."""

    def __init__(self, run_id: str, agent: str, input: bytes, version: str, parent: str = "") -> None:
        self.id = run_id
        self.agent = agent
        self.input = input
        self.version = version
        self.parent = parent
        self.created = time.time()
        self.ended = 0.0
        self.state: RunState = "waiting"
        self.steps: dict[int, tuple[str, bytes]] = {}
        self.letters: list[RunMessage] = []
        self.keys: set[str] = set()
        self.published: dict[str, bytes] = {}
        self.result = b""
        self.error = ""
        self.attempts = 0
        self.changed = asyncio.Event()

    def tell(self) -> None:
        """Wake all waiters for this run."""
        self.changed.set()
        self.changed = asyncio.Event()


class _Log:
    """One attempt at a run."""

    def __init__(self, kept: _RunRecord, engine: MemoryEngine, of: Attempt) -> None:
        self.kept = kept
        self.engine = engine
        self.of = of
        self.last = max(kept.steps, default=0)
        self.drawn = 0

    @property
    def run_id(self) -> str:
        return self.kept.id

    @property
    def attempt(self) -> int:
        return self.of.number

    def place(self) -> _Place:
        self.drawn += 1
        return _Place(self, self.drawn)

    async def letters(self, after: int) -> Sequence[RunMessage]:
        return [letter for letter in self.kept.letters if letter.number > after]

    async def new_letter(self, after: int) -> None:
        while not await self.letters(after):
            await self.kept.changed.wait()

    async def publish(self, name: str, value: bytes) -> None:
        self.kept.published[name] = value

    async def told(self, after: int) -> Sequence[FeedItem]:
        return await self.engine.feed.read(self.kept.id, after)

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        if not self.kept.parent:
            await self.engine.feed.append(self.kept.id, events)


class _Place:
    def __init__(self, log: _Log, number: int) -> None:
        self._log = log
        self._number = number
        self.recorded = number in log.kept.steps
        self.behind = number < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        async def write() -> bytes:
            if self.recorded:
                then, value = self._log.kept.steps[self._number]
                if then != name:
                    raise NonDeterminismError(then, name)
                return value
            value = await work()
            self._log.kept.steps[self._number] = name, value
            return value

        return await self._log.of.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        value = b"" if self.recorded else await work()
        return await self.run(name, lambda: _give(value))

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        value = b""
        if not self.recorded:
            kept = self._log.engine.child(run_id, agent, self._log.kept)
            value = await work(_Log(kept, self._log.engine, self._log.of))
        return await self.run(f"agent {agent}", lambda: _give(value))


async def _give(value: bytes) -> bytes:
    return value


class MemoryEngine:
    """An `Engine` that stores runs in memory.

    Args:
        version: Version of the code.
        keep: Number of finished runs to store; the oldest are deleted first. None stores all.

    Attributes:
        version: Version of the code, recorded in each run.
    """

    def __init__(self, version: str = "1", *, keep: int | None = None) -> None:
        self.version = version
        self.feed = MemoryFeed()
        self._keep = keep
        self._over: dict[str, None] = {}
        self._runs: dict[str, _RunRecord] = {}
        self._main: RunFunction | None = None
        self._agents: frozenset[str] = frozenset()
        self._places = asyncio.Semaphore(1)
        self._tasks: dict[_RunRecord, asyncio.Task[None]] = {}  # Not by ID: the ID of a deleted run can be used again.
        self._attempts: set[Attempt] = set()

    async def work(self, main: RunFunction, agents: Sequence[str], *, concurrency: int = 8) -> None:
        self._main, self._agents = main, frozenset(agents)
        self._places = asyncio.Semaphore(concurrency)
        for kept in list(self._runs.values()):
            self._begin(kept)

    def _begin(self, kept: _RunRecord) -> None:
        mine = kept.agent in self._agents and kept.version == self.version and not kept.parent
        if self._main is None or not mine or kept in self._tasks or kept.state not in ("waiting", "running"):
            return
        task = asyncio.ensure_future(self._attempt(self._main, kept))
        self._tasks[kept] = task
        task.add_done_callback(lambda _: self._tasks.pop(kept, None))

    async def _attempt(self, main: RunFunction, kept: _RunRecord) -> None:
        async with self._places:
            task = asyncio.current_task()
            if kept.state not in ("waiting", "running") or task is None:
                return
            kept.state = "running"
            kept.attempts += 1
            attempt = Attempt(kept.id, task, kept.attempts)
            self._attempts.add(attempt)
            try:
                kept.result = await main(_Log(kept, self, attempt), kept.agent, kept.input)
                kept.state = "done"
            except asyncio.CancelledError:
                if not attempt.failure:
                    raise
                kept.state, kept.error = "failed", attempt.failure
            except Exception as error:  # One failed run must not stop the others.
                kept.state, kept.error = "failed", redact(f"{type(error).__name__}: {error}")
            finally:
                self._attempts.discard(attempt)
        self._end(kept)

    def _end(self, kept: _RunRecord) -> None:
        kept.ended = time.time()
        kept.tell()
        self._over[kept.id] = None
        if self._keep is not None and len(self._over) > self._keep:
            self._delete_run(next(iter(self._over)))

    def _delete_run(self, run_id: str) -> None:
        for child in [k.id for k in self._runs.values() if k.parent == run_id]:
            self._delete_run(child)
        del self._runs[run_id]
        self._over.pop(run_id, None)
        self.feed.forget(run_id)

    def child(self, run_id: str, agent: str, parent: _RunRecord) -> _RunRecord:
        """Return the record of a subagent's run."""
        if run_id not in self._runs:
            self._runs[run_id] = _RunRecord(run_id, agent, b"", parent.version, parent.id)
        return self._runs[run_id]

    async def drain(self, seconds: float) -> None:
        self._agents = frozenset()
        attempts = list(self._attempts)
        for attempt in attempts:
            attempt.park()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for attempt in attempts:
                    await attempt.idle.wait()

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        if run_id in self._runs:
            return False
        kept = self._runs[run_id] = _RunRecord(run_id, agent, input, self.version)
        self._begin(kept)
        return True

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> bool:
        kept = self._known(run_id)
        if key and key in kept.keys:
            return False
        kept.keys.add(key)
        kept.letters.append(RunMessage(len(kept.letters) + 1, topic, body))
        kept.tell()
        return True

    async def info(self, run_id: str) -> RunInfo | None:
        kept = self._runs.get(run_id)
        return self._info(kept) if kept else None

    def _info(self, kept: _RunRecord) -> RunInfo:
        return RunInfo(
            id=kept.id,
            agent=kept.agent,
            state=kept.state,
            version=kept.version,
            created=kept.created,
            worker="memory" if kept.state == "running" else "",
            parent=kept.parent,
            error=waiting_reason(kept.agent, kept.version, self._alive()) if kept.state == "waiting" else kept.error,
        )

    def _alive(self) -> Sequence[Worker]:
        return [Worker("memory", self.version, tuple(sorted(self._agents)))] if self._main is not None else []

    async def runs(self, *, state: RunState | None = None, limit: int = 100, prefix: str = "") -> Sequence[RunInfo]:
        found = (k for k in reversed(self._runs.values()) if not k.parent and state in (None, k.state))
        return [self._info(k) for k in islice((k for k in found if k.id.startswith(prefix)), limit)]

    async def read(self, run_id: str, name: str) -> bytes | None:
        kept = self._runs.get(run_id)
        return kept.published.get(name) if kept else None

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        kept = self._known(run_id)
        async with asyncio.timeout(timeout):
            await self.ended(run_id)
        if kept.state != "done":
            raise DurableError(f"Run {run_id} {kept.state}{': ' + kept.error if kept.error else ''}")
        return kept.result

    async def ended(self, run_id: str) -> None:
        kept = self._runs.get(run_id)
        while kept is not None and kept.state in ("waiting", "running"):
            await kept.changed.wait()

    async def cancel(self, run_id: str) -> None:
        kept = self._known(run_id)
        if kept.state in ("waiting", "running"):
            kept.state = "cancelled"
            task = self._tasks.get(kept)
            if task is not None:
                task.cancel()
            self._end(kept)

    async def retry(self, run_id: str) -> None:
        kept = self._known(run_id)
        require_retryable(self._info(kept))
        kept.state, kept.error, kept.ended = "waiting", "", 0.0
        del self._over[run_id]
        task = self._tasks.get(kept)
        if task is not None:
            await asyncio.wait([task])
        self._begin(kept)

    async def delete(self, run_id: str) -> None:
        kept = self._known(run_id)
        if kept.state not in FINAL_STATES:
            raise run_not_finished_error(self._info(kept))
        self._delete_run(run_id)

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        require_final_states(states)
        before = time.time() - older_than
        old = [k.id for k in map(self._runs.__getitem__, self._over) if k.state in states and k.ended <= before]
        for run_id in () if dry_run else old:
            self._delete_run(run_id)
        return len(old)

    async def workers(self) -> Sequence[Worker]:
        return self._alive()

    async def aclose(self) -> None:
        """Stop, even in the middle of a step, like a killed process. `work` resumes the runs."""
        self._main = None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, run_id: str) -> _RunRecord:
        kept = self._runs.get(run_id)
        if kept is None:
            raise DurableError(f"Unknown run: {run_id}.")
        return kept
