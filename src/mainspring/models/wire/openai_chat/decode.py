"""Decode Chat Completions responses, streamed or complete, with the quirks of the many hosts of this protocol.

Reasoning may arrive in several fields but becomes one block. The signature of a thinking block contains how to send it back: the
name of its field, or the JSON of the ``reasoning_details`` entry without its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.messages import Message, StopReason
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.codec.stream_decoder import StreamDecoder
from mainspring.models.json_values import DECODE_ERRORS, as_dict, as_dicts, to_json
from mainspring.models.message_builder import MessageBuilder, parse_call
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat.payloads import (
    CallDelta,
    ChatChunk,
    ChatDelta,
    Choice,
    FunctionDelta,
    LenientChunkParser,
    decode_chunk,
)

if TYPE_CHECKING:
    from mainspring.models.codec.cumulative_text import CumulativeText
    from mainspring.models.codec.text_markup import MarkupText
else:
    CumulativeText = lazy_function("mainspring.models.codec.cumulative_text", "CumulativeText")
    MarkupText = lazy_function("mainspring.models.codec.text_markup", "MarkupText")


class _Call:
    """An open call.

    Attributes:
        block: Index of its block in the draft.
        id: Call ID, generated if the host sent none (``given`` is false then).
        index: Index sent by the host, if any.
        pieces: Argument text; ``length`` is its length.
        signature: Data to send back with the call.
    """

    __slots__ = ("block", "given", "id", "index", "length", "name", "pieces", "signature")

    def __init__(self, block: int, id: str, name: str, index: int | None, *, given: bool) -> None:
        self.block = block
        self.id = id
        self.given = given
        self.name = name
        self.index = index
        self.pieces: list[str] = []
        self.length = 0
        self.signature: str | None = None

    def is_complete(self) -> bool:
        """Return True if the arguments are a complete object."""
        if not self.pieces or self.pieces[-1].rstrip()[-1:] not in ("", "}"):
            return False  # Called for every delta of hosts that repeat the name: text without a closing brace need not be parsed.
        return parse_call("", "", "".join(self.pieces)).raw_input is None

    def holds(self, text: str) -> bool:
        """Return True if ``text`` equals the arguments so far and they are complete."""
        return len(text) == self.length and text == "".join(self.pieces) and self.is_complete()


class ToolCallAssembler:
    """The tool calls of one response.

    Attributes:
        response_id: Provider's ID of the response; IDs of calls without an ID are derived from it, so that decoding the
            same response twice creates the same IDs.
    """

    __slots__ = ("_by_given_id", "_calls", "_draft", "_ids", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._calls: list[_Call] = []
        self._by_given_id: dict[str, _Call] = {}
        self._ids: set[str] = set()  # of all calls, received or generated
        self.response_id = ""

    @property
    def count(self) -> int:
        """Return the number of calls."""
        return len(self._calls)

    def add(self, pieces: list[CallDelta], out: list[StreamEvent], *, is_complete: bool) -> None:
        """Add the deltas of one chunk; with ``whole`` each is a separate call."""
        for piece in pieces:
            function = _function(piece)
            alone = is_complete or (len(pieces) > 1 and not piece.id and piece.index is None and bool(function.name))
            call = None if alone else self._find(piece, function)
            if call is None:
                call = self._open(piece.id or "", function.name or "", piece.index, out)
            else:
                self._complete(call, piece.id, function.name)
            if piece.extra_content:
                call.signature = to_json(piece.extra_content).decode()
            self._arguments(call, function.arguments, out)

    def add_legacy(self, function: FunctionDelta, out: list[StreamEvent]) -> None:
        """Add a delta of the only call in the older ``function_call`` form."""
        if self._calls:
            self._complete(self._calls[-1], None, function.name)
        else:
            self._open("", function.name or "", None, out)
        self._arguments(self._calls[-1], function.arguments, out)

    def close(self, out: list[StreamEvent]) -> None:
        """Close all calls."""
        out.extend([self._draft.close_call(call.block, signature=call.signature) for call in self._calls])

    def _find(self, piece: CallDelta, function: FunctionDelta) -> _Call | None:
        """Return the call that a delta continues; ``None`` if it starts a new one."""
        if not self._calls:
            return None
        if piece.id:
            return self._by_id(piece, function)
        if piece.index is None:
            return self._last(function)
        for call in reversed(self._calls):
            if call.index == piece.index:
                return None if function.name and self._is_new_call(call, function) else call
        last = self._calls[-1]
        if function.name:
            return None
        # Some hosts number the arguments of a call in a different way than its start.
        return last if last.index is None or (function.arguments and not last.is_complete()) else None

    def _by_id(self, piece: CallDelta, function: FunctionDelta) -> _Call | None:
        call = self._by_given_id.get(piece.id or "")
        if call is not None:
            apart = None not in (piece.index, call.index) and piece.index != call.index
            return None if apart and function.name and call.is_complete() else call  # Two calls with the same ID.
        if len(self._by_given_id) == len(self._calls):
            return None
        for call in reversed(self._calls):
            if not call.given and call.index == piece.index:  # The ID arrives late.
                return None if function.name and self._is_new_call(call, function) else call
        return None

    def _last(self, function: FunctionDelta) -> _Call | None:
        last = self._calls[-1]
        if not function.name:
            return last
        if function.name != last.name and (last.length or function.arguments is not None):
            return None
        return None if self._is_new_call(last, function) else last

    @staticmethod
    def _is_new_call(call: _Call, function: FunctionDelta) -> bool:
        """Return True if a named delta for a call with complete arguments is another call, not a repetition."""
        return bool(function.arguments) and call.is_complete() and not call.holds(_as_text(function.arguments))

    def _open(self, id: str, name: str, index: int | None, out: list[StreamEvent]) -> _Call:
        given = bool(id) and id not in self._ids
        if not given:
            id = new_call_id(self.response_id, len(self._calls))
        self._ids.add(id)
        event = self._draft.open_call(id, name)
        call = _Call(event.index, id, name, index, given=given)
        self._calls.append(call)
        if given:
            self._by_given_id[id] = call
        out.append(event)
        return call

    def _complete(self, call: _Call, id: str | None, name: str | None) -> None:
        """Add an ID that arrives late, or a name that arrives late or in parts; a repeated value changes nothing."""
        changed = False
        if id and not call.given:
            call.id, call.given, changed = id, True, True
            self._by_given_id[id] = call
            self._ids.add(id)
        if name and name != call.name:
            call.name, changed = call.name + name, True
        if changed:
            self._draft.update_call(call.block, call.id, call.name)

    def _arguments(self, call: _Call, given: str | dict[str, Any] | None, out: list[StreamEvent]) -> None:
        text = _as_text(given)
        if text and not (call.length and call.holds(text)):
            call.pieces.append(text)
            call.length += len(text)
            out.append(self._draft.arguments(call.block, text))


def _function(piece: CallDelta) -> FunctionDelta:
    """Return the function of a delta; the free text of a custom tool becomes its argument ``input``."""
    if piece.function is not None:
        return piece.function
    custom = piece.custom or {}
    name, text = custom.get("name"), custom.get("input")
    return FunctionDelta(name if isinstance(name, str) else None, None if text is None else {"input": text})


def _as_text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return to_json(arguments).decode()
    return arguments or ""


class ReasoningAssembler:
    """The reasoning of one response.

    Args:
        draft: Builder of the response.
        deltas: Filter of the deltas, for hosts that may send all text so far with each of them.
    """

    __slots__ = ("_deltas", "_detail", "_draft", "_index", "_mark")

    def __init__(self, draft: MessageBuilder, deltas: CumulativeText | None = None) -> None:
        self._draft = draft
        self._deltas = deltas
        self._index = -1  # the open thinking block
        self._mark = ""
        self._detail: dict[str, Any] | None = None

    def add(self, text: str, mark: str, details: list[dict[str, Any]] | None, out: list[StreamEvent]) -> None:
        """Add a delta: its text, its field, and structured details, which may repeat the text."""
        if not details:
            if self._deltas is not None:
                text = self._deltas.add(text)
            self._grow(text, mark, None, out)
            return
        has_text = bool(text)
        for detail in details:
            if "data" in detail:
                self._redacted(detail, out)
                continue
            piece = detail.get("text") or detail.get("summary") or ""
            self._grow(piece if isinstance(piece, str) else "", mark, detail, out)
            has_text = False
        if has_text and all("data" in detail for detail in details):
            self._grow(text, mark, None, out)

    def close(self, out: list[StreamEvent]) -> None:
        """Close the open block, if any."""
        if self._index < 0:
            return
        if self._deltas is not None and (held := self._deltas.flush()):
            out.append(self._draft.thinking(self._index, held))
        signature = to_json(self._detail).decode() if self._detail else self._mark
        out.append(self._draft.close_thinking(self._index, signature))
        self._index = -1
        self._detail = None

    def _grow(self, text: str, mark: str, detail: dict[str, Any] | None, out: list[StreamEvent]) -> None:
        if self._index >= 0 and self._is_other_entry(detail):
            self.close(out)
        if self._index < 0:
            if not text and not (detail and detail.get("signature")):
                return
            event = self._draft.open_thinking()
            self._index = event.index
            self._mark = mark
            out.append(event)
        if text:
            out.append(self._draft.thinking(self._index, text))
        if detail is not None:
            facts = {k: v for k, v in detail.items() if k not in ("text", "summary") and v not in (None, "")}
            self._detail = {**(self._detail or {}), **facts}

    def _is_other_entry(self, detail: dict[str, Any] | None) -> bool:
        """Return True if a detail belongs to another entry than the open block."""
        if detail is None or self._detail is None:
            return False
        return (detail.get("type"), detail.get("index")) != (self._detail.get("type"), self._detail.get("index"))

    def _redacted(self, detail: dict[str, Any], out: list[StreamEvent]) -> None:
        self.close(out)
        self._draft.redacted_thinking(to_json(detail).decode())


_STOP_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "max_tokens",
    "max_length": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
}
_CALL_REASONS = frozenset({"tool_calls", "tool_call", "tool_use", "tool-calls", "function_call", "function_calls"})
_SUCCESS = _CALL_REASONS | frozenset(
    {
        *("stop", "stopped", "stop_token", "end", "end_turn", "end_of_turn", "end_of_text", "eos", "eos_token", "eot"),
        *("complete", "completed", "done", "finish", "finished", "success", "normal", "none", "null"),
    }
)
"""Finish reasons of complete responses, as different servers write them."""


class ChatDecoder(StreamDecoder[ChatChunk]):
    """Decoder of one response; see `StreamDecoder`."""

    __slots__ = (
        *("_calls", "_can_have_markup", "_deltas", "_finish", "_lenient", "_markup", "_reasoning", "_stopped_at"),
        *("_text", "_text_mark"),
    )

    filter_reasons = frozenset(
        {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "sensitive", "refusal"}
    )
    overflow_reasons = frozenset(
        {"model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded"}
    )
    known_reasons = _SUCCESS | frozenset(_STOP_REASONS)
    abort_reasons = frozenset(
        {"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource"}
    )

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(profile)
        self._lenient = LenientChunkParser()
        self._text = -1  # the open text block
        self._text_mark: str | None = None
        self._can_have_markup = profile.dialect.text_markup
        self._markup: MarkupText | None = None  # created for the first text that may be markup
        is_foreign = self._can_have_markup
        self._deltas = CumulativeText() if is_foreign else None
        self._reasoning = ReasoningAssembler(self.draft, CumulativeText() if is_foreign else None)
        self._calls = ToolCallAssembler(self.draft)
        self._finish = ""
        self._stopped_at: str | int | None = None

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one event of the stream."""
        try:
            chunk = decode_chunk(data)
        except DECODE_ERRORS:
            chunk = self._decode_irregular(name, data)
            if chunk is None:
                return
        if chunk.error or name == "error":
            raise self._errors.reported_by_host(data)
        self.feed_chunk(chunk, events)
        if not chunk.choices and not (chunk.usage and self._started):
            self._check_unknown_object(data)

    def feed_chunk(self, chunk: ChatChunk, out: list[StreamEvent]) -> None:
        """Process one decoded event."""
        if chunk.usage:
            self._record_usage(chunk.usage)
        elif chunk.x_groq:
            self._groq_fields(chunk.x_groq)
        choices = chunk.choices
        if not choices:
            return
        choice = choices[0]
        if choice.error:
            raise self._errors.reported_by_host({"error": choice.error})
        if choice.index or len(choices) > 1:
            first = next((c for c in choices if not c.index), None)
            if first is None:
                return
            choice = first
        self._choice(choice, chunk, out)

    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        self.feed("", body, out)
        if not self._started:
            raise self._errors.invalid_response("The response has no choices", "empty")
        self.complete = True

    def _convert(self, fields: dict[str, Any]) -> ChatChunk:
        return self._lenient.chunk(fields)

    def _close_blocks(self, out: list[StreamEvent]) -> None:
        self._flush_deltas(out)
        self._reasoning.close(out)
        if self._text_mark and not len(self.draft):
            self._open_text(out)  # An empty text with a signature.
        if self._markup is not None:
            self._finish_markup(self._markup, out)
        self._close_text(out)
        self._calls.close(out)

    def _add_markup(self, text: str, out: list[StreamEvent]) -> bool:
        """Add text that may be markup; return False if it is not."""
        if self._markup is None:
            if "<" not in text and "[" not in text and (self._text >= 0 or not (text[0].isspace() or text[0] == "◁")):
                return False
            self._markup = MarkupText(self.draft, self._text)
            self._text = -1
        self._reasoning.close(out)
        self._markup.add_text(text, out)
        return True

    def _finish_markup(self, markup: MarkupText, out: list[StreamEvent]) -> None:
        """Add the calls that the server left in the text."""
        is_complete = not self._calls.count and _STOP_REASONS.get(self._finish) != "max_tokens"
        for name, arguments in markup.finish(self.tools, out, is_complete=is_complete):
            self._calls.add([CallDelta(function=FunctionDelta(name, arguments))], out, is_complete=True)
        self.has_unparsed_calls = markup.is_unparsed

    def _choice(self, choice: Choice, chunk: ChatChunk, out: list[StreamEvent]) -> None:
        if not self._started:
            self._calls.response_id = chunk.id or ""
            self._start(out)
        delta = choice.delta
        if delta is not None:
            content = delta.content
            if (
                self._text < 0
                or type(content) is not str
                or not content
                or (self._can_have_markup and (self._deltas is not None or "<" in content or "[" in content))
                or _has_more(delta)
            ):
                self._delta(delta, out, is_complete=False)
            else:
                out.append(self.draft.text(self._text, content))  # the common case
        if choice.message is not None and (delta is None or choice.finish_reason):
            self._delta(self._without_repetition(choice.message), out, is_complete=True)
        if choice.finish_reason:
            self._finish = choice.finish_reason.lower().rpartition(".")[2]
            self._stopped_at = choice.stop_reason
            self.complete = True
        if choice.usage:
            self._record_usage(choice.usage)

    def _without_repetition(self, message: ChatDelta) -> ChatDelta:
        """Return the part of a complete message that no delta contained; hosts send it alone or with the last delta."""
        if not len(self.draft):
            return message
        has_text = self._markup is not None or bool(self.draft.message().text)
        calls = None if self._calls.count else message.tool_calls
        return ChatDelta(content=None if has_text else message.content, tool_calls=calls)

    def _delta(self, delta: ChatDelta, out: list[StreamEvent], *, is_complete: bool) -> None:
        thought = delta.reasoning_content or delta.reasoning or delta.thinking
        if thought or delta.reasoning_details:
            self._close_text(out)
            mark = "reasoning_content" if delta.reasoning_content else "reasoning" if delta.reasoning else "thinking"
            self._reasoning.add(thought or "", mark, delta.reasoning_details, out)
        content = delta.content
        if type(content) is str:
            self._add_text(content, out)
        elif content:
            for part in content:
                self._part(part, out)
        if delta.refusal:
            self._add_text(delta.refusal, out)
        if delta.extra_content:
            self._text_mark = to_json(delta.extra_content).decode()
        if delta.tool_calls or delta.function_call:
            self._reasoning.close(out)
            self._close_text(out)
            if delta.tool_calls:
                self._calls.add(delta.tool_calls, out, is_complete=is_complete)
            if delta.function_call:
                self._calls.add_legacy(delta.function_call, out)

    def _part(self, part: object, out: list[StreamEvent]) -> None:
        """Process one part of a content list: text, reasoning, or a plain string."""
        fields = as_dict(part)
        if fields is None:
            self._add_text(part if isinstance(part, str) else "", out)
            return
        thought = fields.get("thinking")
        if thought:
            pieces = [str(piece.get("text") or "") for piece in as_dicts(thought)]
            text = thought if isinstance(thought, str) else "".join(pieces)
            if text:
                self._close_text(out)
                self._reasoning.add(text, "content", None, out)
            return
        text = fields.get("text") or fields.get("refusal")
        self._add_text(text if isinstance(text, str) else "", out)

    def _add_text(self, text: str, out: list[StreamEvent]) -> None:
        if self._deltas is not None:
            text = self._deltas.add(text)
        self._write_text(text, out)
        if self._deltas is not None and self._deltas.is_settled:
            self._deltas = None

    def _flush_deltas(self, out: list[StreamEvent]) -> None:
        """Add the delayed text."""
        if self._deltas is not None:
            self._write_text(self._deltas.flush(), out)

    def _write_text(self, text: str, out: list[StreamEvent]) -> None:
        if not text:
            return
        if self._can_have_markup and self._add_markup(text, out):
            return
        if self._text < 0:
            self._reasoning.close(out)
            self._open_text(out)
        out.append(self.draft.text(self._text, text))

    def _open_text(self, out: list[StreamEvent]) -> None:
        event = self.draft.open_text()
        self._text = event.index
        out.append(event)

    def _close_text(self, out: list[StreamEvent]) -> None:
        self._flush_deltas(out)
        if self._markup is not None:
            self._markup.close(out, self._text_mark)
        if self._text >= 0:
            out.append(self.draft.close_text(self._text, self._text_mark))
            self._text = -1
            self._text_mark = None

    def _groq_fields(self, fields: dict[str, Any]) -> None:
        if fields.get("error"):
            raise self._errors.reported_by_host({"error": fields["error"]})
        self._record_usage(fields.get("usage"))

    def _stop_reason(self) -> StopReason:
        self._raise_for_reason(self._finish, f"finish reason {self._finish}")
        known = _STOP_REASONS.get(self._finish)
        if known == "max_tokens":
            return known
        if self._calls.count or self._finish in _CALL_REASONS:
            return "tool_use"
        if known is not None:
            return known
        return "stop_sequence" if isinstance(self._stopped_at, str) and self._stopped_at else "end_turn"


def _has_more(delta: ChatDelta) -> bool:
    """Return True if the delta contains more than content."""
    return bool(
        delta.tool_calls
        or delta.reasoning_content
        or delta.reasoning
        or delta.reasoning_details
        or delta.thinking
        or delta.refusal
        or delta.function_call
        or delta.extra_content
    )


def decode_chat_response(body: bytes, profile: ModelProfile) -> Message:
    """Return the message of a complete response that was not streamed.

    Args:
        body: Body as sent by the host.
        profile: Model that responded.

    Raises:
        ModelError: The response is an error or cannot be decoded.
    """
    decoder = ChatDecoder(profile)
    events: list[StreamEvent] = []
    decoder.decode_body(body, events)
    decoder.finish(events)
    return events[-1].partial
