"""Framing of response bodies: HTTP/1.1 marks the end by chunks, a length, or a closed connection (RFC 9112, 6.3)."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from mainspring.errors import NetworkError
from mainspring.models.transport.errors import connection_lost_error, host_and_port

_MAX_LINE_BYTES = 1 << 14
_MAX_TRAILERS = 1 << 16
_TRAILER = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+:[^\0\v\f]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BodyFramingError(Exception):
    """The received bytes are not a body, or the body is incomplete."""


class BodyFraming(Protocol):
    """Extracts the body from received bytes."""

    @property
    def done(self) -> bool:
        """Return True at the end of the body."""
        ...

    @property
    def trailing_data(self) -> bytes:
        """Return the bytes after the end of the body."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Parse received bytes; return body bytes.

        Raises:
            BodyFramingError: The bytes are invalid.
        """
        ...

    def close(self) -> None:
        """Handle the end of the connection.

        Raises:
            BodyFramingError: The body is incomplete.
        """
        ...


class ContentLengthBody:
    """A body of known length."""

    __slots__ = ("_remaining", "trailing_data")

    def __init__(self, length: int) -> None:
        self._remaining = length
        self.trailing_data = b""

    @property
    def done(self) -> bool:
        """Return True at the end of the body."""
        return not self._remaining

    def feed(self, data: bytes) -> bytes:
        """Parse received bytes; return body bytes."""
        if len(data) > self._remaining:
            self.trailing_data += data[self._remaining :]
            data = data[: self._remaining]
        self._remaining -= len(data)
        return data

    def close(self) -> None:
        """Handle the end of the connection."""
        if self._remaining:
            raise BodyFramingError(f"{self._remaining} bytes are missing")


class CloseDelimitedBody:
    """A body that ends with the connection."""

    __slots__ = ("done", "trailing_data")

    def __init__(self) -> None:
        self.done = False
        self.trailing_data = b""

    def feed(self, data: bytes) -> bytes:
        """Return the received bytes."""
        return data

    def close(self) -> None:
        """Handle the end of the connection."""
        self.done = True


class ChunkedBody:
    """A body in chunks, each preceded by its length."""

    __slots__ = ("_ended", "_held", "_remaining", "_trailers", "done", "trailing_data")

    def __init__(self) -> None:
        self.done = False
        self.trailing_data = b""
        self._held = b""
        self._remaining = 0  # remaining bytes of the current chunk, including its line end
        self._ended = False  # the chunk of length zero was read; trailers follow
        self._trailers = 0

    def feed(self, data: bytes) -> bytes:
        """Parse received bytes; return body bytes."""
        if self._held:
            data = self._held + data
            self._held = b""
        found: list[bytes] = []
        at = 0
        while not self.done:
            if self._remaining:
                at = self._content(data, at, found)
                if self._remaining:
                    break
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                self._line(data[at:end])
                at = end + 2
        self._keep(data[at:])
        return found[0] if len(found) == 1 else b"".join(found)

    def _content(self, data: bytes, at: int, found: list[bytes]) -> int:
        """Copy the bytes of a chunk; return the next position."""
        end = at + self._remaining
        if content := data[at : end - 2]:
            found.append(content)
        if len(data) >= end:
            if data[end - 2 : end] != b"\r\n":
                raise BodyFramingError("a chunk is longer than its length")
            self._remaining = 0
            return end
        self._remaining -= len(content)
        return at + len(content)

    def _line(self, line: bytes) -> None:
        """Return the line before a chunk, or a trailer."""
        if len(line) > _MAX_LINE_BYTES or b"\n" in line or b"\r" in line:  # Other parsers may see two lines here.
            raise BodyFramingError("a line is invalid or too long")
        if self._ended:
            self._trailer(line)
            return
        size = line.partition(b";")[0].rstrip(b" \t")
        if not size or len(size) > 20 or not _HEX.issuperset(size):
            raise BodyFramingError("the length of a chunk is not a number")
        length = int(size, 16)
        if length:
            self._remaining = length + 2
        else:
            self._ended = True

    def _trailer(self, line: bytes) -> None:
        """Check a trailer. Its value is ignored, but an invalid trailer means that the body is corrupt."""
        self._trailers += len(line)
        if self._trailers > _MAX_TRAILERS or (line and not _TRAILER.fullmatch(line)):
            raise BodyFramingError("the line after the last chunk is not a trailer")
        self.done = not line

    def _keep(self, rest: bytes) -> None:
        if self.done:
            self.trailing_data += rest
        elif not self._remaining and len(rest) > _MAX_LINE_BYTES:
            raise BodyFramingError("a line is too long")
        else:
            self._held = rest

    def close(self) -> None:
        """Handle the end of the connection."""
        if not self.done:
            raise BodyFramingError("the last chunk is missing")


_MAX_OUTPUT_CHUNK = 1 << 18
"""Maximum number of bytes per decompression step: a small body can expand enormously."""


def decompress(chunks: AsyncGenerator[bytes], packings: str, url: str) -> AsyncGenerator[bytes]:
    """Decompress a body.

    Args:
        chunks: Received chunks of the body.
        packings: Value of the header ``Content-Encoding``, in the order of compression.
        url: URL of the request, for errors.
    """
    for packing in reversed([name.strip().lower() for name in packings.split(",")]):
        if packing and packing != "identity":
            chunks = _decompress_one(chunks, packing, url)
    return chunks


async def _decompress_one(chunks: AsyncGenerator[bytes], packing: str, url: str) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        body = _CompressedBody(packing, host_and_port(url))
        try:
            async for chunk in chunks:
                for piece in body.feed(chunk):
                    yield piece
                    await asyncio.sleep(0)
            if last := body.close():
                yield last
        except zlib.error as error:
            raise connection_lost_error(url, error, response_started=True) from error


class _Decompressor(Protocol):
    """Type of zlib's decompressor, which has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _CompressedBody:
    """A compressed body. gzip may have several members and zero padding."""

    def __init__(self, packing: str, host: str) -> None:
        self._packing = packing
        self._host = host
        self._repeats = packing in ("gzip", "x-gzip")
        self._unpack: _Decompressor | None = None
        self._is_finished = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress received bytes."""
        while chunk := self._after_end(chunk):
            if self._unpack is None:
                self._unpack = self._begin(chunk)
            yield self._unpack.decompress(chunk, _MAX_OUTPUT_CHUNK)
            chunk = self._unpack.unconsumed_tail
            if self._unpack.eof:
                chunk = self._unpack.unused_data
                self._unpack = None
                self._is_finished = True

    def _after_end(self, chunk: bytes) -> bytes:
        """Return the bytes to decompress; after an end, only another gzip member is valid."""
        if not self._is_finished:
            return chunk
        chunk = chunk.lstrip(b"\0")
        if chunk and not self._repeats:
            raise zlib.error("unexpected data after the end")
        self._is_finished = not chunk
        return chunk

    def close(self) -> bytes:
        """Return the remaining bytes."""
        if self._unpack is None:
            return b""
        last = self._unpack.flush()
        if not self._unpack.eof:
            raise zlib.error("the compressed data is incomplete")
        return last

    def _begin(self, chunk: bytes) -> _Decompressor:
        match self._packing:
            case "gzip" | "x-gzip":
                return zlib.decompressobj(zlib.MAX_WBITS | 16)
            case "deflate":  # deflate should have a zlib header, which some hosts omit
                return zlib.decompressobj(zlib.MAX_WBITS if chunk[0] & 15 == 8 else -zlib.MAX_WBITS)
            case _:
                raise NetworkError(
                    f"{self._host} sent an unsupported Content-Encoding, {self._packing[:40]!r}. A proxy or gateway may be "
                    "compressing responses; turn that off.",
                    reason="packed",
                    retryable=False,
                )
