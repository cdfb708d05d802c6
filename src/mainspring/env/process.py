"""Keeping a program's output: the start and the end in memory, all of it in a private file where asked for.

Running a program to its end: time limit, cancellation, output, and nothing left behind unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal as signals
import time
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Literal

from mainspring.cancellation import CancelToken
from mainspring.env.process_tree import (
    RUN_ID_VARIABLE,
    find_by_run_id,
    find_orphans,
    find_processes,
    is_group_alive,
    kill_tree,
    terminate_tree,
)
from mainspring.env.types import CapturedOutput, OutputLimits, ProcessResult, StreamName


class Kept:
    """The first and the last bytes of one stream."""

    __slots__ = ("_head", "_head_limit", "_pieces", "_tail_limit", "_tail_size", "total")

    def __init__(self, limits: OutputLimits) -> None:
        self._head_limit = limits.head
        self._tail_limit = limits.tail
        self._head = bytearray()
        self._pieces: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> bool:
        """Take bytes; False once some are not kept."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._pieces.append(data)
            self._tail_size += len(data)
            while self._pieces and self._tail_size - len(self._pieces[0]) >= self._tail_limit:
                self._tail_size -= len(self._pieces.popleft())
        return self.total <= self._head_limit + self._tail_limit

    def output(self) -> CapturedOutput:
        """What was kept."""
        tail = b"".join(self._pieces)
        if len(tail) > self._tail_limit:
            tail = tail[len(tail) - self._tail_limit :]
        return CapturedOutput(bytes(self._head), tail, self.total)


class OutputCapture:
    """Both streams of one program."""

    def __init__(self, limits: OutputLimits, new_spool: Callable[[], str]) -> None:
        self.kept: dict[StreamName, Kept] = {"stdout": Kept(limits), "stderr": Kept(limits)}
        self.spool: str | None = None
        self._request_timeouts = limits
        self._new_spool = new_spool
        self._pending: list[bytes] | None = [] if limits.spool else None
        self._file: BinaryIO | None = None
        self._lock = asyncio.Lock()

    @property
    def overflowed(self) -> bool:
        """Whether more came than the cap allows."""
        return self.kept["stdout"].total + self.kept["stderr"].total > self._request_timeouts.cap

    async def feed(self, stream: StreamName, data: bytes) -> None:
        """Take a piece of output. What comes after an overflow is counted but not kept."""
        if self.overflowed:
            self.kept[stream].total += len(data)
            return
        fits = self.kept[stream].feed(data)
        if not self._request_timeouts.spool:
            return
        async with self._lock:
            if self._pending is None:
                await asyncio.to_thread(self._write, data)
                return
            self._pending.append(data)
            if not fits:
                await self._begin()

    async def start_spool(self) -> None:
        """Write what came so far, and from now on everything, to a private file."""
        async with self._lock:
            await self._begin()

    async def _begin(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            await asyncio.to_thread(self._open, b"".join(pending))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, data: bytes) -> None:
        try:
            self.spool = self._new_spool()
            self._file = open(self.spool, "wb", buffering=0, opener=_private_opener)
        except OSError:
            self.spool = None  # A full disk costs the copy, not the command.
            return
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            self.close()
            self.spool = None


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


DRAIN_SECONDS = 0.2
"""Seconds to wait for the rest of the output once the program has ended; something it left behind may hold the pipe."""
TERMINATE_GRACE = 2.0
"""Seconds between asking a program to end and forcing it, when its time is up."""
CANCEL_GRACE = 0.5
"""The same when the call is cancelled."""
PROCESS_POLL_INTERVAL = 0.1
"""Seconds between two looks at how many processes a command has, where that is limited."""
_READ_SIZE = 1 << 16


EndReason = Literal["ended", "timed_out", "cancelled", "overflowed", "swarmed"]


class _Pipes(SubprocessStreamProtocol):
    """Knows when the program has ended, whoever still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(_READ_SIZE * 2, loop)
        self.ended: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.ended.done():
            self.ended.set_result(None)


class RunningProcess:
    """A program that was started."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, pipes: _Pipes, capture: OutputCapture, mark: str
    ) -> None:
        self._transport = transport
        self._pipes = pipes
        self._capture = capture
        self._mark = mark
        self._pumps: list[asyncio.Task[None]] = []
        self._on_output: Callable[[StreamName, bytes], object] | None = None
        self._output_exceeded = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self.survivors: set[int] = set()

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._transport.get_pid()

    def feed(self, data: bytes | None) -> None:
        """Give it its whole input."""
        if self._pipes.stdin is not None:
            if data:
                self._pipes.stdin.write(data)
            self._pipes.stdin.close()

    def start_reading(self, on_output: Callable[[StreamName, bytes], object] | None) -> None:
        """Start to take its output."""
        self._on_output = on_output
        readers: dict[StreamName, asyncio.StreamReader | None] = {
            "stdout": self._pipes.stdout,
            "stderr": self._pipes.stderr,
        }
        for name, reader in readers.items():
            if reader is not None:
                pump = asyncio.ensure_future(self._pump(name, reader))
                pump.add_done_callback(self._pump_done)
                self._pumps.append(pump)

    async def _pump(self, name: StreamName, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_READ_SIZE):
                await self._capture.feed(name, data)
                if self._capture.overflowed:
                    self._output_exceeded.set()
                elif self._on_output:
                    self._on_output(name, data)
        except ConnectionError:
            pass  # The pipe was closed under it.
        except asyncio.CancelledError:
            self.close()
            raise

    def _pump_done(self, _: asyncio.Task[None]) -> None:
        if all(p.done() for p in self._pumps):
            self._capture.close()

    async def wait(self, timeout: float | None, signal: CancelToken | None, most: int | None = None) -> EndReason:
        """Wait for its end or for a reason to end it; ``most`` is how many processes it may have."""
        loop = asyncio.get_running_loop()
        hit: asyncio.Future[None] = loop.create_future()
        flooded = asyncio.ensure_future(self._output_exceeded.wait())
        swarmed = asyncio.ensure_future(self._wait_for_process_limit(most))
        remove = signal.on_cancel(lambda: loop.call_soon_threadsafe(_set_done, hit)) if signal else None
        try:
            wanted = (self._pipes.ended, hit, flooded, swarmed, *self._pumps)
            end = None if timeout is None else time.monotonic() + timeout
            while not any(f.done() for f in (self._pipes.ended, hit, flooded, swarmed)):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return "timed_out"
                pending = [f for f in wanted if not f.done()]
                await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                self._raise_pump_error()
            if flooded.done():
                return "overflowed"
            if swarmed.done():
                return "swarmed"
            return "ended" if self._pipes.ended.done() else "cancelled"
        finally:
            flooded.cancel()
            swarmed.cancel()
            hit.cancel()
            if remove:
                remove()

    async def _wait_for_process_limit(self, most: int | None) -> None:
        """Come back once it has more processes than it may."""
        if most is None:
            await asyncio.get_running_loop().create_future()
            return
        count = 0
        while count <= most:
            await asyncio.sleep(PROCESS_POLL_INTERVAL)
            count = len(await asyncio.to_thread(find_processes, self.pid, ""))

    def _raise_pump_error(self) -> None:
        for pump in self._pumps:
            if pump.done() and not pump.cancelled() and (error := pump.exception()):
                raise error

    async def drain(self) -> bool:
        """Take what output is left; False if something still holds a pipe."""
        open_pumps = [p for p in self._pumps if not p.done()]
        if open_pumps:
            await asyncio.wait(open_pumps, timeout=DRAIN_SECONDS)
        self._raise_pump_error()
        return all(p.done() for p in self._pumps)

    async def find_survivors(self, drained: bool) -> None:
        """Find what it left behind."""
        if not drained or is_group_alive(self.pid):
            self.survivors = await asyncio.to_thread(find_processes, self.pid, self._mark)
        else:
            self.survivors = await asyncio.to_thread(find_by_run_id, self._mark, self.pid)

    async def let_go(self, most: int | None) -> None:
        """Leave it to what survived: what they still write goes into the spool, and nowhere else."""
        self._on_output = None
        if most is not None:
            self._watch = asyncio.ensure_future(self._enforce_process_limit(most))
        if not all(p.done() for p in self._pumps):
            await self._capture.start_spool()

    async def _enforce_process_limit(self, most: int) -> None:
        """End what survived once it has more processes than it may."""
        count = 1
        while 0 < count <= most:
            await asyncio.sleep(10 * PROCESS_POLL_INTERVAL)
            count = len(await asyncio.to_thread(find_orphans, self.pid, self._mark))
        if count:
            self.survivors = await terminate_tree(self.pid, self._mark, CANCEL_GRACE, find_orphans)

    async def end(self, grace: float) -> None:
        """End it and everything it started, or what it left behind."""
        find = find_orphans if self._pipes.ended.done() and self.survivors else find_processes
        self.survivors = await terminate_tree(self.pid, self._mark, grace, find)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._pipes.ended), 1.0)

    def kill(self) -> None:
        """Force it and everything it started to end, at once. Blocks for some milliseconds."""
        kill_tree(self.pid, self._mark, find_orphans if self._pipes.ended.done() else find_processes)

    def close(self) -> None:
        """Let go of its pipes."""
        if self._watch is not None:
            self._watch.cancel()
        for pump in self._pumps:
            if not pump.done():
                pump.cancel()
        self._transport.close()
        self._capture.close()

    def result(self, cause: EndReason, seconds: float) -> ProcessResult:
        """How it ended."""
        code = self._transport.get_returncode()
        code = -9 if code is None else code
        return ProcessResult(
            exit_code=code if code >= 0 else 128 - code,
            signal=_signal_name(-code) if code < 0 else None,
            stdout=self._capture.kept["stdout"].output(),
            stderr=self._capture.kept["stderr"].output(),
            seconds=seconds,
            timed_out=cause == "timed_out",
            cancelled=cause == "cancelled",
            overflowed=cause == "overflowed",
            swarmed=cause == "swarmed",
            spool=self._capture.spool,
            survivors=tuple(sorted(self.survivors)),
        )


async def start_process(
    arguments: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None,
    limits: OutputLimits,
    new_spool: Callable[[], str],
    mark: str = "",
) -> RunningProcess:
    """Start a program in a session of its own, without a terminal; ``mark`` is how the mark of its run begins."""
    loop = asyncio.get_running_loop()
    mark += secrets.token_hex(8)
    transport, pipes = await loop.subprocess_exec(
        lambda: _Pipes(loop),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env={**env, RUN_ID_VARIABLE: mark},
        start_new_session=True,
    )
    running = RunningProcess(transport, pipes, OutputCapture(limits, new_spool), mark)
    running.feed(stdin)
    return running


async def wait_for_result(
    running: RunningProcess,
    *,
    timeout: float | None,
    signal: CancelToken | None,
    on_output: Callable[[StreamName, bytes], object] | None,
    most: int | None = None,
) -> ProcessResult:
    """See a started program through. It may leave survivors, whose output then goes on into the spool."""
    began = time.monotonic()
    running.start_reading(on_output)
    try:
        cause = await running.wait(timeout, signal, most)
        if cause == "ended":
            drained = await running.drain()
            await running.find_survivors(drained)
            if most is not None and len(running.survivors) > most:
                cause = "swarmed"
                await running.end(CANCEL_GRACE)
        else:
            await running.end(TERMINATE_GRACE if cause in ("timed_out", "overflowed") else CANCEL_GRACE)
            await running.drain()
    except BaseException:
        await _terminate_shielded(running)
        raise
    seconds = time.monotonic() - began
    if running.survivors:
        await running.let_go(most)
    else:
        running.close()
    return running.result(cause, seconds)


async def _terminate_shielded(running: RunningProcess) -> None:
    """End it though this task is being cancelled, perhaps twice."""
    ending = asyncio.ensure_future(running.end(CANCEL_GRACE))
    try:
        await asyncio.shield(ending)
    finally:
        if not ending.done():
            running.kill()
        running.close()


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
