"""Commands that run beside the conversation, and what they wrote so far."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from mainspring.cancellation import CancelToken
from mainspring.env.types import ProcessResult, StreamName

MAX_RUNNING = 32
"""Commands that may run at the same time in one environment."""
MAX_OUTPUT_BYTES = 4 << 20
"""Bytes of output that are kept of each, from its end."""
_MAX_FINISHED = 100

JobFunction = Callable[[CancelToken, Callable[[StreamName, bytes], object]], Awaitable[ProcessResult]]
"""Runs a command to its end: stopped when the signal is set, its output handed over as it comes."""


class Job:
    """A command in the background.

    Attributes:
        id: By which it is known in its environment, as in ``job1``.
        command: The script.
        result: How it ended; ``None`` while it runs, or if it could not be started.
        error: Why it could not be started.
        total: Bytes that it wrote.
        seen: How many of them were read.
        told: Whether somebody was told of its end.
    """

    def __init__(self, id: str, command: str) -> None:
        self.id = id
        self.command = command
        self.result: ProcessResult | None = None
        self.error: OSError | None = None
        self.total = 0
        self.seen = 0
        self.told = False
        self.signal = CancelToken()
        self.task: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._seconds is None

    @property
    def seconds(self) -> float:
        """How long it runs or ran."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    def feed(self, _: StreamName, data: bytes) -> None:
        """Take output; standard output and standard error in order of arrival."""
        self.total += len(data)
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= MAX_OUTPUT_BYTES:
            self._size -= len(self._pieces.popleft())

    def unseen(self) -> tuple[bytes, int]:
        """The output that was not read yet, and how many bytes before it are lost. A line that is not complete waits."""
        data = b"".join(self._pieces)
        start = self.total - len(data)
        missed = max(0, start - self.seen)
        data = data[max(0, self.seen - start) :]
        if self.running and (cut := data.rfind(b"\n") + 1):
            data = data[:cut]
        self.seen += missed + len(data)
        return data, missed

    def ended(self, result: ProcessResult | None, error: OSError | None) -> None:
        """Note its end."""
        self.result, self.error = result, error
        self._seconds = time.monotonic() - self._began

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; whether it has ended."""
        if self.task is not None and self.running:
            await asyncio.wait([self.task], timeout=seconds)
        return not self.running


class JobManager:
    """The background commands of one environment; they end with it.

    Args:
        prepare: Awaited before a command starts.
    """

    def __init__(self, prepare: Callable[[], Awaitable[object]] | None = None) -> None:
        self._run_warmup = prepare
        self._jobs: dict[str, Job] = {}
        self._count = 0

    @property
    def all(self) -> tuple[Job, ...]:
        """In the order in which they were started; of those that have ended only the last ones are known."""
        return tuple(self._jobs.values())

    def get(self, id: str) -> Job | None:
        """The job of that id."""
        return self._jobs.get(id)

    def start(self, command: str, run: JobFunction, on_end: Callable[[Job], object] | None = None) -> Job:
        """Start a command.

        Args:
            command: The script, for lists.
            run: Runs it.
            on_end: Called when it has ended.

        Raises:
            OSError: If too many run already.
        """
        if sum(job.running for job in self._jobs.values()) >= MAX_RUNNING:
            raise OSError(11, f"{MAX_RUNNING} commands run in the background already")
        self._count += 1
        job = Job(f"job{self._count}", command)
        self._jobs[job.id] = job
        job.task = asyncio.ensure_future(self._see_through(job, run, on_end))
        over = [j.id for j in self._jobs.values() if not j.running][:-_MAX_FINISHED]
        for id in over:
            del self._jobs[id]
        return job

    async def _see_through(self, job: Job, run: JobFunction, on_end: Callable[[Job], object] | None) -> None:
        result: ProcessResult | None = None
        error: OSError | None = None
        try:
            if self._run_warmup is not None:
                await self._run_warmup()
            result = await run(job.signal, job.feed)
        except OSError as e:
            error = e
        finally:
            job.ended(result, error)
        if on_end is not None:
            on_end(job)

    async def aclose(self) -> None:
        """End all; nobody is told."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and job.running]
        for job in self._jobs.values():
            job.told = True
            job.signal.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        for task in tasks:
            task.cancel()
