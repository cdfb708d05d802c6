"""Decompression of response bodies."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from mainspring.errors import NetworkError
from mainspring.models.transport.errors import connection_lost_error, host_and_port

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
        self._check_host = host
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
                    f"{self._check_host} sent an unsupported Content-Encoding, {self._packing[:40]!r}. A proxy or gateway may be "
                    "compressing responses; turn that off.",
                    reason="packed",
                    retryable=False,
                )
