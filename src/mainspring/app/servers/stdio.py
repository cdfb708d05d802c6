"""Lines over standard input and output, which belong to the protocol alone: whatever else prints does it on stderr.

A server on standard input and output: until the other side leaves, or a signal comes.
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
from typing import Any

import msgspec

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.signals import GracefulShutdown
from mainspring.cancellation import CancelToken
from mainspring.messages.codec import strip_surrogates

MAX_LINE_BYTES = 32 << 20
"""Bytes of a line: images come as base64."""


_CHUNK = 1 << 16


def encode_line(value: Any, other: Callable[[Any], Any] | None = None) -> bytes:
    """A value as a line of JSON, without its end. Half a surrogate pair, as a name of a file may hold, becomes U+FFFD.

    Args:
        value: The value.
        other: Makes something that JSON has of what it has not.
    """
    try:
        return msgspec.json.encode(value, enc_hook=other)
    except UnicodeEncodeError:
        return msgspec.json.encode(strip_surrogates(msgspec.to_builtins(value, enc_hook=other)))


class LineTooLongError(Exception):
    """A line was longer than it may be, and was passed over; the text says so."""


class LineTransport:
    """Lines in, lines out.

    Args:
        chunk: Gives what has come; nothing at the end.
        put: Writes, and waits while the other side does not read.
        max_line_bytes: Bytes of a line.
    """

    def __init__(
        self,
        chunk: Callable[[], Awaitable[bytes]],
        put: Callable[[bytes], Awaitable[None]],
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._chunk = chunk
        self._write = put
        self._max_line_bytes = max_line_bytes
        self._on_agent_done = bytearray()
        self._looked = 0
        self._ended = False
        self._sending = asyncio.Lock()
        self.is_closed = False

    async def line(self) -> bytes | None:
        """The next line that is not empty, without its end; ``None`` at the end.

        Raises:
            LineTooLongError: If one was too long. The next call gives the line behind it.
        """
        while True:
            found = await self._line()
            if found is None or found.strip():
                return found

    async def _line(self) -> bytes | None:
        long = False
        while True:
            end = self._on_agent_done.find(b"\n", self._looked)
            if end >= 0:
                line = bytes(self._on_agent_done[:end])
                del self._on_agent_done[: end + 1]
                self._looked = 0
                if long or len(line) > self._max_line_bytes:
                    raise LineTooLongError(
                        f"a line of more than {self._max_line_bytes} bytes was passed over; send less at once"
                    )
                return line
            if long or len(self._on_agent_done) > self._max_line_bytes:
                long = True
                self._on_agent_done.clear()
            self._looked = len(self._on_agent_done)
            if self._ended or not (came := await self._chunk()):
                self._ended = True
                line, self._looked = bytes(self._on_agent_done), 0
                self._on_agent_done.clear()
                return line or None
            self._on_agent_done += came

    async def send(self, line: bytes) -> None:
        """Write a line. Waits while the other side does not read.

        Raises:
            ConnectionError: If it reads no more.
        """
        async with self._sending:
            if self.is_closed:
                raise BrokenPipeError("nobody reads any more")
            try:
                await self._write(line + b"\n")
            except (OSError, ValueError) as error:
                self.is_closed = True
                raise BrokenPipeError(f"nobody reads any more: {error}") from error


@contextmanager
def take_over_stdio() -> Generator[tuple[int, int]]:
    """Take standard input and output away from everybody else: prints go to stderr, reads get nothing, and neither is passed on to
    programs. What was is put back in the end.

    Yields:
        The descriptors of the two.
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
async def open_wire(given: int, output_fd: int, most: int = MAX_LINE_BYTES) -> AsyncGenerator[LineTransport]:
    """Lines over two descriptors, which stay open. A file takes the place of a pipe where one was redirected.

    Args:
        given: What is read.
        output_fd: What is written.
        most: Bytes of a line.
    """
    blocking = [(number, os.get_blocking(number)) for number in (given, output_fd)]
    async with AsyncExitStack() as closing:
        chunk = await _open_reader(given, closing)
        put = await _open_writer(output_fd, closing)
        try:
            yield LineTransport(chunk, put, most)
        finally:
            for number, state in blocking:
                os.set_blocking(number, state)


async def _open_reader(number: int, closing: AsyncExitStack) -> Callable[[], Awaitable[bytes]]:
    if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(
        number
    ):  # as /dev/null, for whose input nobody can wait
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


async def _open_writer(number: int, closing: AsyncExitStack) -> Callable[[bytes], Awaitable[None]]:
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
    )  # it closes itself when the reader goes
    return _pipe_writer(asyncio.StreamWriter(transport, protocol, None, loop))


def _pipe_writer(writer: asyncio.StreamWriter) -> Callable[[bytes], Awaitable[None]]:
    writer.transport.set_write_buffer_limits(high=0)  # whoever sends waits until the pipe has it

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write


def _file_writer(output_fd: int) -> Callable[[bytes], Awaitable[None]]:
    def write(data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(output_fd, left) :]

    async def put(data: bytes) -> None:
        await asyncio.to_thread(write, data)

    return put


_TEARDOWN_SECONDS = 5.0
_SIGNALLED = 128


ProtocolHandler = Callable[[LineTransport, "ChatRegistry"], Awaitable[None]]
"""Serves one other side to its end."""


class ChatRegistry:
    """The chats of a server that are open, so that their programs end with the process even where there is no time to close them."""

    def __init__(self) -> None:
        self._chats: set[Chat] = set()

    @asynccontextmanager
    async def open(self, options: ChatOptions) -> AsyncGenerator[Chat]:
        """A chat, as by `Chat.open`."""
        chat: Chat | None = None
        try:
            async with Chat.open(options) as chat:
                self._chats.add(chat)
                yield chat
        finally:
            if chat is not None:
                self._chats.discard(chat)

    def kill_all(self) -> None:
        """Force their programs to end, at once."""
        for chat in list(self._chats):
            chat.kill_all()


def serve_stdio(options: argparse.Namespace, work: ProtocolHandler) -> int:
    """Serve; the exit code.

    Args:
        options: The command line.
        work: Speaks the protocol. It is cancelled by SIGINT, SIGTERM and SIGHUP.
    """
    return run_command(options, lambda _: _serve(options, work))


def _serve(options: argparse.Namespace, work: ProtocolHandler) -> int:
    token, chats = CancelToken(), ChatRegistry()
    with take_over_stdio() as (given, out), GracefulShutdown(token, lambda number: chats.kill_all()) as interrupts:
        asyncio.run(_serve_until_closed(token, given, out, lambda wire: work(wire, chats)))
        code = _SIGNALLED + interrupts.number if interrupts.number else OK
        if options.owns_process:  # whatever may still hold the process, it ends soon
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
            if not isinstance(error, BrokenPipeError):  # the other side has gone: nothing failed
                raise error
