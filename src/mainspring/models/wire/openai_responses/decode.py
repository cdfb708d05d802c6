"""Decode responses of OpenAI Responses, streamed or complete.

Providers send the same content as deltas, done parts, done items, and the final response, and may omit any of them. Later events
only add missing content; content is never emitted twice, and the last value of a message or call wins.
"""

from __future__ import annotations

from typing import Any, Literal

from mainspring.events import StreamEvent
from mainspring.messages import StopReason
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.codec.stream_decoder import StreamDecoder
from mainspring.models.json_values import DECODE_ERRORS, to_json
from mainspring.models.message_builder import MessageBuilder, parse_call
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_responses.payloads import (
    Answer,
    Event,
    LenientEventParser,
    OutputItem,
    ResponsesPart,
    decode_response,
    decode_responses_event,
    encode_item_metadata,
)

ItemKind = Literal["message", "reasoning", "call"]


_KINDS: dict[str, ItemKind] = {
    "message": "message",
    "reasoning": "reasoning",
    "function_call": "call",
    "custom_tool_call": "call",
}
"""Types of items that become blocks; all others are server-side items."""


_TYPES: dict[ItemKind, str] = {kind: type for type, kind in reversed(_KINDS.items())}


class OpenItem:
    """An open or finished item.

    Attributes:
        kind: Type of the item.
        id: Host's ID of the item, as first received.
        block: Index of its block in the draft; for reasoning with several parts, of the last one.
        pieces: Content emitted so far.
        final_parts: Finished parts by position: the final content if nothing else arrives.
        part: Current part of the reasoning: whether it is raw reasoning (not a summary), and its number.
        call_id: Call ID, generated if the host sent none (``has_provider_id`` is false then).
        custom: Whether the argument of the call is free text.
        done: Whether the item is complete.
    """

    __slots__ = (
        "block",
        "call_id",
        "custom",
        "done",
        "final_parts",
        "has_provider_id",
        "id",
        "kind",
        "name",
        "part",
        "pieces",
    )

    def __init__(self, kind: ItemKind, id: str | None, block: int) -> None:
        self.kind: ItemKind = kind
        self.id = id
        self.block = block
        self.pieces: list[str] = []
        self.final_parts: dict[Any, str] = {}
        self.part: tuple[bool, int] | None = None
        self.call_id = ""
        self.has_provider_id = False
        self.name = ""
        self.custom = False
        self.done = False


class OutputItemAssembler:
    """All items of one response.

    Args:
        draft: Builder that receives their blocks.

    Attributes:
        response_id: Host's ID of the response; IDs of calls without an ID are derived from it, so that decoding the same
            response twice creates the same IDs.
    """

    __slots__ = ("_by_id", "_by_place", "_call_ids", "_draft", "_items", "_summaries", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._items: list[OpenItem] = []
        self._by_id: dict[str | None, OpenItem] = {}
        self._by_place: dict[int | None, OpenItem] = {}
        self._call_ids: set[str] = set()
        self._summaries: set[str] = set()
        self.response_id = ""

    @property
    def has_calls(self) -> bool:
        """Whether the response contains tool calls."""
        return any(item.kind == "call" for item in self._items)

    def find(self, event: Event) -> OpenItem | None:
        """Return the item of an event by its ID; for hosts that change IDs between events, by its position."""
        return self._by_id.get(event.item_id) or self._by_place.get(event.output_index)

    def add(self, item: OutputItem, place: int | None, out: list[StreamEvent]) -> None:
        """Open an item, unless it is already known."""
        kind = _KINDS.get(item.type)
        if kind is None or item.role not in (None, "assistant"):
            self._by_place.pop(place, None)
            return
        if self._named(item, kind) is not None:
            return
        self._open(kind, item, place, out)

    def end(self, item: OutputItem, place: int | None, out: list[StreamEvent]) -> None:
        """Close an item, even if its start was not sent."""
        kind = _KINDS.get(item.type)
        if kind is None or item.role not in (None, "assistant"):
            self._keep_compaction(item)
            return
        known = self._named(item, kind)
        if known is None:
            known = self._by_place.get(place)
            if known is not None and (known.kind != kind or (known.done and not self._repeats(known, item))):
                known = None
        if known is None:
            known = self._open(kind, item, place, out)
        if not known.done:
            self._close(known, item, out)

    def complete_from_response(self, items: list[OutputItem], out: list[StreamEvent]) -> None:
        """Add the missing content from the final response, which repeats all items."""
        ids = {item.id for item in items}
        strangers = [known for known in self._items if known.id is None or known.id not in ids]
        for item in items:
            kind = _KINDS.get(item.type)
            if kind is None or item.role not in (None, "assistant"):
                self._keep_compaction(item)
                continue
            known = self._named(item, kind) or next((k for k in strangers if _could_be_same(k, kind, item)), None)
            if known in strangers:
                strangers.remove(known)
            if known is None:
                known = self._open(kind, item, None, out)
            if not known.done:
                self._close(known, item, out)

    def text(self, event: Event, out: list[StreamEvent]) -> None:
        """Add text of a message, or of the reasoning if the event names an open item of that kind."""
        item = self._open_item("message", event, out)
        delta = event.delta
        if item is not None and type(delta) is str and delta:
            if item.kind == "reasoning":
                self.reasoning(event, out, raw=True)
                return
            item.pieces.append(delta)
            out.append(self._draft.text(item.block, delta))

    def reasoning(self, event: Event, out: list[StreamEvent], *, raw: bool) -> None:
        """Add reasoning of a summary, or raw reasoning."""
        item = self._open_item("reasoning", event, out)
        delta = event.delta
        if item is None or type(delta) is not str or not delta:
            return
        number = event.content_index if raw else event.summary_index
        self._switch_part(item, (raw, number or 0), out)
        item.pieces.append(delta)
        out.append(self._draft.thinking(item.block, delta))

    def arguments(self, event: Event, out: list[StreamEvent]) -> None:
        """Add arguments of a call."""
        item = self._open_item("call", event, out)
        delta = event.delta
        if item is None or type(delta) is not str or not delta:
            return
        item.pieces.append(delta)
        if not item.custom:
            out.append(self._draft.arguments(item.block, delta))

    def part_done(self, event: Event, text: str | None) -> None:
        """Process a complete part."""
        item = self.find(event)
        if item is None or item.done or not text:
            return
        if item.kind == "reasoning":
            raw = "summary" not in event.type
            item.final_parts[raw, (event.content_index if raw else event.summary_index) or 0] = text
        else:
            item.final_parts[event.content_index or 0] = text

    def close(self, out: list[StreamEvent]) -> None:
        """Close all open items."""
        for item in self._items:
            if not item.done:
                self._close(item, None, out)

    def _open(self, kind: ItemKind, item: OutputItem, place: int | None, out: list[StreamEvent]) -> OpenItem:
        draft = self._draft
        if kind == "call":
            call_id = item.call_id or item.id or ""
            given = bool(call_id) and call_id not in self._call_ids
            if not given:
                call_id = new_call_id(self.response_id, len(self._items))
            self._call_ids.add(call_id)
            event = draft.open_call(call_id, item.name or "")
            opened = OpenItem(kind, item.id, event.index)
            opened.call_id, opened.has_provider_id, opened.name = call_id, given and bool(item.call_id), item.name or ""
            opened.custom = item.type == "custom_tool_call"
            if isinstance(item.arguments, str):
                opened.final_parts[0] = item.arguments
        else:
            event = draft.open_text() if kind == "message" else draft.open_thinking()
            opened = OpenItem(kind, item.id, event.index)
        out.append(event)
        self._items.append(opened)
        if item.id is not None:
            self._by_id[item.id] = opened
        if place is not None:
            self._by_place[place] = opened
        return opened

    def _named(self, item: OutputItem, kind: ItemKind) -> OpenItem | None:
        """Return the item of this type with this ID."""
        known = self._by_id.get(item.id)
        return known if known is not None and known.kind == kind else None

    def _open_item(self, kind: ItemKind, event: Event, out: list[StreamEvent]) -> OpenItem | None:
        """Return the item of a delta, even if its start was not sent; ``None`` for deltas after its end."""
        item = self.find(event)
        if item is None and event.item_id is None and event.output_index is None:
            item = next((known for known in reversed(self._items) if known.kind == kind and not known.done), None)
        if item is not None and item.kind == kind:
            return None if item.done else item
        if item is not None and kind == "message" and item.kind == "reasoning" and event.item_id in (None, item.id):
            return None if item.done else item
        type = "custom_tool_call" if "custom_tool_call" in event.type else _TYPES[kind]
        return self._open(kind, OutputItem(type, event.item_id), event.output_index, out)

    def _keep_compaction(self, item: OutputItem) -> None:
        """Store a host's summary of the conversation, which is sent back unchanged."""
        if item.type == "compaction" and item.encrypted_content and item.encrypted_content not in self._summaries:
            self._summaries.add(item.encrypted_content)
            mark = encode_item_metadata(type="compaction", id=item.id, encrypted_content=item.encrypted_content)
            self._draft.redacted_thinking(mark or "")

    def _repeats(self, known: OpenItem, item: OutputItem) -> bool:
        """Return True if an item is the finished one at this position with another ID."""
        if known.kind == "call":
            return known.call_id == item.call_id
        return "".join(known.pieces) == "".join(_texts(item.content) + _texts(item.summary))

    def _close(self, known: OpenItem, item: OutputItem | None, out: list[StreamEvent]) -> None:
        known.done = True
        if known.kind == "message":
            self._close_message(known, item, out)
        elif known.kind == "reasoning":
            self._close_reasoning(known, item, out)
        else:
            self._close_call(known, item, out)

    def _close_message(self, known: OpenItem, item: OutputItem | None, out: list[StreamEvent]) -> None:
        final = "".join(_texts(item.content) if item else []) or "".join(
            [known.final_parts[at] for at in sorted(known.final_parts)]
        )
        if rest := _missing_suffix(known.pieces, final):
            known.pieces.append(rest)
            out.append(self._draft.text(known.block, rest))
        mark = (
            encode_item_metadata(id=item.id or known.id, phase=item.phase)
            if item
            else encode_item_metadata(id=known.id)
        )
        out.append(self._draft.close_text(known.block, mark, final or None))

    def _close_reasoning(self, known: OpenItem, item: OutputItem | None, out: list[StreamEvent]) -> None:
        parts: list[tuple[tuple[bool, int], str]] = []
        if item is not None:
            parts += [((False, at), text) for at, text in enumerate(_texts(item.summary))]
            parts += [((True, at), text) for at, text in enumerate(_texts(item.content))]
        parts = [part for part in parts if part[1]] or sorted(known.final_parts.items())
        if not known.pieces:
            for part, text in parts:
                self._switch_part(known, part, out)
                known.pieces.append(text)
                out.append(self._draft.thinking(known.block, text))
        elif rest := _missing_suffix(known.pieces, "".join([text for _, text in parts])):
            known.pieces.append(rest)
            out.append(self._draft.thinking(known.block, rest))
        mark = encode_item_metadata(
            type="reasoning",
            id=(item.id if item else None) or known.id,
            encrypted_content=item.encrypted_content if item else None,
            raw=True if known.part and known.part[0] else None,
        )
        out.append(self._draft.close_thinking(known.block, mark))

    def _switch_part(self, item: OpenItem, part: tuple[bool, int], out: list[StreamEvent]) -> None:
        """Open a new block for each part of the reasoning; the metadata of the last one contains their item."""
        if item.part is not None and item.part != part:
            out.append(
                self._draft.close_thinking(item.block, encode_item_metadata(part="raw" if item.part[0] else "summary"))
            )
            event = self._draft.open_thinking()
            item.block = event.index
            out.append(event)
        item.part = part

    def _close_call(self, known: OpenItem, item: OutputItem | None, out: list[StreamEvent]) -> None:
        if item is not None:
            self._name(known, item)
        arguments = item.input if item and known.custom else item.arguments if item else None
        final = (
            to_json(arguments).decode() if isinstance(arguments, dict) else arguments or known.final_parts.get(0) or ""
        )
        input: dict[str, Any] | None = None
        if known.custom:
            text = to_json({"input": final or "".join(known.pieces)}).decode()
            out.append(self._draft.arguments(known.block, text))
        elif rest := _missing_suffix(known.pieces, final):
            out.append(self._draft.arguments(known.block, rest))
        elif final and final != "".join(known.pieces):
            input = parse_call("", "", final).input or None  # The last value wins, if it is valid.
        mark = encode_item_metadata(
            id=(item.id if item else None) or known.id, namespace=item.namespace if item else None
        )
        out.append(self._draft.close_call(known.block, input=input, signature=mark))

    def _name(self, known: OpenItem, item: OutputItem) -> None:
        """Store an ID or a name that arrives only at the end."""
        late = item.call_id if not known.has_provider_id and item.call_id else None
        if late in self._call_ids:
            late = None
        if late or (item.name and item.name != known.name):
            known.call_id, known.name = late or known.call_id, item.name or known.name
            known.has_provider_id = known.has_provider_id or late is not None
            self._call_ids.add(known.call_id)
            self._draft.update_call(known.block, known.call_id, known.name)


def _could_be_same(known: OpenItem, kind: ItemKind, item: OutputItem) -> bool:
    """Return True if an open item may be an item of the final response with another ID."""
    return known.kind == kind and (
        kind != "call" or not (known.has_provider_id and item.call_id) or known.call_id == item.call_id
    )


def _texts(content: list[ResponsesPart] | str | None) -> list[str]:
    """Return the text of each part."""
    if content is None:
        return []
    return [content] if isinstance(content, str) else [part.text or part.refusal or "" for part in content]


def _missing_suffix(pieces: list[str], final: str) -> str:
    """Return the part of the finished text after its deltas; empty if the text differs."""
    shown = "".join(pieces)
    return final[len(shown) :] if len(final) > len(shown) and final.startswith(shown) else ""


_TERMINAL = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Events that end a stream, and the status of each."""


_LENGTH_REASONS = frozenset({"", "max_output_tokens", "max_tokens", "length"})


class ResponsesDecoder(StreamDecoder[Event]):
    """Decoder of one response; see `StreamDecoder`.

    Each message becomes a text block, each part of the reasoning a thinking block, each call a tool call. Server-side items
    (searches, code, images, hosted tools) create no block.
    """

    __slots__ = ("_items", "_lenient", "_reason", "_status")

    filter_reasons = frozenset({"content_filter", "safety", "moderation"})
    overflow_reasons = frozenset(
        {"model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded"}
    )
    error_fields = ("error", *StreamDecoder.error_fields)

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(profile)
        self._items = OutputItemAssembler(self.draft)
        self._lenient = LenientEventParser()
        self._status = ""
        self._reason = ""  # reason of an incomplete response

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one event of the stream."""
        if self.ended:
            return
        try:
            event = decode_responses_event(data)
        except DECODE_ERRORS:
            event = self._decode_irregular(name, data)
            if event is None:
                return
        if not event.type:
            event.type = name
        if event.type == "response.output_text.delta":  # the common case
            if not self._started:
                self._start(events)
            self._items.text(event, events)
        elif event.type == "error" or (event.error and not event.type.startswith("response.")):
            raise self._errors.reported_by_host(data)
        elif event.type in _TERMINAL:
            self._start(events)
            self._response_done(event.response or Answer(), _TERMINAL[event.type], events)
        elif event.type.startswith("response."):
            self._start(events)
            self._handle_event(event, events)
        else:
            self._check_unknown_object(data)

    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        try:
            answer = decode_response(body)
        except DECODE_ERRORS:
            answer = self._parse_leniently("", body, self._lenient.answer)
        if answer.error and answer.output is None:
            raise self._errors.reported_by_host(body)
        if answer.output is None:
            self._check_unknown_object(body)
            raise self._errors.invalid_response("The response has no output", "empty")
        self._start(out)
        self._response_done(answer, answer.status or "completed", out)

    def _convert(self, fields: dict[str, Any]) -> Event:
        return self._lenient.event(fields)

    def _close_blocks(self, out: list[StreamEvent]) -> None:
        self._items.close(out)

    def _handle_event(self, event: Event, out: list[StreamEvent]) -> None:
        """Process an event in the middle of the stream."""
        items = self._items
        match event.type.removeprefix("response."):
            case "output_item.added":
                if event.item is not None:
                    items.add(event.item, event.output_index, out)
            case "output_item.done":
                if event.item is not None:
                    items.end(event.item, event.output_index, out)
            case "refusal.delta":
                items.text(event, out)
            case "reasoning_summary_text.delta" | "reasoning_summary.delta":
                items.reasoning(event, out, raw=False)
            case "reasoning_text.delta" | "reasoning.delta":
                items.reasoning(event, out, raw=True)
            case "function_call_arguments.delta" | "custom_tool_call_input.delta":
                items.arguments(event, out)
            case "created" if event.response is not None:
                items.response_id = event.response.id or ""
            case done if done.endswith(".done"):
                self._part_done(event)
            case _:
                pass

    def _part_done(self, event: Event) -> None:
        """Process a complete part, which may not have been streamed before."""
        if event.type.endswith("_text.done"):
            self._items.part_done(event, event.text)
        elif event.type.endswith("refusal.done"):
            self._items.part_done(event, event.refusal)
        elif event.type.endswith("function_call_arguments.done"):
            self._items.part_done(event, event.arguments if isinstance(event.arguments, str) else None)
        elif event.type.endswith("custom_tool_call_input.done"):
            self._items.part_done(event, event.input)

    def _response_done(self, answer: Answer, status: str, out: list[StreamEvent]) -> None:
        self.complete = self.ended = True
        self._status = status
        self._record_usage(answer.usage)
        if answer.id and not self._items.response_id:
            self._items.response_id = answer.id
        self._items.complete_from_response(answer.output or [], out)
        self._reason = str((answer.incomplete_details or {}).get("reason") or "").lower()
        if status == "failed":
            raise self._errors.reported_by_host(
                {"error": answer.error or {"message": "The provider failed without an error message"}}
            )

    def _stop_reason(self) -> StopReason:
        if self._status == "cancelled":
            raise self._errors.provider_aborted("status cancelled")
        if self._status in ("queued", "in_progress"):
            raise self._errors.invalid_response(f"The response is not complete (status {self._status})", "not_ready")
        if self._status not in ("incomplete", "completed", "requires_action", ""):
            raise self._errors.unknown_stop(f"status {self._status}")
        if self._status != "incomplete":
            return "tool_use" if self._items.has_calls else "end_turn"
        self._raise_for_reason(self._reason, f"incomplete: {self._reason}")
        if self._reason not in _LENGTH_REASONS:
            raise self._errors.provider_aborted(f"incomplete: {self._reason}")
        return "max_tokens"

    def _check_unknown_object(self, data: bytes) -> dict[str, Any]:
        value = super()._check_unknown_object(data)
        if "choices" in value:
            raise self._errors.invalid_response(
                "The host uses Chat Completions, not Responses. Set `api` to chat", "other_api"
            )
        return value
