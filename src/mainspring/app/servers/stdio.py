"""Servers on standard input and output, until the client disconnects or a signal arrives.

Only the protocol uses the two streams: all other output goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.signals import GracefulShutdown
from mainspring.cancellation import CancelToken
from mainspring.line_transport import LineTransport, ReadFunction, WriteFunction, stream_writer

MAX_LINE_BYTES = 32 << 20
"""Maximum number of bytes of a line; images are sent as base64."""
_CHUNK = 1 << 16


@contextmanager
def take_over_stdio() -> Generator[tuple[int, int]]:
    """Reserve standard input and output for the protocol: prints go to stderr, reads return nothing, and child processes inherit
    neither stream. The previous streams are restored at the end.

    Yields:
        The file descriptors of the two streams.
    """
    sys.stdout.flush()
    given, out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield given, out
    finally:
        os.close(nothing)
        sys.stdout.flush()
        os.dup2(given, 0)
        os.dup2(out, 1)
        os.close(given)
        os.close(out)


@asynccontextmanager
async def open_wire(given: int, output_fd: int) -> AsyncGenerator[LineTransport]:
    """Open a line transport over two file descriptors, which stay open. Each can be a pipe or a redirected file.

    Args:
        given: File descriptor of the input.
        output_fd: File descriptor of the output.
    """
    blocking = [(number, os.get_blocking(number)) for number in (given, output_fd)]
    async with AsyncExitStack() as closing:
        chunk = await _open_reader(given, closing)
        put = await _open_writer(output_fd, closing)
        try:
            yield LineTransport(chunk, put, MAX_LINE_BYTES)
        finally:
            for number, state in blocking:
                os.set_blocking(number, state)


async def _open_reader(number: int, closing: AsyncExitStack) -> ReadFunction:
    if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(
        number
    ):  # for example, /dev/null, which does not support asynchronous reads
        return lambda: asyncio.to_thread(os.read, number, _CHUNK)
    pipe = os.fdopen(os.dup(number), "rb", buffering=0)
    reader = asyncio.StreamReader()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
    except (ValueError, OSError, NotImplementedError):
        pipe.close()
        return lambda: asyncio.to_thread(os.read, number, _CHUNK)
    closing.callback(transport.close)
    return lambda: reader.read(_CHUNK)


async def _open_writer(number: int, closing: AsyncExitStack) -> WriteFunction:
    pipe = os.fdopen(os.dup(number), "wb", buffering=0)
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
    except (ValueError, OSError, NotImplementedError):
        pipe.close()
        return _file_writer(number)
    closing.callback(
        lambda: None if transport.is_closing() else transport.abort()
    )  # the pipe closes itself when the reader disconnects
    # Wait until the pipe has accepted the data, so that the sender slows down.
    transport.set_write_buffer_limits(high=0)
    return stream_writer(asyncio.StreamWriter(transport, protocol, None, loop))


def _file_writer(output_fd: int) -> WriteFunction:
    def write(data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(output_fd, remaining) :]

    async def put(data: bytes) -> None:
        await asyncio.to_thread(write, data)

    return put


_TEARDOWN_SECONDS = 5.0
_SIGNALLED = 128


ProtocolHandler = Callable[[LineTransport, "ChatRegistry"], Awaitable[None]]
"""Serves one client until it disconnects."""


class ChatRegistry:
    """The open chats of a server, so that their programs end with the process even if the chats cannot be closed in time."""

    def __init__(self) -> None:
        self._chats: set[Chat] = set()

    @asynccontextmanager
    async def open(self, options: ChatOptions) -> AsyncGenerator[Chat]:
        """Open a chat, like `Chat.open`."""
        chat: Chat | None = None
        try:
            async with Chat.open(options) as chat:
                self._chats.add(chat)
                yield chat
        finally:
            if chat is not None:
                self._chats.discard(chat)

    def kill_all(self) -> None:
        """Kill the programs of all chats immediately."""
        for chat in list(self._chats):
            chat.kill_all()


def serve_stdio(options: argparse.Namespace, work: ProtocolHandler) -> int:
    """Serve on standard input and output, and return the exit code.

    Args:
        options: Options of the command line.
        work: Handler of the protocol. SIGINT, SIGTERM, and SIGHUP cancel it.
    """
    return run_command(options, lambda _: _serve(options, work))


def _serve(options: argparse.Namespace, work: ProtocolHandler) -> int:
    token, chats = CancelToken(), ChatRegistry()
    with take_over_stdio() as (given, out), GracefulShutdown(token, lambda number: chats.kill_all()) as interrupts:
        asyncio.run(_serve_until_closed(token, given, out, lambda wire: work(wire, chats)))
        code = _SIGNALLED + interrupts.number if interrupts.number else OK
        if options.owns_process:  # end the process soon, even if a thread still blocks
            limit = threading.Timer(_TEARDOWN_SECONDS, os._exit, (code,))
            limit.daemon = True
            limit.start()
        return code


async def _serve_until_closed(
    token: CancelToken, input_fd: int, output_fd: int, work: Callable[[LineTransport], Awaitable[None]]
) -> None:
    async with open_wire(input_fd, output_fd) as wire:
        working = asyncio.ensure_future(work(wire))
        stopped = asyncio.ensure_future(token.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.wait((working, stopped))
        if not working.cancelled() and (error := working.exception()) is not None:
            if not isinstance(error, BrokenPipeError):  # the client disconnected, which is not an error
                raise error
