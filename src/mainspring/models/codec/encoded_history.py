"""Encode-once: the bytes of a conversation, kept from request to request.

Each message is encoded once for each receiver and keeps its bytes; the joined bytes of all that cannot change any more are
kept in the conversation's `Scratch`. A turn costs what it adds plus one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.messages import Message
from mainspring.models.codec.normalize import iter_complete_turns
from mainspring.models.port import EncodingCache

MessageEncoder = Callable[[Message], bytes]
"""One repaired message as JSON objects, each with a comma before it; empty if there is nothing to send."""

MessageBoundary = tuple[bytes, bytes]
"""How one message ends and the next begins where the two are to become one; a comma takes the place of both.

For protocols whose roles alternate. The bytes must not occur inside a message, so they hold white space that encoded values
do not have.
"""


class MessageEncodingCache:
    """The encoded messages of one conversation for one receiver.

    Attributes:
        key: Names the receiver: protocol, provider, model and whatever else the bytes depend on.
        head: The encoded head of the request, and what it was made of; belongs to the protocol.
    """

    __slots__ = ("_bytes", "_seen", "head", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self.head: tuple[Any, bytes] | None = None
        self._seen: list[Message] = []
        self._bytes = bytearray()

    @classmethod
    def get_or_create(cls, scratch: EncodingCache | None, slot: str, key: str) -> MessageEncodingCache:
        """The history that ``scratch`` keeps under ``slot``, or a new one if it is for another receiver."""
        if scratch is None:
            return cls(key)
        history = scratch.entries.get(slot)
        if history is None or history.key != key:
            history = scratch.entries[slot] = cls(key)
        return history

    def encode(
        self, messages: Sequence[Message], encode: MessageEncoder, seams: Sequence[MessageBoundary] = ()
    ) -> tuple[bytearray, bytes]:
        """All messages as bytes: what is kept, and what may change with the next message.

        The first is valid until the next call. A comma stands before each message.

        Args:
            messages: The conversation.
            encode: Encodes one repaired message.
            seams: Where neighbours become one message; between the two pieces returned that is left to the caller (`met`).
        """
        seen, stored, key = self._seen, self._bytes, self.key
        done = len(seen)
        if messages[:done] != seen:  # Compares identities, at the speed of C.
            seen.clear()
            stored.clear()
            done = 0
        tail = b""
        for unit, end in iter_complete_turns(messages, done):
            encoded = b"".join([_encoded(message, key, encode) for message in unit])
            for before, behind in seams:
                encoded = encoded.replace(before + behind, b",")
            if end > done:
                cut, encoded = merge_at_boundary(stored, encoded, seams)
                if cut:
                    del stored[-cut:]
                stored += encoded
                done = end
            else:
                tail = encoded
        seen.extend(messages[len(seen) : done])
        return stored, tail


def merge_at_boundary(
    first: bytearray | bytes | memoryview, second: bytes, seams: Sequence[MessageBoundary]
) -> tuple[int, bytes]:
    """How two pieces meet: how many bytes the end of the first loses, and the second as it then reads."""
    for before, behind in seams:
        if second.startswith(behind) and first[-len(before) :] == before:
            return len(before), b"," + second[len(behind) :]
    return 0, second


def _encoded(message: Message, key: str, encode: MessageEncoder) -> bytes:
    kept: dict[str, Any] = message.__dict__  # pyright: ignore[reportAssignmentType]
    data = kept.get(key)
    if data is None:
        data = kept[key] = encode(message)
    return data
