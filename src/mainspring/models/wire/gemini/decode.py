"""Decode Gemini responses, streamed or complete."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_re
from mainspring.messages import ImageBlock, StopReason, Usage, strip_surrogates
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.codec.stream_decoder import StreamDecoder
from mainspring.models.codec.text import TextAndThinking
from mainspring.models.json_values import DECODE_ERRORS, as_dict, as_list, convert_loosely, to_json
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.usage import with_cost
from mainspring.models.wire.gemini.payloads import (
    Candidate,
    FunctionCall,
    GeminiChunk,
    GeminiPart,
    PartialArg,
    UsageMetadata,
    decode_gemini_chunk,
)

_STEP = lazy_re(r"\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_MAX_MISSING = 100  # Arrays arrive item by item; a far higher index would be an attack on the memory.


class _OpenCall:
    """An open call: its block, its arguments by path in order of arrival, and its signature."""

    __slots__ = ("args", "block", "pieces", "signature")

    def __init__(self, block: int, signature: str | None) -> None:
        self.block = block
        self.signature = signature
        self.args: dict[str, Any] | None = None
        self.pieces: dict[str, list[Any]] = {}


class FunctionCallAssembler:
    """The tool calls of one response.

    Attributes:
        response_id: Provider's ID of the response; IDs of calls without an ID are derived from it.
    """

    __slots__ = ("_calls", "_draft", "_growing", "_ids", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._calls: list[_OpenCall] = []
        self._ids: set[str] = set()
        self._growing: _OpenCall | None = None
        self.response_id = ""

    @property
    def count(self) -> int:
        """Return the number of calls."""
        return len(self._calls)

    def add(self, piece: FunctionCall, signature: str | None, out: list[StreamEvent]) -> None:
        """Add a call, or a part of one: a part without a name continues the open call."""
        call = self._growing
        if call is None or piece.name:
            if not piece.name and not piece.args and not piece.partial_args:
                return  # The end of a call that is already closed.
            call = self._open(piece, signature, out)
        elif signature:
            call.signature = signature
        if piece.args:
            call.args = call.args or {}
            call.args.update(piece.args)
        for arg in piece.partial_args or ():
            call.pieces.setdefault(arg.json_path, []).append(_value(arg))
        self._growing = call if piece.will_continue else None
        if self._growing is None:
            self._emit_arguments(call, out)

    def close(self, out: list[StreamEvent]) -> None:
        """Close all calls."""
        if self._growing is not None:
            self._emit_arguments(self._growing, out)
            self._growing = None
        close = self._draft.close_call
        out.extend([close(c.block, input=c.args or {}, signature=c.signature) for c in self._calls])

    def _open(self, piece: FunctionCall, signature: str | None, out: list[StreamEvent]) -> _OpenCall:
        if self._growing is not None:
            self._emit_arguments(self._growing, out)
        given = piece.id
        id = given if given and given not in self._ids else new_call_id(self.response_id, len(self._calls))
        self._ids.add(id)
        event = self._draft.open_call(id, piece.name or "")
        call = _OpenCall(event.index, signature)
        self._calls.append(call)
        out.append(event)
        return call

    def _emit_arguments(self, call: _OpenCall, out: list[StreamEvent]) -> None:
        """Emit the complete arguments."""
        if call.pieces:
            call.args = _assembled(call.args or {}, call.pieces)
            call.pieces = {}
        out.append(self._draft.arguments(call.block, to_json(call.args or {}).decode()))


def _value(arg: PartialArg) -> Any:
    if arg.string_value is not None:
        return arg.string_value
    if arg.bool_value is not None:
        return arg.bool_value
    number = arg.number_value
    if number is not None:
        return int(number) if number.is_integer() else number
    return None if arg.null_value is not msgspec.UNSET else ""


def _assembled(args: dict[str, Any], pieces: dict[str, list[Any]]) -> dict[str, Any]:
    """Build the arguments from values by JSON path; texts of the same path are joined."""
    root: dict[str, Any] = dict(args)
    for path, values in pieces.items():
        texts = [value for value in values if isinstance(value, str)]
        _set_at_path(root, _parse_path(path), "".join(texts) if len(texts) == len(values) else values[-1])
    return root


def _parse_path(path: str) -> list[str | int]:
    found: list[str | int] = []
    for name, index, single, double in _STEP.findall(path.removeprefix("$")):
        found.append(int(index) if index else name or single or double)
    return found


def _set_at_path(root: dict[str, Any], steps: list[str | int], value: Any) -> None:
    """Set the value at a path and create missing parents; an invalid path is ignored."""
    holder: Any = root
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        if isinstance(step, int) != isinstance(holder, list):
            return
        if isinstance(step, int):
            items = cast("list[Any]", holder)
            if step > len(items) + _MAX_MISSING:
                return
            items.extend([None] * (step + 1 - len(items)))
        elif step not in holder:
            holder[step] = None
        if following is None:
            holder[step] = value
            return
        if not isinstance(holder[step], dict | list):
            holder[step] = [] if isinstance(following, int) else {}
        holder = holder[step]


_FINISH_REASONS_BY_NUMBER = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
)
"""Finish reasons by their number in Google's protocol, for hosts that send the number."""


_INVALID_RESPONSE_REASONS = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
    }
)
"""The host could not use the model's output; a retry usually succeeds."""


class _LazyUsage:
    """The last received counts, converted when they are read."""

    __slots__ = ("_info", "counts")

    def __init__(self, info: ModelInfo) -> None:
        self._info = info
        self.counts: UsageMetadata | None = None

    def usage(self) -> Usage | None:
        """Return the counts in the common form, with their cost."""
        usage = self.counts.usage() if self.counts is not None else None
        return None if usage is None else with_cost(usage, self._info)


class GeminiDecoder(StreamDecoder[GeminiChunk]):
    """Decoder of one response; see `StreamDecoder`.

    A signature ends its block: later content is a new block, and each is sent back with its own signature.
    """

    __slots__ = ("_calls", "_finish", "_finish_text", "_prose", "_tally")

    filter_reasons = frozenset(
        {
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        }
    )
    known_reasons = frozenset({"STOP", "MAX_TOKENS", "UNEXPECTED_TOOL_CALL", *_INVALID_RESPONSE_REASONS})
    abort_reasons = frozenset({"OTHER", "IMAGE_OTHER", "NO_IMAGE", "FINISH_REASON_UNSPECIFIED"})
    completes_at_done_mark = False  # Google does not send the mark; gateways do.

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(profile)
        self._tally = _LazyUsage(profile.info)
        self.draft.count = self._tally.usage
        self._calls = FunctionCallAssembler(self.draft)
        self._prose = TextAndThinking(self.draft)
        self._finish = ""
        self._finish_text = ""

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one event of the stream."""
        try:
            chunk = decode_gemini_chunk(data)
        except DECODE_ERRORS:
            chunk = self._decode_irregular(name, data)
            if chunk is None:
                return
        counts = chunk.usage_metadata
        if counts is not None and (counts.total_token_count or counts.prompt_token_count):
            self._tally.counts = counts
        candidates = chunk.candidates
        if candidates and self._prose.text >= 0 and (text := _text_only(candidates[0])):
            events.append(self.draft.text(self._prose.text, text))  # the common case
            return
        if chunk.error or name == "error":
            raise self._errors.reported_by_host(data)
        if candidates:
            candidate = candidates[0]
            if candidate.index:
                candidate = next((c for c in candidates if not c.index), None)
            if candidate is not None:
                self._candidate(candidate, chunk, events)
        elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            feedback = chunk.prompt_feedback
            raise self._errors.content_filtered(
                f"prompt rejected: {feedback.block_reason_message or feedback.block_reason}"
            )

    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        """Decode a response, or the events of a stream as one array."""
        if body[:1] != b"[":
            self.feed("", body, out)
        else:
            for event in self._events(body):
                self.feed("", event, out)
        if not self._started:
            raise self._errors.invalid_response("The response has no candidates", "empty")
        if body[:1] != b"[":
            self.complete = True

    def _convert(self, fields: dict[str, Any]) -> GeminiChunk:
        return convert_loosely(strip_surrogates(fields), GeminiChunk)

    def _close_blocks(self, out: list[StreamEvent]) -> None:
        self._prose.close(out)
        self._calls.close(out)

    def _stop_reason(self) -> StopReason:
        reason = f"finish reason {self._finish}" + (f": {self._finish_text}" if self._finish_text else "")
        self._raise_for_reason(self._finish, reason)
        if self._finish == "UNEXPECTED_TOOL_CALL" and self._calls.count:
            return "tool_use"  # A call of an unknown tool; it gets an error result, so the model can correct it.
        if self._finish in _INVALID_RESPONSE_REASONS:
            error = self._errors.invalid_response(
                f"The host could not use the output of the model ({reason})", "malformed_call"
            )
            error.retryable = True
            raise error
        return "max_tokens" if self._finish == "MAX_TOKENS" else "tool_use" if self._calls.count else "end_turn"

    def _candidate(self, candidate: Candidate, chunk: GeminiChunk, out: list[StreamEvent]) -> None:
        if not self._started:
            self._calls.response_id = chunk.response_id or ""
            self._start(out)
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._part(part, out)
        reason = candidate.finish_reason
        if reason:
            if isinstance(reason, int):
                reason = (
                    _FINISH_REASONS_BY_NUMBER[reason] if 0 <= reason < len(_FINISH_REASONS_BY_NUMBER) else str(reason)
                )
            self._finish = reason.upper()
            self._finish_text = candidate.finish_message or ""
            self.complete = True

    def _part(self, part: GeminiPart, out: list[StreamEvent]) -> None:
        if part.function_call is not None:
            self._prose.close(out)
            self._calls.add(part.function_call, part.thought_signature, out)
        elif part.inline_data is not None:
            if part.inline_data.mime_type.startswith("image/") and part.inline_data.data and not part.thought:
                self._prose.close(out)
                self.draft.image(ImageBlock(part.inline_data.mime_type, part.inline_data.data))
        elif part.text is not None:
            if part.text and part.thought:
                self._prose.add_thinking(part.text, out)
            elif part.text:
                self._prose.add_text(part.text, out)
            if part.thought_signature:
                self._prose.close(out, part.thought_signature)

    def _events(self, body: bytes) -> list[bytes]:
        try:
            return [to_json(event) for event in as_list(json.loads(body, strict=False)) if as_dict(event)]
        except (ValueError, RecursionError) as error:
            if body.rstrip()[-1:] != b"]":
                raise self._errors.truncated() from error
            raise self._errors.invalid_json(body) from error


def _text_only(candidate: Candidate) -> str | None:
    """Return the text of an event that contains nothing else."""
    content = candidate.content
    if (
        content is None
        or candidate.finish_reason
        or candidate.index
        or content.parts is None
        or len(content.parts) != 1
    ):
        return None
    part = content.parts[0]
    return None if part.thought or part.thought_signature else part.text
