"""Decode responses of Anthropic Messages, streamed or complete.

Token counts arrive with the first event and again, updated, with the last ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mainspring.events import StreamEvent
from mainspring.messages import StopReason, Usage, strip_surrogates
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.codec.stream_decoder import StreamDecoder
from mainspring.models.json_values import DECODE_ERRORS, as_dict, as_dicts, as_number, to_json
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.usage import with_cost
from mainspring.models.wire.anthropic.payloads import (
    AnthropicDelta,
    AnthropicEventParser,
    Event,
    decode_anthropic_event,
    encode_server_block,
    is_server_block,
)

_KINDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Block type of each delta type, for hosts that omit the start."""


class _OpenBlock:
    """A block that is still open.

    Attributes:
        kind: ``text``, ``thinking``, ``tool_use``, ``opaque`` (stored unchanged), or another type, which is skipped.
        at: Index of the block in the draft; -1 if it has none.
        start: Object that opened the block.
        pieces: Signature, input, or content received so far.
    """

    __slots__ = ("at", "kind", "pieces", "start")

    def __init__(self, kind: str, start: Mapping[str, Any]) -> None:
        self.kind = kind
        self.at = -1
        self.start = start
        self.pieces: list[str] = []


class BlockAssembler:
    """The blocks of one response.

    Attributes:
        draft: Builder that receives the blocks.
        response_id: Host's ID of the response, for calls without an ID.
        calls: Number of tool calls; ``model_calls`` is the number of calls by the model itself. Code that the host runs makes
            calls too, and they may already have results.
        has_emitted: Whether content was emitted that must not be repeated: text, or a complete call.
    """

    __slots__ = ("_ids", "_open", "calls", "draft", "has_emitted", "model_calls", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self.draft = draft
        self.response_id = ""
        self.calls = self.model_calls = 0
        self.has_emitted = False
        self._open: dict[int, _OpenBlock] = {}
        self._ids: set[str] = set()

    def start(self, index: int | None, block: Mapping[str, Any], out: list[StreamEvent]) -> None:
        """Open a block and add its initial content."""
        number = self._next() if index is None else index
        self.stop(number, out)
        kind = str(block.get("type") or "")
        opened = self._open[number] = _OpenBlock("opaque" if is_server_block(kind) else kind, block)
        if kind == "text":
            self._text(opened, _string(block, "text"), out)
        elif kind == "thinking":
            event = self.draft.open_thinking()
            opened.at = event.index
            out.append(event)
            if text := _string(block, "thinking"):
                out.append(self.draft.thinking(opened.at, text))
        elif kind == "redacted_thinking":
            self.draft.redacted_thinking(_string(block, "data"))
        elif kind == "tool_use":
            self._call(opened, _string(block, "id"), _string(block, "name"), out)

    def append(self, index: int | None, delta: AnthropicDelta, out: list[StreamEvent]) -> None:
        """Add a delta to a block."""
        opened = self._open.get(self._last() if index is None else index)
        if opened is None:
            kind = _KINDS.get(delta.type)
            if kind is None:
                return
            self.start(index, {"type": kind}, out)
            opened = self._open[self._last() if index is None else index]
        kind = opened.kind
        if kind == "text":
            if delta.text:
                self._text(opened, delta.text, out)
        elif kind == "tool_use":
            if delta.partial_json:
                opened.pieces.append(delta.partial_json)
                out.append(self.draft.arguments(opened.at, delta.partial_json))
        elif kind == "thinking":
            if delta.thinking:
                out.append(self.draft.thinking(opened.at, delta.thinking))
            if delta.signature:
                opened.pieces.append(delta.signature)
        elif kind == "opaque" and (piece := delta.partial_json or delta.content):
            opened.pieces.append(piece)

    def stop(self, index: int | None, out: list[StreamEvent]) -> None:
        """Close a block."""
        opened = self._open.pop(self._last() if index is None else index, None)
        if opened is None:
            return
        joined = "".join(opened.pieces)
        if opened.kind == "text":
            if opened.at >= 0:
                out.append(self.draft.close_text(opened.at))
        elif opened.kind == "thinking":
            signature = joined or _string(opened.start, "signature")
            out.append(self.draft.close_thinking(opened.at, signature or None))
        elif opened.kind == "tool_use":
            given = opened.start.get("input")
            if given and not joined:
                text = given if isinstance(given, str) else to_json(given).decode()
                out.append(self.draft.arguments(opened.at, text))
            out.append(self.draft.close_call(opened.at, signature=_caller_json(opened)))
            self.has_emitted = True
        elif opened.kind == "opaque":
            self.draft.redacted_thinking(encode_server_block(opened.start, joined))

    def close(self, out: list[StreamEvent]) -> None:
        """Finish the response and close all open blocks."""
        for index in sorted(self._open):
            self.stop(index, out)

    def _text(self, block: _OpenBlock, text: str, out: list[StreamEvent]) -> None:
        """Add text; the block opens with the first text that is not empty."""
        if not text:
            return
        if block.at < 0:
            event = self.draft.open_text()
            block.at = event.index
            out.append(event)
        self.has_emitted = True
        out.append(self.draft.text(block.at, text))

    def _call(self, block: _OpenBlock, id: str, name: str, out: list[StreamEvent]) -> None:
        if not id or id in self._ids:
            id = new_call_id(self.response_id, self.calls)
        self._ids.add(id)
        self.calls += 1
        self.model_calls += _caller_json(block) is None
        event = self.draft.open_call(id, name)
        block.at = event.index
        out.append(event)

    def _last(self) -> int:
        return next(reversed(self._open), 0)

    def _next(self) -> int:
        return max(self._open, default=-1) + 1


def _string(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) else ""


def _caller_json(block: _OpenBlock) -> str | None:
    """Return the caller of a call as JSON, if it is not the model itself: it must be sent back with the call."""
    caller = as_dict(block.start.get("caller"))
    return None if caller is None or caller.get("type", "direct") == "direct" else to_json(caller).decode()


class UsageCounter:
    """Token counts of one response.

    The host's own summaries of the conversation are separate calls: their tokens are not part of this response, but their cost is.
    A later count replaces an earlier one, unless it is zero: some gateways fill in zeros. Cache reads and writes are separate from
    the input here, so nothing is counted twice.
    """

    __slots__ = ("_cached_input", "_input", "_long", "_output", "_read", "_reasoning", "_write", "has_usage")

    def __init__(self) -> None:
        self.has_usage = False
        self._cached_input: list[dict[str, Any]] = []
        self._input = self._output = self._read = self._write = self._long = self._reasoning = 0

    def update(self, raw: Mapping[str, Any]) -> None:
        """Process a ``usage`` object."""
        self.has_usage = self.has_usage or "input_tokens" in raw or "output_tokens" in raw
        self._input = _count(raw, "input_tokens") or self._input
        self._output = _count(raw, "output_tokens") or self._output
        self._read = _count(raw, "cache_read_input_tokens") or self._read
        created = as_dict(raw.get("cache_creation")) or {}
        self._long = _count(created, "ephemeral_1h_input_tokens") or self._long
        parts = _count(created, "ephemeral_5m_input_tokens") + _count(created, "ephemeral_1h_input_tokens")
        self._write = _count(raw, "cache_creation_input_tokens") or parts or self._write
        details = as_dict(raw.get("output_tokens_details")) or {}
        self._reasoning = _count(details, "thinking_tokens") or self._reasoning
        calls = as_dicts(raw.get("iterations"))
        self._cached_input = [call for call in calls if call.get("type") == "compaction"] or self._cached_input

    def usage(self, info: ModelInfo) -> Usage:
        """Return the counts in the common form, with their cost."""
        reasoning = min(self._reasoning, self._output)
        counts = Usage(self._input, self._output, self._read, self._write, reasoning)
        usage = with_cost(counts, info, cache_write_1h_tokens=self._long)
        for call in self._cached_input:
            aside = UsageCounter()
            aside.update(call)
            cost = aside.usage(info).cost
            if usage.cost is not None and cost is not None:
                usage = replace(usage, cost=usage.cost + cost)
        return usage


def _count(raw: Mapping[str, Any], name: str) -> int:
    return max(0, int(as_number(raw.get(name)) or 0))


_STOP_REASONS: dict[str, StopReason] = {
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "pause_turn",
    "compaction": "pause_turn",
    "end_turn": "end_turn",
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
}
"""Stop reasons of Anthropic, and three that gateways do not translate."""


class AnthropicDecoder(StreamDecoder[Event]):
    """Decoder of one response; see `StreamDecoder`.

    Calls and results of the host's own tools are stored, but are neither text nor calls.
    """

    __slots__ = ("_blocks", "_counts", "_details", "_id", "_lenient", "_reason")

    overflow_reasons = frozenset({"model_context_window_exceeded"})
    known_reasons = frozenset(_STOP_REASONS)

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(profile)
        self._lenient = AnthropicEventParser()
        self._id = ""
        self._reason = ""
        self._details: Mapping[str, Any] = {}

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one event of the stream."""
        if self.ended:
            return  # Events after the end do not belong to this response.
        try:
            event = decode_anthropic_event(data)
        except DECODE_ERRORS:
            event = self._decode_irregular(name, data)
            if event is None:
                return
        kind = event.type or name
        if kind == "content_block_delta":
            if event.delta is not None:
                if not self._started:
                    self._start(events)
                self._blocks.append(event.index, event.delta, events)
        elif event.error or kind == "error":
            raise self._errors.reported_by_host(data)
        else:
            self._handle_event(kind, event, data, events)

    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        value: dict[str, Any] = self._parse_leniently("", body, strip_surrogates)
        if value.get("type") == "error" or value.get("error"):
            raise self._errors.reported_by_host(body)
        if not isinstance(value.get("content"), list):
            self._check_unknown_object(body)
            raise self._errors.invalid_response("The response has no content", "empty")
        self._message(value, out)
        self.complete = True

    def _convert(self, fields: dict[str, Any]) -> Event:
        return self._lenient.event(fields)

    def _close_blocks(self, out: list[StreamEvent]) -> None:
        self._blocks.close(out)

    def _reset(self) -> None:
        super()._reset()
        self._blocks = BlockAssembler(self.draft)
        self._counts = UsageCounter()

    def _handle_event(self, kind: str, event: Event, data: bytes, out: list[StreamEvent]) -> None:
        """Process every event but deltas; unknown events are ignored."""
        if kind == "content_block_start":
            self._start(out)
            self._blocks.start(event.index, event.content_block or {}, out)
        elif kind == "content_block_stop":
            self._blocks.stop(event.index, out)
        elif kind == "message_delta":
            self._start(out)
            self._usage(event.usage)
            if event.delta is not None:
                self._stopped(event.delta.stop_reason, event.delta.stop_details)
        elif kind == "message_start":
            self._message(event.message or {}, out)
        elif kind == "message_stop":
            self.complete = self.ended = True
        elif kind != "ping":
            self._check_unknown_object(data)

    def _message(self, message: Mapping[str, Any], out: list[StreamEvent]) -> None:
        """Start the message with its initial content."""
        id = str(message.get("id") or "")
        if self._started and (not id or id == self._id):
            return  # Some gateways repeat the event.
        if self._started:
            self._restart()
        self._id = self._blocks.response_id = id
        self._start(out)
        for block in as_dicts(message.get("content")):
            self._blocks.start(None, block, out)
        self._blocks.close(out)
        self._usage(as_dict(message.get("usage")))
        reason = message.get("stop_reason")
        self._stopped(reason if isinstance(reason, str) else None, as_dict(message.get("stop_details")))

    def _restart(self) -> None:
        """Handle a gateway that lost the host and sent the request again: only the second response is used.

        Raises:
            NetworkError: Text or calls of the first response were already emitted and would be repeated.
        """
        if self._blocks.has_emitted:
            raise self._errors.truncated("A second response started in the middle of the first one")
        self.complete = False
        self._reset()

    def _usage(self, raw: Mapping[str, Any] | None) -> None:
        if raw:
            self._counts.update(raw)
            if self._counts.has_usage:
                self.draft.usage = self._counts.usage(self._profile.info)

    def _stopped(self, reason: str | None, details: Mapping[str, Any] | None) -> None:
        if reason:
            self._reason = reason
            self._details = details or {}
            self.complete = True

    def _stop_reason(self) -> StopReason:
        if self._reason == "refusal":
            reason = [self._details.get("category"), self._details.get("explanation")]
            raise self._errors.content_filtered(
                ": ".join(["refusal", *[w for w in reason if isinstance(w, str) and w]])
            )
        self._raise_for_reason(self._reason, f"stop reason {self._reason}")
        known = _STOP_REASONS.get(self._reason)
        if known == "max_tokens":
            return known
        return "tool_use" if self._blocks.model_calls else known or "end_turn"
