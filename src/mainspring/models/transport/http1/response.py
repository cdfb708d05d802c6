"""Parsing and decompression of responses.

httptools (llhttp) parses heads and bodies; this module adds limits and rejects ambiguous responses.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from httptools import HttpParserError, HttpResponseParser

from mainspring.errors import NetworkError
from mainspring.models.transport.errors import connection_lost_error, host_and_port

_MAX_HEAD_BYTES = 1 << 18
_MAX_FRAMING_BYTES = 1 << 16
"""Maximum number of bytes without data of the body, for example, in a line before a chunk or in trailers."""


class MalformedResponseError(Exception):
    """The received bytes are not a response, or the response is incomplete."""


class ResponseParser:
    """Parses the response to a request. Informational responses before it are skipped.

    Attributes:
        status: HTTP status; 0 until the head is complete.
        headers: Headers with names in lower case.
        is_complete: Whether the end of the body was received.

    Args:
        expects_body: Whether the response may have a body.
    """

    def __init__(self, *, expects_body: bool) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False
        self._expects_body = expects_body
        self._keep_alive = False
        self._ends_with_connection = False
        self._body: list[bytes] = []
        self._error: Exception | None = None
        self._framing_bytes = 0  # received since the last data of the body, or since the start of the head
        self.on_body = self._body.append if expects_body else self._reject_data
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,  # Content-Length in addition to chunks: it is ignored.
            lenient_spaces_after_chunk_size=True,
            lenient_optional_cr_before_lf=True,  # In heads only.
        )

    @property
    def can_keep_alive(self) -> bool:
        """Return True if the response was read to its end and the connection can be used for another request."""
        return self.is_complete and self._keep_alive and not self._body

    def feed(self, data: bytes) -> None:
        """Parse received bytes.

        Raises:
            MalformedResponseError: The head is invalid. An invalid body raises when its valid part was taken.
        """
        if self._parser is None:  # The response ended before.
            self._keep_alive = False
            return
        self._framing_bytes += len(data)
        try:
            self._parser.feed_data(data)
            if self._body:
                self._framing_bytes = 0
            elif self._framing_bytes > (_MAX_FRAMING_BYTES if self.status else _MAX_HEAD_BYTES):
                raise MalformedResponseError("the head, the line before a chunk, or the trailers are too long")
        except (HttpParserError, MalformedResponseError) as error:
            if self.is_complete:  # Data follows the end.
                self._keep_alive = False
            elif self.status:
                self._error = error
            else:
                raise MalformedResponseError(str(error)) from error
        if self.is_complete:
            self._parser = None  # It refers back to this object.

    def take_body(self) -> bytes:
        """Return the body data received since the last call, if any.

        Raises:
            MalformedResponseError: The body is invalid after this part.
        """
        body = self._body
        if body:
            data = body[0] if len(body) == 1 else b"".join(body)
            body.clear()
            return data
        if self._error is not None:
            raise MalformedResponseError(str(self._error)) from self._error
        return b""

    def close(self) -> None:
        """Handle the end of the connection.

        Raises:
            MalformedResponseError: The body is incomplete.
        """
        if not self._ends_with_connection:
            raise MalformedResponseError("the end of the body is missing")
        self.is_complete = True

    def on_message_begin(self) -> None:
        """Stop at a second response: it does not belong to this request."""
        if self.is_complete:
            raise MalformedResponseError("data follows the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers are ignored."""
        if not self.status:
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Determine the end of the body."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status == 101 or status < 100:
            raise MalformedResponseError(f"unexpected status {status}: no other protocol was requested")
        self._framing_bytes = 0
        if status < 200:
            self.headers.clear()
            return
        if self._body:
            raise MalformedResponseError("an informational response has a body")
        framing = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if framing not in ([], [b"chunked"]):
            raise MalformedResponseError("the transfer coding is not supported")
        has_length = any(name == b"content-length" for name, _ in self.headers)
        self.status = status
        self._ends_with_connection = not framing and not has_length
        # With both, other parsers may have read the end of the body differently (RFC 9112, 6.3).
        is_ambiguous = bool(framing) and has_length
        self._keep_alive = (
            self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1" and not is_ambiguous
        )
        self.is_complete = not self._expects_body
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=False)

    def on_message_complete(self) -> None:
        """Mark the end of the response, unless it was informational."""
        self.is_complete = self.status > 0

    def _reject_data(self, data: bytes) -> None:
        raise MalformedResponseError("the response has a body")


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
