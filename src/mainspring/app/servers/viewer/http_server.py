"""As much of an HTTP server as the viewer needs: this machine only, small requests, nobody waits for ever."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

_HEAD = 16 * 1024
_BODY = 32 * 1024 * 1024
_DIGITS = 12  # of a length; Python itself refuses thousands
_IDLE_SECONDS = 60.0
_CONNECTIONS = 64
_REASONS = {
    200: "OK", 204: "No Content", 304: "Not Modified", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 413: "Content Too Large", 415: "Unsupported Media Type", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class Request(Struct, frozen=True):
    """A request; names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Response(Struct, frozen=True):
    """What is answered."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}


class Refused(Exception):
    """The request cannot be read; it is answered with this status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """Listens on the loopback address.

    Args:
        handler: Answers requests. Must not raise.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int) -> int:
        """Listen; the port, which is another than asked for where that was 0.

        Raises:
            OSError: If the port is taken.
        """
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def aclose(self) -> None:
        """Stop, and end what is open."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > _CONNECTIONS:
                await _answer(writer, Response(503, b"too many connections"), keep=False)
                return
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # whoever was there has gone, or we go
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether another may follow."""
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                request = await _read(reader)
        except Refused as refused:
            await _answer(writer, Response(refused.status, str(refused).encode()), keep=False)
            return False
        response = await self._handler(request)
        keep = request.headers.get("connection", "").lower() != "close"
        await _answer(writer, response, keep=keep, head_only=request.method == "HEAD")
        return keep


async def _read(reader: asyncio.StreamReader) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused(413, "the headers are too long") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused(400, "this is no HTTP request")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or name.strip().lower() in headers and name.strip().lower() in {"host", "content-length"}:
            raise Refused(400, "a header cannot be read")
        headers[name.strip().lower()] = value.strip()
    path = _path(parts[1])
    return Request(parts[0].upper(), path, headers, await _body(reader, headers))


def _path(target: str) -> str:
    """The path that is asked for, without what stands behind it."""
    try:
        path = urlsplit(target).path
    except ValueError:
        path = ""
    if not path.startswith("/"):
        raise Refused(400, "the address cannot be read")
    return path


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        data = await _chunks(reader)
    else:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise Refused(400, "the length cannot be read")
        if len(length) > _DIGITS or int(length) > _BODY:
            raise Refused(413, "the request is too large")
        data = await reader.readexactly(int(length))
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding in {"identity", ""}:
        return data
    if encoding not in {"gzip", "deflate"}:
        raise Refused(415, f"the encoding {encoding!r} cannot be read")
    return _decompress(data, encoding)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
            length = int(line, 16)
        except (ValueError, asyncio.LimitOverrunError):
            raise Refused(400, "a chunk cannot be read") from None
        size += length
        if length < 0 or size > _BODY:
            raise Refused(413, "the request is too large")
        if length == 0:
            await _skip_trailers(reader)
            return b"".join(parts)
        parts.append(await reader.readexactly(length))
        await reader.readexactly(2)


async def _skip_trailers(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    except asyncio.LimitOverrunError:
        raise Refused(413, "the headers are too long") from None


def _decompress(data: bytes, encoding: str) -> bytes:
    unpack = zlib.decompressobj(31 if encoding == "gzip" else 15)
    try:
        made = unpack.decompress(data, _BODY)
    except zlib.error as error:
        raise Refused(400, f"the request cannot be unpacked: {error}") from None
    if unpack.unconsumed_tail:
        raise Refused(413, "the request is too large")
    return made


async def _answer(writer: asyncio.StreamWriter, response: Response, *, keep: bool, head_only: bool = False) -> None:
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'OK')}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *[f"{name}: {value}" for name, value in response.headers.items()],
    ]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (b"" if head_only else response.body))
    await writer.drain()
