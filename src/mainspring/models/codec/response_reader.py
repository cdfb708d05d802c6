"""Convert the body of a response, in any format, to events. No I/O: shared by `HttpModel` and the replay of traffic."""

from __future__ import annotations

import msgspec

from mainspring.errors import InvalidResponseError, ModelError
from mainspring.events import StreamEvent
from mainspring.messages import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from mainspring.models.codec.framing import NdjsonParser, SseParser
from mainspring.models.codec.protocol import WireDecoder
from mainspring.models.message_builder import MessageBuilder

_BOM = b"\xef\xbb\xbf"
_SSE_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
"""First bytes of an event stream; anything else is a single body."""
MAX_RESPONSE_BYTES = 1 << 28
"""Maximum size of a response on the wire. An endless response would use all memory, and limits of a run only check complete events."""
MAX_CONTENT_SIZE = 1 << 25
"""Maximum characters of a response, and bytes of a single event or of a body that is not streamed."""
MAX_ARGUMENTS_SIZE = 1 << 23
"""Maximum characters of the arguments of a call."""
_MIN_BYTES_TO_NEXT_CHECK = 1 << 20


class _ContentSize:
    """The size of the blocks of a message; each change is counted once."""

    def __init__(self) -> None:
        self._counted = 0
        self._sizes: dict[int, int] = {}

    def measure(self, draft: MessageBuilder) -> tuple[int, int]:
        """Return the characters of all blocks, and those of the longest arguments of a call."""
        sizes = self._sizes
        for index, piece in draft.log[self._counted :]:
            if isinstance(piece, str):
                sizes[index] = sizes.get(index, 0) + len(piece)
            elif index < 0:
                sizes[~index] = max(sizes.get(~index, 0), _block_size(piece))
        self._counted = len(draft.log)
        calls = [size for i, size in sizes.items() if isinstance(draft.block(i), ToolUseBlock)]
        return sum(sizes.values()), max(calls, default=0)


def _block_size(block: ContentBlock) -> int:
    match block:
        case TextBlock():
            return len(block.text)
        case ThinkingBlock():
            return len(block.thinking)
        case ToolUseBlock():
            return len(block.raw_input or msgspec.json.encode(block.input))
        case _:  # An image or encrypted reasoning: only the size of the whole response is limited.
            return 0


class ResponseReader:
    """Passes bytes to a decoder as events of a stream, or as one body if the host did not stream.

    A decoder with a true attribute ``lines`` gets each line of the body as an event instead.

    The chunk boundaries affect neither the events nor the error; events before an error are returned first.

    Args:
        decoder: A new decoder.

    Attributes:
        decoder: The decoder; its draft is the message received so far.
        error: Error of the response, once it is known. Raise it after the events before it are used.
    """

    __slots__ = (
        "_body",
        "_frames",
        "_next_check",
        "_received",
        "_remaining",
        "_size",
        "_is_whole_body",
        "decoder",
        "error",
    )

    def __init__(self, decoder: WireDecoder) -> None:
        self.decoder = decoder
        self.error: ModelError | None = None
        self._frames: SseParser | NdjsonParser | None = NdjsonParser() if getattr(decoder, "lines", False) else None
        self._is_whole_body = False
        self._body: list[bytes] = []
        self._size = _ContentSize()
        self._received = 0  # bytes at the last check
        self._remaining = self._next_check = min(
            MAX_RESPONSE_BYTES, MAX_CONTENT_SIZE, MAX_ARGUMENTS_SIZE
        )  # bytes to the next check

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Parse more bytes; return the completed events."""
        out: list[StreamEvent] = []
        self._remaining -= len(data)
        if self._remaining < 0 and self._is_too_long():
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
        """Handle the end of the body; return the last events."""
        out: list[StreamEvent] = []
        if self.error is None:
            try:
                self._finish(out)
            except (ModelError, RecursionError) as error:
                self.error = self._as_model_error(error)
            else:
                if self._received + self._next_check - self._remaining > MAX_ARGUMENTS_SIZE and self._is_too_long():
                    out.pop()  # the end of a successful response
        return out

    def _is_too_long(self) -> bool:
        """Check the size of the response, and set the error if it is too long.

        Called again after the number of bytes that certainly fit, so that no delta is measured when it arrives.
        """
        self._received += self._next_check - self._remaining
        waiting = sum(map(len, self._body if self._frames is None else self._frames.pending))
        content, arguments = self._size.measure(self.decoder.draft)
        left = {
            f"The response is longer than {MAX_RESPONSE_BYTES >> 20} MB and was stopped": MAX_RESPONSE_BYTES
            - self._received,
            f"The response is longer than {MAX_CONTENT_SIZE >> 20} MB and was stopped": MAX_CONTENT_SIZE
            - max(waiting, content),
            f"The arguments of a tool call are longer than {MAX_ARGUMENTS_SIZE >> 20} MB and were stopped": MAX_ARGUMENTS_SIZE
            - arguments,
        }
        problem = min(left, key=lambda text: left[text])
        if left[problem] < 0:
            self.error = self.error or self._unreadable(problem, "too_long")
        self._remaining = self._next_check = max(left[problem], _MIN_BYTES_TO_NEXT_CHECK)
        return self.error is not None

    def _as_model_error(self, error: ModelError | RecursionError) -> ModelError:
        """Return the error; excessive nesting can break any step of the decoding."""
        if isinstance(error, ModelError):
            return error
        return self._unreadable("The response is nested too deeply", "not_json")

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
                        raise  # An incomplete last event only means that the stream was cut off.
        decoder.finish(out)

    def _looks_like_sse(self, data: bytes) -> bool:
        """Return True if the first bytes start an event stream; leading whitespace, a keep-alive, is dropped."""
        if self._is_whole_body:
            self._body.append(data)
            return False
        start = (b"".join(self._body) + data).lstrip().removeprefix(_BOM).lstrip()
        self._body = [start]
        if start.startswith(_SSE_FIELDS):
            return True
        self._is_whole_body = not any(field.startswith(start) for field in (*_SSE_FIELDS, _BOM))
        return False
