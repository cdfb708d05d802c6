"""An engine in memory: for tests, and for those who want the interface without a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from mainspring.durable.engine import Letter, Main, RunInfo, RunLog, RunState, Work
from mainspring.durable.errors import DurableError


class _Kept:
    """What is known of one run, by all attempts."""

    def __init__(self, run_id: str, agent: str, input: bytes, version: str, parent: str = "") -> None:
        self.id = run_id
        self.agent = agent
        self.input = input
        self.version = version
        self.parent = parent
        self.created = time.time()
        self.state: RunState = "waiting"
        self.steps: dict[int, bytes] = {}
        self.letters: list[Letter] = []
        self.keys: set[str] = set()
        self.published: dict[str, bytes] = {}
        self.result = b""
        self.error = ""
        self.attempts = 0
        self.changed = asyncio.Event()

    def tell(self) -> None:
        """Wake whoever waits for something of this run."""
        self.changed.set()
        self.changed = asyncio.Event()

    def info(self) -> RunInfo:
        return RunInfo(
            id=self.id,
            agent=self.agent,
            state=self.state,
            version=self.version,
            created=self.created,
            worker="memory" if self.state == "running" else "",
            parent=self.parent,
            error=self.error,
        )


class _Log:
    """One attempt at a run."""

    def __init__(self, kept: _Kept, all_runs: dict[str, _Kept]) -> None:
        self.kept = kept
        self.all_runs = all_runs
        self.last = max(kept.steps, default=0)
        self.drawn = 0
        kept.attempts += 1
        self.attempt = kept.attempts

    @property
    def run_id(self) -> str:
        return self.kept.id

    def place(self) -> _Place:
        self.drawn += 1
        return _Place(self, self.drawn)

    async def letters(self, after: int) -> Sequence[Letter]:
        return [letter for letter in self.kept.letters if letter.number > after]

    async def new_letter(self, after: int) -> None:
        while not await self.letters(after):
            await self.kept.changed.wait()

    async def publish(self, name: str, value: bytes) -> None:
        self.kept.published[name] = value
        self.kept.tell()


class _Place:
    def __init__(self, log: _Log, number: int) -> None:
        self._log = log
        self._number = number
        self.recorded = number in log.kept.steps
        self.behind = number < log.last

    async def run(self, name: str, work: Work) -> bytes:
        if self.recorded:
            return self._log.kept.steps[self._number]
        value = await work()
        self._log.kept.steps[self._number] = value
        return value

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        runs, parent = self._log.all_runs, self._log.kept
        if run_id not in runs:
            runs[run_id] = _Kept(run_id, agent, b"", parent.version, parent.id)
        kept = runs[run_id]
        if kept.state != "done":
            kept.state = "running"
            kept.result = await work(_Log(kept, runs))
            kept.state = "done"
        return await self.run("child", lambda: _give(kept.result))


async def _give(value: bytes) -> bytes:
    return value


class MemoryEngine:
    """An `Engine` that keeps runs as long as it is there itself.

    Attributes:
        version: Of the code; runs are marked with it.
    """

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self._runs: dict[str, _Kept] = {}
        self._main: Main | None = None
        self._places = asyncio.Semaphore(1)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def work(self, main: Main, *, concurrency: int = 8) -> None:
        self._main = main
        self._places = asyncio.Semaphore(concurrency)
        for kept in list(self._runs.values()):
            if kept.state in ("waiting", "running") and not kept.parent:
                self._begin(kept)

    def _begin(self, kept: _Kept) -> None:
        if self._main is not None and kept.id not in self._tasks:
            task = asyncio.ensure_future(self._attempt(self._main, kept))
            self._tasks[kept.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(kept.id, None))

    async def _attempt(self, main: Main, kept: _Kept) -> None:
        async with self._places:
            if kept.state not in ("waiting", "running"):
                return
            kept.state = "running"
            try:
                kept.result = await main(_Log(kept, self._runs), kept.agent, kept.input)
            except Exception as error:  # whatever ends a run, others go on
                kept.state, kept.error = "failed", f"{type(error).__name__}: {error}"
            else:
                if kept.state == "running":
                    kept.state = "done"
        kept.tell()

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        if run_id in self._runs:
            return False
        kept = self._runs[run_id] = _Kept(run_id, agent, input, self.version)
        self._begin(kept)
        return True

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> None:
        kept = self._known(run_id)
        if not key or key not in kept.keys:
            kept.keys.add(key)
            kept.letters.append(Letter(len(kept.letters) + 1, topic, body))
            kept.tell()

    async def info(self, run_id: str) -> RunInfo | None:
        kept = self._runs.get(run_id)
        return kept.info() if kept else None

    async def runs(self, *, state: RunState | None = None, limit: int = 100) -> Sequence[RunInfo]:
        found = [k.info() for k in reversed(self._runs.values()) if not k.parent and state in (None, k.state)]
        return found[:limit]

    async def read(self, run_id: str, name: str) -> bytes | None:
        kept = self._runs.get(run_id)
        return kept.published.get(name) if kept else None

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        kept = self._known(run_id)
        async with asyncio.timeout(timeout):
            while kept.state in ("waiting", "running"):
                await kept.changed.wait()
        if kept.state != "done":
            raise DurableError(f"the run {run_id} {kept.state}{': ' + kept.error if kept.error else ''}")
        return kept.result

    async def cancel(self, run_id: str) -> None:
        kept = self._known(run_id)
        if kept.state in ("waiting", "running"):
            kept.state = "cancelled"
            task = self._tasks.get(run_id)
            if task is not None:
                task.cancel()
            kept.tell()

    async def workers(self) -> Sequence[str]:
        return [self.version] if self._main is not None else []

    async def aclose(self) -> None:
        """Stop, in mid-step where one is going on, as a process that is killed: `work` takes the runs up again."""
        self._main = None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, run_id: str) -> _Kept:
        kept = self._runs.get(run_id)
        if kept is None:
            raise DurableError(f"there is no run {run_id}")
        return kept
