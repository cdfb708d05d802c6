"""Encoded bytes of a conversation, cached from request to request.

Each message is encoded once per receiver and stores its bytes; the joined bytes of all messages that can no longer change are
stored in the conversation's `EncodingCache`. A turn costs its new messages plus one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.messages import Message
from mainspring.models.codec.normalize import iter_complete_turns, rename_repeated_calls
from mainspring.models.port import EncodingCache

MessageEncoder = Callable[[Message], bytes]
"""Function that encodes one repaired message as JSON objects, each with a leading comma; empty if nothing is sent."""

MessageBoundary = tuple[bytes, bytes]
"""The end of a message and the start of the next that are merged into one message; a comma replaces both.

For protocols whose roles alternate. The bytes must not occur inside a message, so they contain whitespace that encoded values
do not have.
"""


class MessageEncodingCache:
    """The encoded messages of one conversation for one receiver.

    Attributes:
        key: Identifies the receiver: protocol, provider, model, and everything else that affects the bytes.
        head: The encoded head of the request and its source; belongs to the protocol.
    """

    __slots__ = ("_bytes", "_call_ids", "_seen", "head", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self.head: tuple[Any, bytes] | None = None
        self._seen: list[Message] = []
        self._bytes = bytearray()
        self._call_ids: set[str] = set()

    @classmethod
    def get_or_create(cls, scratch: EncodingCache | None, slot: str, key: str) -> MessageEncodingCache:
        """Return the history stored in ``scratch`` under ``slot``, or a new one if the receiver has changed."""
        if scratch is None:
            return cls(key)
        history = scratch.entries.get(slot)
        if history is None or history.key != key:
            history = scratch.entries[slot] = cls(key)
        return history

    def encode(
        self, messages: Sequence[Message], encode: MessageEncoder, seams: Sequence[MessageBoundary] = ()
    ) -> tuple[bytearray, bytes]:
        """Return all messages as bytes: the stable part, and the part that may change with the next message.

        The first part is valid until the next call. Each message starts with a comma.

        Args:
            messages: The conversation.
            encode: Function that encodes one repaired message.
            seams: Boundaries at which adjacent messages are merged; the caller merges at the boundary between the two parts
                (`merge_at_boundary`).
        """
        seen, stored, key = self._seen, self._bytes, self.key
        done = len(seen)
        if messages[:done] != seen:  # Compares identities, at the speed of C.
            seen.clear()
            stored.clear()
            self._call_ids.clear()
            done = 0
        tail = b""
        for complete, end in iter_complete_turns(messages, done):
            unit = rename_repeated_calls(complete, self._call_ids)
            encoded = b"".join([_encoded(message, key, encode) for message in unit])
            for before, behind in seams:
                encoded = encoded.replace(before + behind, b",")
            if end > done:
                cut, encoded = merge_at_boundary(stored, encoded, seams)
                if cut:
                    del stored[-cut:]
                stored += encoded
                done = end
                self._call_ids.update([call.id for message in unit for call in message.tool_uses])
            else:
                tail = encoded
        seen.extend(messages[len(seen) : done])
        return stored, tail


def merge_at_boundary(
    first: bytearray | bytes | memoryview, second: bytes, seams: Sequence[MessageBoundary]
) -> tuple[int, bytes]:
    """Merge two encoded messages; return the number of bytes to drop from the first, and the adjusted second."""
    for before, behind in seams:
        if second.startswith(behind) and first[-len(before) :] == before:
            return len(before), b"," + second[len(behind) :]
    return 0, second


def _encoded(message: Message, key: str, encode: MessageEncoder) -> bytes:
    cache: dict[str, Any] = message.__dict__  # pyright: ignore[reportAssignmentType]
    data = cache.get(key)
    if data is None:
        data = cache[key] = encode(message)
    return data
