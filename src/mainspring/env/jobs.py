"""Background commands, and their output so far."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from mainspring.cancellation import CancelToken
from mainspring.env.types import ProcessResult, StreamName

MAX_RUNNING = 32
"""Maximum number of commands that may run at the same time in one environment."""
_MAX_OUTPUT_BYTES = 4 << 20
"""Maximum bytes of output that are stored for each command, from its end."""
_MAX_FINISHED = 100

JobFunction = Callable[[CancelToken, Callable[[StreamName, bytes], object]], Awaitable[ProcessResult]]
"""Function that runs a command until it exits: it stops when the signal is set, and passes the output on as it arrives."""


class Job:
    """A background command.

    Attributes:
        id: Its ID in the environment, for example, ``job1``.
        command: The script.
        result: The result; ``None`` while it runs, or if it could not be started.
        error: Why it could not be started.
        total: Number of bytes that it wrote.
        read_offset: Number of those bytes that were read.
        was_reported: Whether its end was reported.
    """

    def __init__(self, id: str, command: str) -> None:
        self.id = id
        self.command = command
        self.result: ProcessResult | None = None
        self.error: OSError | None = None
        self.total = 0
        self.read_offset = 0
        self.was_reported = False
        self.signal = CancelToken()
        self.task: asyncio.Task[None] | None = None
        self._started_at = time.monotonic()
        self._seconds: float | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0

    @property
    def running(self) -> bool:
        """Return True if it is running."""
        return self._seconds is None

    @property
    def seconds(self) -> float:
        """Return its run time in seconds."""
        return time.monotonic() - self._started_at if self._seconds is None else self._seconds

    @property
    def output(self) -> bytes:
        """Return the stored output: its end, if it is long."""
        return b"".join(self._pieces)

    def feed(self, _: StreamName, data: bytes) -> None:
        """Add output; standard output and standard error in order of arrival."""
        self.total += len(data)
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= _MAX_OUTPUT_BYTES:
            self._size -= len(self._pieces.popleft())

    def read_new_output(self) -> tuple[bytes, int]:
        """Return the unread output, and the number of bytes before it that are lost. An incomplete last line is not returned yet."""
        data = self.output
        start = self.total - len(data)
        missed = max(0, start - self.read_offset)
        data = data[max(0, self.read_offset - start) :]
        if self.running and (cut := data.rfind(b"\n") + 1):
            data = data[:cut]
        self.read_offset += missed + len(data)
        return data, missed

    def finish(self, result: ProcessResult | None, error: OSError | None) -> None:
        """Record its end."""
        self.result, self.error = result, error
        self._seconds = time.monotonic() - self._started_at

    async def wait(self, seconds: float) -> bool:
        """Wait for its end for a limited time. Return True if it has ended."""
        if self.task is not None and self.running:
            await asyncio.wait([self.task], timeout=seconds)
        return not self.running


class JobManager:
    """The background commands of one environment; they end with it.

    Args:
        before_start: Awaited before a command starts.
    """

    def __init__(self, before_start: Callable[[], Awaitable[object]] | None = None) -> None:
        self._before_start = before_start
        self._jobs: dict[str, Job] = {}
        self._count = 0

    def create_sibling(self) -> JobManager:
        """Return a manager of other commands in the same environment."""
        return JobManager(self._before_start)

    @property
    def all(self) -> tuple[Job, ...]:
        """Return the jobs in the order in which they started; only the most recent finished ones are stored."""
        return tuple(self._jobs.values())

    def get(self, id: str) -> Job | None:
        """Return the job with that ID."""
        return self._jobs.get(id)

    def start(self, command: str, run: JobFunction, on_end: Callable[[Job], object] | None = None) -> Job:
        """Start a command.

        Args:
            command: The script, for lists.
            run: Function that runs it.
            on_end: Called when it has ended.

        Raises:
            OSError: If too many run already.
        """
        if sum(job.running for job in self._jobs.values()) >= MAX_RUNNING:
            raise OSError(11, f"{MAX_RUNNING} commands run in the background already")
        self._count += 1
        job = Job(f"job{self._count}", command)
        self._jobs[job.id] = job
        job.task = asyncio.ensure_future(self._run(job, run, on_end))
        over = [j.id for j in self._jobs.values() if not j.running][:-_MAX_FINISHED]
        for id in over:
            del self._jobs[id]
        return job

    async def _run(self, job: Job, run: JobFunction, on_end: Callable[[Job], object] | None) -> None:
        result: ProcessResult | None = None
        error: OSError | None = None
        try:
            if self._before_start is not None:
                await self._before_start()
            result = await run(job.signal, job.feed)
        except OSError as e:
            error = e
        finally:
            job.finish(result, error)
        if on_end is not None:
            on_end(job)

    async def aclose(self) -> None:
        """End all commands without a report."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and job.running]
        for job in self._jobs.values():
            job.was_reported = True
            job.signal.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        for task in tasks:
            task.cancel()
