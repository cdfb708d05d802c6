"""Messages of the language server protocol as bytes: a header with the length, then JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.tools.diagnostics.protocol import Message

MOST_BYTES = 32 << 20
"""A longer message is taken for a fault."""
_MOST_HEADER = 4096


class FramingError(ValueError):
    """What came is no message."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    body = msgspec.json.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class Decoder:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now.

        Raises:
            FramingError: If there is no length, it is too big, or the content is no JSON object.
        """
        self._held += data
        found: list[Message] = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        if self._length is None:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                if len(self._held) > _MOST_HEADER:
                    raise FramingError("a header without an end")
                return None
            self._length = _length(bytes(self._held[:end]))
            del self._held[: end + 4]
        if len(self._held) < self._length:
            return None
        body = bytes(self._held[: self._length])
        del self._held[: self._length]
        self._length = None
        try:
            return msgspec.json.decode(body, type=Message)
        except msgspec.DecodeError as e:
            raise FramingError(str(e)) from None


def _length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
            if length <= MOST_BYTES:
                return length
            raise FramingError(f"a message of {length} bytes")
    raise FramingError("a header without a length")
