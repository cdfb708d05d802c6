"""Bodies that a host has packed although nobody asked for it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from mainspring.errors import NetworkError
from mainspring.models.transport.errors import connection_lost_error, host_and_port

_MAX_OUTPUT_CHUNK = 1 << 18
"""Bytes that are unpacked in one go: a little may be packed that is enormous."""


def decompress(chunks: AsyncGenerator[bytes], packings: str, url: str) -> AsyncGenerator[bytes]:
    """What was packed.

    Args:
        chunks: The body as it came.
        packings: The header ``Content-Encoding``: what was done to it, in this order.
        url: Where it came from, for errors.
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
            raise connection_lost_error(url, error, begun=True) from error


class _Decompressor(Protocol):
    """What zlib makes, which has no name of its own."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _CompressedBody:
    """What is packed in one way. In gzip parts may follow one another, and zeros may fill it up."""

    def __init__(self, packing: str, host: str) -> None:
        self._packing = packing
        self._check_host = host
        self._repeats = packing in ("gzip", "x-gzip")
        self._unpack: _Decompressor | None = None
        self._over = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack what arrived."""
        while chunk := self._after_end(chunk):
            if self._unpack is None:
                self._unpack = self._begin(chunk)
            yield self._unpack.decompress(chunk, _MAX_OUTPUT_CHUNK)
            chunk = self._unpack.unconsumed_tail
            if self._unpack.eof:
                chunk = self._unpack.unused_data
                self._unpack = None
                self._over = True

    def _after_end(self, chunk: bytes) -> bytes:
        """What is to be unpacked; behind an end that is only another part."""
        if not self._over:
            return chunk
        chunk = chunk.lstrip(b"\0")
        if chunk and not self._repeats:
            raise zlib.error("something follows the end")
        self._over = not chunk
        return chunk

    def close(self) -> bytes:
        """What is left at the end."""
        if self._unpack is None:
            return b""
        last = self._unpack.flush()
        if not self._unpack.eof:
            raise zlib.error("the end is missing")
        return last

    def _begin(self, chunk: bytes) -> _Decompressor:
        match self._packing:
            case "gzip" | "x-gzip":
                return zlib.decompressobj(zlib.MAX_WBITS | 16)
            case "deflate":  # meant with a head of its own, which some leave out
                return zlib.decompressobj(zlib.MAX_WBITS if chunk[0] & 15 == 8 else -zlib.MAX_WBITS)
            case _:
                raise NetworkError(
                    f"{self._check_host} packed its answer as {self._packing[:40]!r}, which was not asked for and cannot be "
                    "read: look for a proxy or gateway before it that packs answers",
                    reason="packed",
                    retryable=False,
                )
