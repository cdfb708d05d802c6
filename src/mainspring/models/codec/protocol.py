"""What a wire protocol is to the rest of the model layer.

Above: `HttpModel` and the replay of recorded traffic. Below: the modules of `wire`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mainspring.events import StreamEvent
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile


class WireDecoder(Protocol):
    """Turns one answer into events. Used once.

    Every method appends the events it saw to ``out`` and raises `ModelError` (with the partial message) if the answer is an
    error or cannot be understood. A class attribute ``lines = True`` says that the protocol streams lines of JSON instead of
    server-sent events.
    """

    draft: MessageBuilder
    """What has arrived."""

    complete: bool
    """Whether nothing of the answer is missing, even if the stream has not ended: its reason to stop is known."""

    ended: bool
    """Whether the provider said that the stream ends here."""

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Take one event of the stream: its name, if it has one, and its data."""
        ...

    def decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        """Take a complete answer that was not streamed."""
        ...

    def finish(self, out: list[StreamEvent]) -> None:
        """The stream has ended: close what is open and add ``Done``, or raise if it was cut."""
        ...


class WireProtocol(Protocol):
    """One way of speaking to models: pure functions from requests to bytes and from bytes to events."""

    name: str
    """As in ``chat_completions``."""

    def url(self, profile: ModelProfile) -> str:
        """Where a request goes."""
        ...

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """The body of a streaming request."""
        ...

    def decoder(self, profile: ModelProfile) -> WireDecoder:
        """A decoder for one answer."""
        ...

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Profiles that leave out what the host refused in this error text, the most likely first."""
        ...
