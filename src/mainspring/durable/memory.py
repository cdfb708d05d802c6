"""An engine in memory: for tests, and for programs that want the interface without a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from mainspring.durable.attempt import NonDeterminismError, RunAttempt, park_attempts
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
from mainspring.errors import DurableError, format_exception
from mainspring.redaction import redact_environment


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
        self.messages: list[RunMessage] = []
        self.keys: set[str] = set()
        self.published: dict[str, bytes] = {}
        self.result = b""
        self.error = ""
        self.attempts = 0
        self.changed = asyncio.Event()

    def notify_waiters(self) -> None:
        """Wake all waiters for this run."""
        self.changed.set()
        self.changed = asyncio.Event()


class _Log:
    """One attempt at a run."""

    def __init__(self, record: _RunRecord, engine: MemoryEngine, of: RunAttempt) -> None:
        self.record = record
        self.engine = engine
        self.of = of
        self.last = max(record.steps, default=0)
        self.drawn = 0

    @property
    def run_id(self) -> str:
        return self.record.id

    @property
    def attempt(self) -> int:
        return self.of.number

    def next_step(self) -> _Place:
        self.drawn += 1
        return _Place(self, self.drawn)

    async def messages(self, after: int) -> Sequence[RunMessage]:
        return [message for message in self.record.messages if message.number > after]

    async def wait_for_message(self, after: int) -> None:
        while not await self.messages(after):
            await self.record.changed.wait()

    async def publish(self, name: str, value: bytes) -> None:
        self.record.published[name] = value

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        return await self.engine.feed.read(self.record.id, after)

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        if not self.record.parent:
            await self.engine.feed.append(self.record.id, events)


class _Place:
    def __init__(self, log: _Log, number: int) -> None:
        self._log = log
        self._number = number
        self.is_recorded = number in log.record.steps
        self.is_before_recorded = number < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        async def write() -> bytes:
            if self.is_recorded:
                then, value = self._log.record.steps[self._number]
                if then != name:
                    raise NonDeterminismError(then, name)
                return value
            value = await work()
            self._log.record.steps[self._number] = name, value
            return value

        return await self._log.of.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        value = b"" if self.is_recorded else await work()
        return await self.run(name, lambda: _return_value(value))

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        value = b""
        if not self.is_recorded:
            record = self._log.engine.child(run_id, agent, self._log.record)
            value = await work(_Log(record, self._log.engine, self._log.of))
        return await self.run(f"agent {agent}", lambda: _return_value(value))


async def _return_value(value: bytes) -> bytes:
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
        self._slots = asyncio.Semaphore(1)
        self._tasks: dict[_RunRecord, asyncio.Task[None]] = {}  # Not by ID: the ID of a deleted run can be used again.
        self._attempts: set[RunAttempt] = set()

    async def start_worker(self, main: RunFunction, agents: Sequence[str], *, concurrency: int = 8) -> None:
        self._main, self._agents = main, frozenset(agents)
        self._slots = asyncio.Semaphore(concurrency)
        for record in list(self._runs.values()):
            self._begin(record)

    def _begin(self, record: _RunRecord) -> None:
        mine = record.agent in self._agents and record.version == self.version and not record.parent
        if self._main is None or not mine or record in self._tasks or record.state not in ("waiting", "running"):
            return
        task = asyncio.ensure_future(self._attempt(self._main, record))
        self._tasks[record] = task
        task.add_done_callback(lambda _: self._tasks.pop(record, None))

    async def _attempt(self, main: RunFunction, record: _RunRecord) -> None:
        async with self._slots:
            task = asyncio.current_task()
            if record.state not in ("waiting", "running") or task is None:
                return
            record.state = "running"
            record.attempts += 1
            attempt = RunAttempt(record.id, task, record.attempts)
            self._attempts.add(attempt)
            try:
                record.result = await main(_Log(record, self, attempt), record.agent, record.input)
                record.state = "done"
            except asyncio.CancelledError:
                if not attempt.failure:
                    raise
                record.state, record.error = "failed", attempt.failure
            except Exception as error:  # One failed run must not stop the others.
                record.state, record.error = "failed", redact_environment(format_exception(error))
            finally:
                self._attempts.discard(attempt)
        self._end(record)

    def _end(self, record: _RunRecord) -> None:
        record.ended = time.time()
        record.notify_waiters()
        self._over[record.id] = None
        if self._keep is not None and len(self._over) > self._keep:
            self._delete_run(next(iter(self._over)))

    def _delete_run(self, run_id: str) -> None:
        for child in [k.id for k in self._runs.values() if k.parent == run_id]:
            self._delete_run(child)
        del self._runs[run_id]
        self._over.pop(run_id, None)
        self.feed.delete(run_id)

    def child(self, run_id: str, agent: str, parent: _RunRecord) -> _RunRecord:
        """Return the record of a subagent's run."""
        if run_id not in self._runs:
            self._runs[run_id] = _RunRecord(run_id, agent, b"", parent.version, parent.id)
        return self._runs[run_id]

    async def drain(self, seconds: float) -> None:
        self._agents = frozenset()
        await park_attempts(list(self._attempts), seconds)

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        if run_id in self._runs:
            return False
        record = self._runs[run_id] = _RunRecord(run_id, agent, input, self.version)
        self._begin(record)
        return True

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> bool:
        record = self._known(run_id)
        if key and key in record.keys:
            return False
        record.keys.add(key)
        record.messages.append(RunMessage(len(record.messages) + 1, topic, body))
        record.notify_waiters()
        return True

    async def info(self, run_id: str) -> RunInfo | None:
        record = self._runs.get(run_id)
        return self._info(record) if record else None

    def _info(self, record: _RunRecord) -> RunInfo:
        return RunInfo(
            id=record.id,
            agent=record.agent,
            state=record.state,
            version=record.version,
            created=record.created,
            worker="memory" if record.state == "running" else "",
            parent=record.parent,
            error=waiting_reason(record.agent, record.version, self._alive())
            if record.state == "waiting"
            else record.error,
        )

    def _alive(self) -> Sequence[Worker]:
        return [Worker("memory", self.version, tuple(sorted(self._agents)))] if self._main is not None else []

    async def runs(self, *, state: RunState | None = None, limit: int = 100, prefix: str = "") -> Sequence[RunInfo]:
        found = (k for k in reversed(self._runs.values()) if not k.parent and state in (None, k.state))
        return [self._info(k) for k in islice((k for k in found if k.id.startswith(prefix)), limit)]

    async def read(self, run_id: str, name: str) -> bytes | None:
        record = self._runs.get(run_id)
        return record.published.get(name) if record else None

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        record = self._known(run_id)
        async with asyncio.timeout(timeout):
            await self.wait_until_ended(run_id)
        if record.state != "done":
            raise DurableError(f"Run {run_id} {record.state}{': ' + record.error if record.error else ''}")
        return record.result

    async def wait_until_ended(self, run_id: str) -> None:
        record = self._runs.get(run_id)
        while record is not None and record.state in ("waiting", "running"):
            await record.changed.wait()

    async def cancel(self, run_id: str) -> None:
        record = self._known(run_id)
        if record.state in ("waiting", "running"):
            record.state = "cancelled"
            task = self._tasks.get(record)
            if task is not None:
                task.cancel()
            self._end(record)

    async def retry(self, run_id: str) -> None:
        record = self._known(run_id)
        require_retryable(self._info(record))
        record.state, record.error, record.ended = "waiting", "", 0.0
        del self._over[run_id]
        task = self._tasks.get(record)
        if task is not None:
            await asyncio.wait([task])
        self._begin(record)

    async def delete(self, run_id: str) -> None:
        record = self._known(run_id)
        if record.state not in FINAL_STATES:
            raise run_not_finished_error(self._info(record))
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
        """Stop, even in the middle of a step, like a killed process. `start_worker` resumes the runs."""
        self._main = None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, run_id: str) -> _RunRecord:
        record = self._runs.get(run_id)
        if record is None:
            raise DurableError(f"Unknown run: {run_id}.")
        return record
