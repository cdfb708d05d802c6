"""The body of an answer, whatever it turns out to be, to events. No I/O: `HttpModel` and the replay of traffic share it."""

from __future__ import annotations

from mainspring.errors import ModelError
from mainspring.events import StreamEvent
from mainspring.models.protocol import WireDecoder
from mainspring.models.wire.sse import SseParser

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How a stream of events begins; anything else is one body."""


class AnswerReader:
    """Feeds bytes to a decoder as events of a stream, or as one body if the host did not stream after all.

    Args:
        decoder: A fresh decoder.
    """

    __slots__ = ("_body", "_sse", "_whole", "decoder")

    def __init__(self, decoder: WireDecoder) -> None:
        self.decoder = decoder
        self._sse: SseParser | None = None
        self._whole = False
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more bytes; returns the events they complete.

        Raises:
            ModelError: If the answer is an error or cannot be understood.
        """
        out: list[StreamEvent] = []
        if self._sse is None:
            self._body.append(data)
            if self._whole:
                return out
            start = b"".join(self._body).removeprefix(_BOM).lstrip()
            if not start.startswith(_FIELDS):
                self._whole = not any(field.startswith(start) for field in (*_FIELDS, _BOM))
                return out
            self._sse = SseParser()
            data = b"".join(self._body)
            self._body.clear()
        feed = self.decoder.feed
        for name, frame in self._sse.feed(data):
            feed(name, frame, out)
        return out

    def finish(self) -> list[StreamEvent]:
        """The body has ended; returns the last events.

        Raises:
            ModelError: If it was cut off, is an error, or cannot be understood.
        """
        out: list[StreamEvent] = []
        decoder = self.decoder
        if self._sse is None:
            decoder.whole(b"".join(self._body).removeprefix(_BOM).strip(), out)
        else:
            for name, frame in self._sse.finish():
                try:
                    decoder.feed(name, frame, out)
                except ModelError as error:
                    if error.reason != "not_json":
                        raise  # A last event that is torn says no more than that the stream was cut.
        decoder.finish(out)
        return out
