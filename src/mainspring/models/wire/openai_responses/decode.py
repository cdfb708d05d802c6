"""Responses answers to events, streamed or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.messages import StopReason
from mainspring.models.codec.errors import ResponseErrors
from mainspring.models.json_values import DECODE_ERRORS, parse_object_leniently
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.profile import ModelProfile
from mainspring.models.usage import normalize_usage, reported_cost, with_cost
from mainspring.models.wire.openai_responses.items import OutputItemAssembler
from mainspring.models.wire.openai_responses.payloads import (
    Answer,
    Event,
    LenientEventParser,
    decode_event,
    decode_response,
)

if TYPE_CHECKING:
    from mainspring.models.errors import ErrorBody
else:  # most answers are none
    ErrorBody = lazy_function("mainspring.models.errors", "ErrorBody")

_TERMINAL = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Events that end a stream, and the status they stand for."""

_LENGTH_REASONS = frozenset({"", "max_output_tokens", "max_tokens", "length"})
_FILTERED = frozenset({"content_filter", "safety", "moderation"})
_OVERFLOWN = frozenset({"model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded"})


class ResponsesDecoder:
    """Decodes one answer; see `WireDecoder`.

    Each message becomes a text block, each part of the reasoning a thinking block, each call a tool call. What the host does by
    itself (searches, code, images, tools of its own) gives no block.

    Args:
        profile: The model that answers.
    """

    __slots__ = (
        "_errors",
        "_items",
        "_loose",
        "_profile",
        "_reason",
        "_started",
        "_status",
        "complete",
        "draft",
        "ended",
    )

    def __init__(self, profile: ModelProfile) -> None:
        self.draft = MessageBuilder(profile.provider, profile.model)
        self.complete = False
        self.ended = False
        self._profile = profile
        self._errors = ResponseErrors(self.draft, profile)
        self._items = OutputItemAssembler(self.draft)
        self._loose: LenientEventParser | None = None
        self._started = False
        self._status = ""
        self._reason = ""  # why it is incomplete

    def feed(self, name: str, data: bytes, out: list[StreamEvent]) -> None:
        """Take one event of the stream."""
        if self.ended:
            return
        if data == b"[DONE]":
            self.complete = self.ended = True
            return
        try:
            event = decode_event(data)
        except DECODE_ERRORS:
            event = self._decode_leniently(name, data)
        if not event.type:
            event.type = name
        if event.type == "response.output_text.delta":  # what nearly every event is
            if not self._started:
                self._start(out)
            self._items.text(event, out)
        elif event.type == "error" or (event.error and not event.type.startswith("response.")):
            raise self._errors.told(data)
        elif event.type in _TERMINAL:
            self._start(out)
            self._response_done(event.response or Answer(), _TERMINAL[event.type], out)
        elif event.type.startswith("response."):
            self._start(out)
            self._take(event, out)
        elif not self._started:
            self._check_foreign(data)

    def whole(self, body: bytes, out: list[StreamEvent]) -> None:
        """Take a complete answer that was not streamed."""
        if not body:
            raise self._errors.invalid("The answer is empty", "empty")
        try:
            answer = decode_response(body)
        except DECODE_ERRORS:
            answer = self._loose_events().answer(self._object("", body))
        if answer.error and answer.output is None:
            raise self._errors.told(body)
        if answer.output is None:
            self._check_foreign(body)
            raise self._errors.invalid("The answer holds no output", "empty")
        self._start(out)
        self._response_done(answer, answer.status or "completed", out)

    def finish(self, out: list[StreamEvent]) -> None:
        """The stream has ended."""
        if not self._started:
            raise self._errors.invalid("The answer is empty", "empty")
        if not self.complete:
            raise self._errors.cut()
        self._items.close(out)
        if not len(self.draft):
            event = self.draft.open_text()
            out += [event, self.draft.close_text(event.index)]
        if self._status == "cancelled":
            raise self._errors.broken("status cancelled")
        if self._status in ("queued", "in_progress"):
            raise self._errors.invalid(f"The answer is not ready (status {self._status})", "not_ready")
        if self._status == "incomplete":
            self._check_incomplete()
        out.append(self.draft.done(self._stop_reason()))

    def _start(self, out: list[StreamEvent]) -> None:
        if not self._started:
            self._started = True
            out.append(self.draft.start())

    def _take(self, event: Event, out: list[StreamEvent]) -> None:
        """An event in the middle of the stream."""
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
                items.answer_id = event.response.id or ""
            case done if done.endswith(".done"):
                self._part_done(event)
            case _:
                pass

    def _part_done(self, event: Event) -> None:
        """A part is complete: it may be the first and only time that it is told."""
        if event.type.endswith("_text.done"):
            self._items.told(event, event.text)
        elif event.type.endswith("refusal.done"):
            self._items.told(event, event.refusal)
        elif event.type.endswith("function_call_arguments.done"):
            self._items.told(event, event.arguments if isinstance(event.arguments, str) else None)
        elif event.type.endswith("custom_tool_call_input.done"):
            self._items.told(event, event.input)

    def _response_done(self, answer: Answer, status: str, out: list[StreamEvent]) -> None:
        self.complete = self.ended = True
        self._status = status
        self._usage(answer)
        if answer.id and not self._items.answer_id:
            self._items.answer_id = answer.id
        self._items.fill(answer.output or [], out)
        self._reason = str((answer.incomplete_details or {}).get("reason") or "").lower()
        if status == "failed":
            raise self._errors.told({"error": answer.error or {"message": "The provider failed and gave no reason"}})

    def _usage(self, answer: Answer) -> None:
        usage = normalize_usage(answer.usage) if answer.usage else None
        if answer.usage and usage is not None:
            self.draft.usage = with_cost(usage, self._profile.info, reported_cost(answer.usage))

    def _check_incomplete(self) -> None:
        if self._reason in _FILTERED:
            raise self._errors.content_filtered(f"incomplete: {self._reason}")
        if self._reason in _OVERFLOWN:
            raise self._errors.context_exceeded(f"incomplete: {self._reason}")
        if self._reason not in _LENGTH_REASONS:
            raise self._errors.broken(f"incomplete: {self._reason}")

    def _stop_reason(self) -> StopReason:
        if self._status == "incomplete":
            return "max_tokens"
        return "tool_use" if self._items.has_calls else "end_turn"

    def _decode_leniently(self, name: str, data: bytes) -> Event:
        return self._loose_events().event(self._object(name, data))

    def _loose_events(self) -> LenientEventParser:
        if self._loose is None:
            self._loose = LenientEventParser()
        return self._loose

    def _object(self, name: str, data: bytes) -> dict[str, object]:
        try:
            return parse_object_leniently(data)
        except (ValueError, RecursionError) as error:
            told = name == "error" or "error" in ErrorBody(data).fields
            raise (self._errors.told(data) if told else self._errors.unreadable(data)) from error

    def _check_foreign(self, data: bytes) -> None:
        """An object that is no event is a sign of life, or an error in the form of some host."""
        try:
            value = parse_object_leniently(data)
        except ValueError:
            return
        if any(name in value for name in ("error", "errors", "detail", "message")) or value.get("object") == "error":
            raise self._errors.told(data)
        if "choices" in value:
            raise self._errors.invalid("The host speaks Chat Completions, not Responses (setting `api`)", "other_api")
