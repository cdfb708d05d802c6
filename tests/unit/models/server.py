"""A small HTTP server that sends exactly the bytes of a test."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Piece = bytes | float | str | asyncio.Event
"""Bytes to send, seconds or an event to wait for, ``close`` (end the connection), or ``reset`` (abort it)."""

Answer = Sequence[Piece]


@dataclass
class Received:
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """The requests and connections of a server."""

    port: int = 0
    scheme: str = "http"
    requests: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    open_connections: int = 0
    most_open: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


def plain(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> Answer:
    """Return a complete response with its length."""
    return [head(status, **{"content-length": str(len(body)), **headers}) + body]


def head(status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def chunked(*pieces: Piece, end: bool = True, **headers: str) -> Answer:
    """Return a chunked response; with ``end=False``, the closing chunk is missing."""
    sent: list[Piece] = [head(**{"content-type": "text/event-stream", "transfer-encoding": "chunked", **headers})]
    sent += [b"%x\r\n%b\r\n" % (len(p), p) if isinstance(p, bytes) else p for p in pieces]
    return [*sent, b"0\r\n\r\n"] if end else sent


@asynccontextmanager
async def serve(
    *answers: Answer | Callable[[Received], Answer], tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    """Serve the responses in order and repeat the last one."""
    seen = Server(scheme="https" if tls else "http")
    remaining = list(answers)
    handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        handlers[task] = writer
        seen.connections += 1
        seen.open_connections += 1
        seen.most_open = max(seen.most_open, seen.open_connections)
        try:
            while (request := await _request(reader)) is not None:
                seen.requests.append(request)
                seen.asked.set()
                answer = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                if not await _send(answer(request) if callable(answer) else answer, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            seen.open_connections -= 1
            seen.lost.set()
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for writer in handlers.values():
            writer.transport.abort()
        await asyncio.gather(*handlers)


async def _send(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send a response. Return False if the connection has ended."""
    for piece in answer:
        if isinstance(piece, bytes):
            writer.write(piece)
            await writer.drain()
        elif isinstance(piece, str):
            if piece == "reset":
                writer.transport.abort()
            return False
        elif not await _pause(piece, reader, writer):
            return False
    return True


async def _pause(piece: float | asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Wait. Return False if the client disconnects."""
    waiting = asyncio.ensure_future(piece.wait() if isinstance(piece, asyncio.Event) else asyncio.sleep(piece, True))
    try:
        while not (reader.at_eof() or writer.transport.is_closing()):
            if (await asyncio.wait({waiting}, timeout=0.02))[0]:
                return True
        return False
    finally:
        waiting.cancel()


async def _request(reader: asyncio.StreamReader) -> Received | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body)


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a state of a server."""
    while not condition():
        await _moment()


async def _moment() -> None:
    await asyncio.sleep(0.005)
