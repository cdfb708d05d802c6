"""The body of an answer, whatever it turns out to be, to events. No I/O: `HttpModel` and the replay of traffic share it."""

from __future__ import annotations

from mainspring.errors import InvalidResponseError, ModelError
from mainspring.events import StreamEvent
from mainspring.models.codec.framing import NdjsonParser, SseParser
from mainspring.models.codec.protocol import WireDecoder

_BOM = b"\xef\xbb\xbf"
_SSE_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How a stream of events begins; anything else is one body."""
MAX_RESPONSE_BYTES = 1 << 28
"""Bytes of an answer. A host that goes on and on would take all memory, and no limit of a run looks at what is not an event yet."""


class ResponseReader:
    """Feeds bytes to a decoder as events of a stream, or as one body if the host did not stream after all.

    A decoder with a true attribute ``lines`` gets each line of the body as an event instead.

    However the bytes are cut into pieces, the events are the same, and so is the error: what came before it is handed out
    first.

    Args:
        decoder: A fresh decoder.

    Attributes:
        decoder: The decoder; its draft is what has arrived.
        error: What is wrong with the answer, once that shows. Raise it when the events before it have been used.
    """

    __slots__ = ("_body", "_frames", "_left", "_whole", "decoder", "error")

    def __init__(self, decoder: WireDecoder) -> None:
        self.decoder = decoder
        self.error: ModelError | None = None
        self._frames: SseParser | NdjsonParser | None = NdjsonParser() if getattr(decoder, "lines", False) else None
        self._whole = False
        self._body: list[bytes] = []
        self._left = MAX_RESPONSE_BYTES

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more bytes; returns the events they complete."""
        out: list[StreamEvent] = []
        self._left -= len(data)
        if self._left < 0:
            self.error = self.error or self._unreadable(
                f"The answer is longer than {MAX_RESPONSE_BYTES >> 20} MB", "too_long"
            )
            return out
        if self._frames is None:
            if not self._looks_like_sse(data):
                return out
            data = b"".join(self._body)
            self._body.clear()
            self._frames = SseParser()
        if self.error is None:
            feed = self.decoder.feed
            try:
                for name, frame in self._frames.feed(data):
                    feed(name, frame, out)
            except (ModelError, RecursionError) as error:
                self.error = self._as_model_error(error)
        return out

    def finish(self) -> list[StreamEvent]:
        """The body has ended; returns the last events."""
        out: list[StreamEvent] = []
        if self.error is None:
            try:
                self._finish(out)
            except (ModelError, RecursionError) as error:
                self.error = self._as_model_error(error)
        return out

    def _as_model_error(self, error: ModelError | RecursionError) -> ModelError:
        """The error; what is nested without end may break any step of the reading."""
        if isinstance(error, ModelError):
            return error
        return self._unreadable("The answer is nested too deep to be read", "not_json")

    def _unreadable(self, text: str, reason: str) -> InvalidResponseError:
        draft = self.decoder.draft
        return InvalidResponseError(text, reason=reason, partial=draft.message() if len(draft) else None)

    def _finish(self, out: list[StreamEvent]) -> None:
        decoder = self.decoder
        if self._frames is None:
            decoder.decode_body(b"".join(self._body).strip().removeprefix(_BOM).strip(), out)
        else:
            for name, frame in self._frames.finish():
                try:
                    decoder.feed(name, frame, out)
                except ModelError as error:
                    if error.reason != "not_json":
                        raise  # A torn last event says no more than that the stream was cut.
        decoder.finish(out)

    def _looks_like_sse(self, data: bytes) -> bool:
        """Whether the body is a stream of events, as far as its first bytes tell; blanks in front, a sign of life, are dropped."""
        if self._whole:
            self._body.append(data)
            return False
        start = (b"".join(self._body) + data).lstrip().removeprefix(_BOM).lstrip()
        self._body = [start]
        if start.startswith(_SSE_FIELDS):
            return True
        self._whole = not any(field.startswith(start) for field in (*_SSE_FIELDS, _BOM))
        return False
