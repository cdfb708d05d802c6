"""Run a program until it exits: time limit, cancellation, output, and surviving processes.

The start and the end of the output are stored in memory; all of it is written to a private file on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signal_module
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


class OutputHeadAndTail:
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
        """Add bytes; return False once some are dropped."""
        self.total += len(data)
        remaining = self._head_limit - len(self._head)
        if remaining > 0:
            self._head += data[:remaining]
            data = data[remaining:]
        if data:
            self._pieces.append(data)
            self._tail_size += len(data)
            while self._pieces and self._tail_size - len(self._pieces[0]) >= self._tail_limit:
                self._tail_size -= len(self._pieces.popleft())
        return self.total <= self._head_limit + self._tail_limit

    def output(self) -> CapturedOutput:
        """Return the stored output."""
        tail = b"".join(self._pieces)
        if len(tail) > self._tail_limit:
            tail = tail[len(tail) - self._tail_limit :]
        return CapturedOutput(bytes(self._head), tail, self.total)


class OutputCapture:
    """Both streams of one program."""

    def __init__(self, limits: OutputLimits, new_spool: Callable[[], str]) -> None:
        self.buffers: dict[StreamName, OutputHeadAndTail] = {
            "stdout": OutputHeadAndTail(limits),
            "stderr": OutputHeadAndTail(limits),
        }
        self.spool: str | None = None
        self._limits = limits
        self._new_spool = new_spool
        self._pending: list[bytes] | None = [] if limits.spool else None
        self._file: BinaryIO | None = None
        self._lock = asyncio.Lock()

    @property
    def exceeds_limit(self) -> bool:
        """Return True if the output exceeds the limit."""
        return self.buffers["stdout"].total + self.buffers["stderr"].total > self._limits.cap

    async def feed(self, stream: StreamName, data: bytes) -> None:
        """Add a piece of output. Output after an overflow is counted but not stored."""
        if self.exceeds_limit:
            self.buffers[stream].total += len(data)
            return
        fits = self.buffers[stream].feed(data)
        if not self._limits.spool:
            return
        async with self._lock:
            if self._pending is None:
                await asyncio.to_thread(self._write, data)
                return
            self._pending.append(data)
            if not fits:
                await self._open_spool_file()

    async def start_spool(self) -> None:
        """Write the output so far, and all output from now on, to a private file."""
        async with self._lock:
            await self._open_spool_file()

    async def _open_spool_file(self) -> None:
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
            self.spool = None  # On a full disk only the copy is lost, not the command.
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
"""Seconds to wait for the rest of the output after the program has exited; a surviving process may keep the pipe open."""
TERMINATE_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL after a timeout."""
CANCEL_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL after a cancellation."""
PROCESS_POLL_INTERVAL = 0.1
"""Seconds between two counts of a command's processes, if their number is limited."""
_READ_SIZE = 1 << 16


EndReason = Literal["ended", "timed_out", "cancelled", "overflowed", "swarmed"]


class ProgramPipes(SubprocessStreamProtocol):
    """Detects the exit of a program, even if other processes keep its pipes open.

    Args:
        limit: Size of the buffer of each pipe in bytes.
    """

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit, loop)
        self.ended: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        """Note the exit."""
        super().process_exited()
        if not self.ended.done():
            self.ended.set_result(None)


class RunningProcess:
    """A started program."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, pipes: ProgramPipes, capture: OutputCapture, mark: str
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
        """The process ID, which is also the ID of the process group."""
        return self._transport.get_pid()

    def feed(self, data: bytes | None) -> None:
        """Write the whole input to the program."""
        if self._pipes.stdin is not None:
            if data:
                self._pipes.stdin.write(data)
            self._pipes.stdin.close()

    def start_reading(self, on_output: Callable[[StreamName, bytes], object] | None) -> None:
        """Start reading the output."""
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
                if self._capture.exceeds_limit:
                    self._output_exceeded.set()
                elif self._on_output:
                    self._on_output(name, data)
        except ConnectionError:
            pass  # The pipe was closed during the write.
        except asyncio.CancelledError:
            self.close()
            raise

    def _pump_done(self, _: asyncio.Task[None]) -> None:
        if all(p.done() for p in self._pumps):
            self._capture.close()

    async def wait(
        self, timeout: float | None, signal: CancelToken | None, max_processes: int | None = None
    ) -> EndReason:
        """Wait until the program exits or must be ended; ``max_processes`` is the maximum number of its processes."""
        loop = asyncio.get_running_loop()
        hit: asyncio.Future[None] = loop.create_future()
        flooded = asyncio.ensure_future(self._output_exceeded.wait())
        swarmed = asyncio.ensure_future(self._wait_for_process_limit(max_processes))
        remove = signal.on_cancel(lambda: loop.call_soon_threadsafe(_set_done, hit)) if signal else None
        try:
            requested = (self._pipes.ended, hit, flooded, swarmed, *self._pumps)
            end = None if timeout is None else time.monotonic() + timeout
            while not any(f.done() for f in (self._pipes.ended, hit, flooded, swarmed)):
                remaining = None if end is None else end - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return "timed_out"
                pending = [f for f in requested if not f.done()]
                await asyncio.wait(pending, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
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

    async def _wait_for_process_limit(self, limit: int | None) -> None:
        """Return once the program exceeds the maximum number of processes."""
        if limit is None:
            await asyncio.get_running_loop().create_future()
            return
        count = 0
        while count <= limit:
            await asyncio.sleep(PROCESS_POLL_INTERVAL)
            count = len(await asyncio.to_thread(find_processes, self.pid, ""))

    def _raise_pump_error(self) -> None:
        for pump in self._pumps:
            if pump.done() and not pump.cancelled() and (error := pump.exception()):
                raise error

    async def drain(self) -> bool:
        """Read the remaining output; return False if a process still keeps a pipe open."""
        open_pumps = [p for p in self._pumps if not p.done()]
        if open_pumps:
            await asyncio.wait(open_pumps, timeout=DRAIN_SECONDS)
        self._raise_pump_error()
        return all(p.done() for p in self._pumps)

    async def find_survivors(self, drained: bool) -> None:
        """Find the processes that survived the program."""
        if not drained or is_group_alive(self.pid):
            self.survivors = await asyncio.to_thread(find_processes, self.pid, self._mark)
        else:
            self.survivors = await asyncio.to_thread(find_by_run_id, self._mark, self.pid)

    async def detach(self, max_processes: int | None) -> None:
        """Detach from the surviving processes: their further output is written only to the spool."""
        self._on_output = None
        if max_processes is not None:
            self._watch = asyncio.ensure_future(self._enforce_process_limit(max_processes))
        if not all(p.done() for p in self._pumps):
            await self._capture.start_spool()

    async def _enforce_process_limit(self, limit: int) -> None:
        """End the surviving processes once they exceed the maximum number of processes."""
        count = 1
        while 0 < count <= limit:
            await asyncio.sleep(10 * PROCESS_POLL_INTERVAL)
            count = len(await asyncio.to_thread(find_orphans, self.pid, self._mark))
        if count:
            self.survivors = await terminate_tree(self.pid, self._mark, CANCEL_GRACE, find_orphans)

    async def end(self, grace: float) -> None:
        """End the program and everything it started, or the processes that survived it."""
        find = find_orphans if self._pipes.ended.done() and self.survivors else find_processes
        self.survivors = await terminate_tree(self.pid, self._mark, grace, find)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._pipes.ended), 1.0)

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call a function once the program has exited."""
        self._pipes.ended.add_done_callback(lambda _: callback())

    def kill(self) -> None:
        """Kill the program and everything it started immediately. Blocks for some milliseconds."""
        kill_tree(self.pid, self._mark, find_orphans if self._pipes.ended.done() else find_processes)

    def close(self) -> None:
        """Close its pipes."""
        if self._watch is not None:
            self._watch.cancel()
        for pump in self._pumps:
            if not pump.done():
                pump.cancel()
        self._transport.close()
        self._capture.close()

    def result(self, cause: EndReason, seconds: float) -> ProcessResult:
        """Return the result."""
        code = self._transport.get_returncode()
        code = -9 if code is None else code
        return ProcessResult(
            exit_code=code if code >= 0 else 128 - code,
            signal=_signal_name(-code) if code < 0 else None,
            stdout=self._capture.buffers["stdout"].output(),
            stderr=self._capture.buffers["stderr"].output(),
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
    """Start a program in its own session, without a terminal; ``mark`` is the prefix of the run's mark."""
    loop = asyncio.get_running_loop()
    mark += os.urandom(8).hex()
    transport, pipes = await loop.subprocess_exec(
        lambda: ProgramPipes(_READ_SIZE * 2),
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
    max_processes: int | None = None,
) -> ProcessResult:
    """Wait for a started program. It may leave survivors, whose further output is written to the spool."""
    began = time.monotonic()
    running.start_reading(on_output)
    try:
        cause = await running.wait(timeout, signal, max_processes)
        if cause == "ended":
            drained = await running.drain()
            await running.find_survivors(drained)
            if max_processes is not None and len(running.survivors) > max_processes:
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
        await running.detach(max_processes)
    else:
        running.close()
    return running.result(cause, seconds)


async def _terminate_shielded(running: RunningProcess) -> None:
    """End the program although this task is being cancelled, perhaps twice."""
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
        return signal_module.Signals(number).name
    except ValueError:
        return f"signal {number}"


_GRACE = 1.0
_MAX_STDERR_BYTES = 1 << 14


class StdioConnection:
    """A running program of this machine. A `ProcessConnection`."""

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: SubprocessStreamProtocol, mark: str) -> None:
        self._transport = transport
        self._process = asyncio.subprocess.Process(transport, pipes, asyncio.get_running_loop())
        self._mark = mark
        self._errors: deque[bytes] = deque(maxlen=16)
        self._drain = asyncio.ensure_future(self._drain_stderr())

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        return b"".join(self._errors)[-_MAX_STDERR_BYTES:].decode("utf-8", "replace")

    async def read(self, limit: int = 1 << 16) -> bytes:
        """Read some of its output; empty at its end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        """Write to its input.

        Raises:
            ConnectionError: If it has exited.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def aclose(self) -> None:
        """End it with everything it started: close its input, then send SIGTERM, then SIGKILL."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 0.2)
        await terminate_tree(self._process.pid, self._mark, _GRACE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _GRACE)
        self._drain.cancel()
        self._transport.close()

    def kill(self) -> None:
        """Kill it and everything it started immediately. Blocks for some milliseconds."""
        kill_tree(self._process.pid, self._mark)

    async def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._errors.append(data)


async def open_connection(arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> StdioConnection:
    """Start a program in its own session.

    Raises:
        OSError: If it cannot be started.
    """
    mark = os.urandom(8).hex()
    loop = asyncio.get_running_loop()
    transport, pipes = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(1 << 18, loop),
        *arguments,
        cwd=cwd,
        env={**env, RUN_ID_VARIABLE: mark},
        start_new_session=True,
    )
    return StdioConnection(transport, pipes, mark)
