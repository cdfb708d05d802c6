"""Interface of a wire protocol.

Used by `HttpModel` and the replay of recorded traffic; implemented by the modules of `wire`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mainspring.events import StreamEvent
from mainspring.messages import ToolDefinition
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile


class WireDecoder(Protocol):
    """Converts one response to events. Used once.

    Every method appends its events to ``out`` and raises `ModelError` (with the partial message) if the response is an error or
    cannot be decoded. A class attribute ``lines = True`` declares that the protocol streams lines of JSON instead of
    server-sent events.
    """

    draft: MessageBuilder
    """Message received so far."""

    complete: bool
    """Whether the response is complete, even if the stream has not ended: its stop reason is known."""

    ended: bool
    """Whether the provider marked the end of the stream."""

    tools: Sequence[ToolDefinition]
    """The tools of the request, to recognize calls that a server left in the text; set before the first event."""

    has_unparsed_calls: bool
    """Whether the text contains markup of calls that could not be read as calls."""

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one event of the stream: its name, if any, and its data."""
        ...

    def decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        """Decode a complete response that was not streamed."""
        ...

    def finish(self, out: list[StreamEvent]) -> None:
        """Handle the end of the stream: close open blocks and add ``Done``, or raise if the stream is incomplete."""
        ...


class WireProtocol(Protocol):
    """A wire protocol: pure functions from requests to bytes and from bytes to events."""

    name: str
    """Name of the protocol, for example ``chat_completions``."""

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        ...

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the body of a streaming request."""
        ...

    def decoder(self, profile: ModelProfile) -> WireDecoder:
        """Return a decoder for one response."""
        ...

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent, because the protocol or the host does not support them."""
        ...

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the host rejected in this error text, the most likely first."""
        ...
