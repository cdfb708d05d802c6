"""A program to talk to: what is written goes to its standard input, what it answers is read as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from asyncio.subprocess import SubprocessStreamProtocol
from collections import deque
from collections.abc import Mapping, Sequence

from mainspring.env.process_tree import RUN_ID_VARIABLE, kill_tree, terminate_tree

_GRACE = 1.0
_MAX_STDERR_BYTES = 1 << 14


class StdioConnection:
    """A running program of this machine. A `Connection`."""

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: SubprocessStreamProtocol, mark: str) -> None:
        self._transport = transport
        self._process = asyncio.subprocess.Process(transport, pipes, asyncio.get_running_loop())
        self._mark = mark
        self._errors: deque[bytes] = deque(maxlen=16)
        self._drain = asyncio.ensure_future(self._drain_stderr())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def errors(self) -> str:
        """The end of what it wrote to standard error."""
        return b"".join(self._errors)[-_MAX_STDERR_BYTES:].decode("utf-8", "replace")

    async def read(self, limit: int = 1 << 16) -> bytes:
        """Some of its output; nothing at its end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        """Send it something.

        Raises:
            ConnectionError: If it has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def aclose(self) -> None:
        """End it with everything it started: its input is closed, then it is asked, then forced."""
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
        """Force it and everything it started to end, at once. Blocks for some milliseconds."""
        kill_tree(self._process.pid, self._mark)

    async def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._errors.append(data)


async def open_connection(arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> StdioConnection:
    """Start a program in a session of its own.

    Raises:
        OSError: If it cannot be started.
    """
    mark = secrets.token_hex(8)
    loop = asyncio.get_running_loop()
    transport, pipes = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(1 << 18, loop),
        *arguments,
        cwd=cwd,
        env={**env, RUN_ID_VARIABLE: mark},
        start_new_session=True,
    )
    return StdioConnection(transport, pipes, mark)
