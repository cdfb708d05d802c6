"""Chat Completions answers to events, streamed or whole, with the oddities of the many hosts that speak this protocol."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.errors import InvalidResponseError, ModelError, NetworkError
from mainspring.events import Draft, StreamEvent
from mainspring.messages import Message, StopReason
from mainspring.models.classify import classify_error
from mainspring.models.profile import Profile
from mainspring.models.usage import normalize_usage, priced, told_cost
from mainspring.models.wire.openai_chat.calls import CallAssembly
from mainspring.models.wire.openai_chat.chunks import Choice, Chunk, Delta, decode_chunk, loose_chunk, loose_object
from mainspring.models.wire.openai_chat.reasoning import Reasoning

_STOP_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "max_tokens",
    "stop_sequence": "stop_sequence",
}
_FILTERED = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content"})
_BROKEN = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource"})


class ChatDecoder:
    """Decodes one answer; see `WireDecoder`."""

    def __init__(self, profile: Profile) -> None:
        self.draft = Draft(profile.provider, profile.model)
        self.complete = False
        self.ended = False
        self._profile = profile
        self._started = False
        self._text = -1  # the open text block
        self._text_mark: str | None = None
        self._reasoning = Reasoning(self.draft)
        self._calls = CallAssembly(self.draft)
        self._finish = ""
        self._stopped_at: str | int | None = None

    def feed(self, name: str, data: bytes, out: list[StreamEvent]) -> None:
        """Take one event of the stream."""
        if data == b"[DONE]":
            self.complete = self.ended = True
            return
        try:
            chunk = decode_chunk(data)
        except (msgspec.DecodeError, UnicodeError):
            chunk = self._loose(data)
        if name == "error" or chunk.error:
            raise self._failed(data)
        if chunk.usage or chunk.x_groq:
            self._usage(chunk.usage or (chunk.x_groq or {}).get("usage"))
        choices = chunk.choices
        if not choices:
            if choices is None and not chunk.usage:
                self._reject_foreign(data)
            return
        choice = choices[0]
        if choice.index or len(choices) > 1:
            choice = next((c for c in choices if not c.index), None)
            if choice is None:
                return
        self._choice(choice, chunk, out)

    def whole(self, body: bytes, out: list[StreamEvent]) -> None:
        """Take a complete answer that was not streamed."""
        self.feed("", body, out)
        if not self._started:
            raise self._invalid("The answer holds no choices", "empty")
        self.complete = True

    def finish(self, out: list[StreamEvent]) -> None:
        """The stream has ended."""
        if not self.complete:
            if not self._started:
                raise self._invalid("The answer is empty", "empty")
            raise NetworkError(
                f"The connection to {self._profile.provider} ended before the answer was complete",
                reason="stream_cut",
                provider=self._profile.provider,
                model=self._profile.model,
                partial=self.draft.message(),
            )
        if not self._started:
            raise self._invalid("The answer holds no choices", "empty")
        self._close_thinking(out)
        self._close_text(out)
        self._calls.close(out)
        if not len(self.draft):
            out.append(self.draft.open_text())
            self._text = 0
            self._close_text(out)
        self._check_finish()
        out.append(self.draft.done(self._stop_reason()))

    def _choice(self, choice: Choice, chunk: Chunk, out: list[StreamEvent]) -> None:
        if not self._started:
            self._started = True
            self._calls.response_id = chunk.id or ""
            out.append(self.draft.start())
        delta = choice.delta
        if delta is None and choice.message is not None and not len(self.draft):
            delta = choice.message
        if delta is not None:
            content = delta.content
            if type(content) is str and content and self._text >= 0:
                if delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                    self._delta(delta, out)
                elif delta.thinking or delta.refusal or delta.function_call or delta.extra_content:
                    self._delta(delta, out)
                else:
                    out.append(self.draft.text(self._text, content))  # what nearly every delta is
            else:
                self._delta(delta, out)
        if choice.finish_reason:
            self._finish = choice.finish_reason.lower()
            self.complete = True
            self._stopped_at = choice.stop_reason
        if choice.usage:
            self._usage(choice.usage)

    def _delta(self, delta: Delta, out: list[StreamEvent]) -> None:
        thought = delta.reasoning_content or delta.reasoning or delta.thinking
        if thought or delta.reasoning_details:
            mark = "reasoning_content" if delta.reasoning_content else "reasoning" if delta.reasoning else "thinking"
            self._close_text(out)
            self._reasoning.add(thought or "", mark, delta.reasoning_details, out)
        content = delta.content
        if type(content) is str:
            if content:
                self._add_text(content, out)
        elif content:
            for part in content:
                self._part(part, out)
        if delta.refusal:
            self._add_text(delta.refusal, out)
        if delta.extra_content:
            self._text_mark = msgspec.json.encode(delta.extra_content).decode()
        if delta.tool_calls or delta.function_call:
            self._close_thinking(out)
            self._close_text(out)
            for call in delta.tool_calls or ():
                self._calls.add(call, out)
            if delta.function_call:
                self._calls.add_legacy(delta.function_call, out)

    def _part(self, part: Any, out: list[StreamEvent]) -> None:
        if isinstance(part, str):
            self._add_text(part, out)
            return
        if not isinstance(part, dict):
            return
        fields: dict[str, Any] = part  # pyright: ignore[reportUnknownVariableType]
        thought = fields.get("thinking")
        if thought:
            inner = thought if isinstance(thought, list) else [thought]  # pyright: ignore[reportUnknownVariableType]
            text = "".join([p if isinstance(p, str) else str(p.get("text") or "") for p in inner])  # pyright: ignore
            self._close_text(out)
            self._reasoning.add(text, "content", None, out)
            return
        text = fields.get("text") or fields.get("refusal")
        if isinstance(text, str):
            self._add_text(text, out)

    def _add_text(self, text: str, out: list[StreamEvent]) -> None:
        if not text:
            return
        if self._text < 0:
            self._close_thinking(out)
            event = self.draft.open_text()
            self._text = event.index
            out.append(event)
        out.append(self.draft.text(self._text, text))

    def _close_text(self, out: list[StreamEvent]) -> None:
        if self._text >= 0:
            out.append(self.draft.close_text(self._text, self._text_mark))
            self._text = -1
            self._text_mark = None

    def _close_thinking(self, out: list[StreamEvent]) -> None:
        self._reasoning.close(out)

    def _usage(self, raw: Any) -> None:
        if isinstance(raw, dict):
            usage = normalize_usage(raw)  # pyright: ignore[reportUnknownArgumentType]
            if usage is not None:
                self.draft.usage = priced(usage, self._profile.info.prices, told_cost(raw))  # pyright: ignore[reportUnknownArgumentType]

    def _stop_reason(self) -> StopReason:
        known = _STOP_REASONS.get(self._finish)
        if known is not None:
            return known
        if self._calls.count:
            return "tool_use"
        return "stop_sequence" if isinstance(self._stopped_at, str) and self._stopped_at else "end_turn"

    def _check_finish(self) -> None:
        profile, finish = self._profile, self._finish
        if finish in _FILTERED:
            raise ModelError(
                f"{profile.provider} stopped the answer with its content filter ({finish})",
                reason="content_filter",
                provider=profile.provider,
                model=profile.model,
                partial=self.draft.message(),
            )
        if finish in _BROKEN:
            raise NetworkError(
                f"{profile.provider} broke off the answer (finish reason {finish})",
                reason="stream_cut",
                provider=profile.provider,
                model=profile.model,
                partial=self.draft.message(),
            )

    def _loose(self, data: bytes) -> Chunk:
        try:
            return loose_chunk(loose_object(data))
        except (ValueError, RecursionError) as error:
            raise self._unreadable(data) from error

    def _failed(self, data: bytes) -> ModelError:
        error = classify_error(None, {}, data, provider=self._profile.provider, model=self._profile.model)
        error.partial = self.draft.message() if self._started else None
        return error

    def _reject_foreign(self, data: bytes) -> None:
        """An object without choices is an error in some hosts' form, or harmless."""
        try:
            value = loose_object(data)
        except ValueError:
            return
        if value.get("object") == "error" or (not self._started and ("detail" in value or "message" in value)):
            raise self._failed(data)

    def _unreadable(self, data: bytes) -> ModelError:
        start = data[:200].decode("utf-8", "replace").strip()
        if start[:1] == "<":
            return self._invalid("The host answered with a web page instead of JSON; is the base URL right?", "html")
        return self._invalid(f"The answer is no JSON: {start[:120]!r}", "not_json")

    def _invalid(self, text: str, reason: str) -> InvalidResponseError:
        profile = self._profile
        return InvalidResponseError(
            f"{text} ({profile.provider}, {profile.base_url})",
            reason=reason,
            provider=profile.provider,
            model=profile.model,
            partial=self.draft.message() if self._started else None,
        )


def decode_response(body: bytes, profile: Profile) -> Message:
    """The message of a whole, not streamed, answer.

    Raises:
        ModelError: If it is an error or cannot be understood.
    """
    decoder = ChatDecoder(profile)
    events: list[StreamEvent] = []
    decoder.whole(body, events)
    decoder.finish(events)
    return events[-1].partial
