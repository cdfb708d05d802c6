"""Where the body of an answer ends: HTTP/1.1 says it by chunks, by a length, or by closing the connection (RFC 9112, 6.3)."""

from __future__ import annotations

import re
from typing import Protocol

_LONGEST_LINE = 1 << 14
_MOST_TRAILERS = 1 << 16
_TRAILER = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+:[^\0\v\f]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BodyFramingError(Exception):
    """What came is no body, or not all of one."""


class BodyFraming(Protocol):
    """Takes what arrives, gives what of it is body."""

    @property
    def done(self) -> bool:
        """Whether the body is over."""
        ...

    @property
    def rest(self) -> bytes:
        """What came behind the end of the body."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take what arrived.

        Raises:
            FramingError: If it cannot be.
        """
        ...

    def close(self) -> None:
        """The connection was closed.

        Raises:
            FramingError: If something is missing.
        """
        ...


class ContentLengthBody:
    """A body of a known length."""

    __slots__ = ("_left", "rest")

    def __init__(self, length: int) -> None:
        self._left = length
        self.rest = b""

    @property
    def done(self) -> bool:
        """Whether the body is over."""
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """Take what arrived."""
        if len(data) > self._left:
            self.rest += data[self._left :]
            data = data[: self._left]
        self._left -= len(data)
        return data

    def close(self) -> None:
        """The connection was closed."""
        if self._left:
            raise BodyFramingError(f"{self._left} bytes are missing")


class CloseDelimitedBody:
    """A body that is over when the connection is."""

    __slots__ = ("done", "rest")

    def __init__(self) -> None:
        self.done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take what arrived."""
        return data

    def close(self) -> None:
        """The connection was closed."""
        self.done = True


class ChunkedBody:
    """A body in chunks, each with its length before it."""

    __slots__ = ("_ended", "_held", "_left", "_trailers", "done", "rest")

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self._held = b""
        self._left = 0  # bytes of the chunk that is being read, with the line end behind it
        self._ended = False  # the chunk of length zero was there; what follows are trailers
        self._trailers = 0

    def feed(self, data: bytes) -> bytes:
        """Take what arrived."""
        if self._held:
            data = self._held + data
            self._held = b""
        found: list[bytes] = []
        at = 0
        while not self.done:
            if self._left:
                at = self._content(data, at, found)
                if self._left:
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
        """Take bytes of a chunk; where reading goes on."""
        end = at + self._left
        if content := data[at : end - 2]:
            found.append(content)
        if len(data) >= end:
            if data[end - 2 : end] != b"\r\n":
                raise BodyFramingError("a chunk is longer than was said")
            self._left = 0
            return end
        self._left -= len(content)
        return at + len(content)

    def _line(self, line: bytes) -> None:
        """Take the line before a chunk, or one behind the last."""
        if len(line) > _LONGEST_LINE or b"\n" in line or b"\r" in line:  # others may see two lines there
            raise BodyFramingError("a line is too long, or is none")
        if self._ended:
            self._trailer(line)
            return
        size = line.partition(b";")[0].rstrip(b" \t")
        if not size or len(size) > 20 or not _HEX.issuperset(size):
            raise BodyFramingError("the length of a chunk is no number")
        length = int(size, 16)
        if length:
            self._left = length + 2
        else:
            self._ended = True

    def _trailer(self, line: bytes) -> None:
        """Take a line behind the last chunk. Nobody asks for what it says, but what is none is the end of something else."""
        self._trailers += len(line)
        if self._trailers > _MOST_TRAILERS or (line and not _TRAILER.fullmatch(line)):
            raise BodyFramingError("what follows the last chunk is no trailer")
        self.done = not line

    def _keep(self, left: bytes) -> None:
        if self.done:
            self.rest += left
        elif not self._left and len(left) > _LONGEST_LINE:
            raise BodyFramingError("a line is too long")
        else:
            self._held = left

    def close(self) -> None:
        """The connection was closed."""
        if not self.done:
            raise BodyFramingError("the last chunk is missing")
