"""Shared part of the wire decoders: start, errors, lenient decoding, usage, failures, and the end of one response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from mainspring.errors import ContextExceededError, InvalidResponseError, ModelError, NetworkError
from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.messages import Message, StopReason, ToolDefinition
from mainspring.models.codec.text import CALL_ENDS, SPECIAL_TOKENS
from mainspring.models.json_values import as_dict, parse_object_leniently
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.profile import ModelProfile
from mainspring.models.usage import normalize_usage, reported_cost, with_cost

if TYPE_CHECKING:
    from mainspring.models.codec.text_calls import has_unread_calls
    from mainspring.models.errors import ErrorBody, classify_error, is_error_object
else:
    has_unread_calls = lazy_function("mainspring.models.codec.text_calls", "has_unread_calls")
    ErrorBody = lazy_function("mainspring.models.errors", "ErrorBody")
    classify_error = lazy_function("mainspring.models.errors", "classify_error")
    is_error_object = lazy_function("mainspring.models.errors", "is_error_object")

_KEEP_ALIVE_NAMES = frozenset({"ping", "keepalive", "keep-alive", "heartbeat"})
_NOTHING = frozenset({b"", b"null", b"[]", b'""'})

_E = TypeVar("_E")
_F = TypeVar("_F", bound=ModelError)
_T = TypeVar("_T")


class ResponseErrors:
    """Creates the errors of one response; each contains the content received so far.

    Args:
        draft: Message received so far.
        profile: Model that responds.
    """

    __slots__ = ("_draft", "_profile")

    def __init__(self, draft: MessageBuilder, profile: ModelProfile) -> None:
        self._draft = draft
        self._profile = profile

    def reported_by_host(self, body: bytes | Mapping[str, Any]) -> ModelError:
        """Return the error that the host reports inside an accepted response."""
        profile = self._profile
        error = classify_error(None, {}, body, provider=profile.provider, model=profile.model)
        error.partial = self._partial()
        return error

    def content_filtered(self, why: str) -> ModelError:
        """Return the error of a content filter; ``why`` is the host's term."""
        return self._build(
            ModelError,
            f"The content filter of {self._profile.provider} stopped the response ({why}).",
            "content_filter",
        )

    def context_exceeded(self, why: str) -> ContextExceededError:
        """Return the error of an exceeded context window; ``why`` is the host's term."""
        return self._build(
            ContextExceededError,
            f"The conversation exceeds the model's context window ({why}). Compact it or start a new session.",
            "overflow",
        )

    def provider_aborted(self, why: str) -> NetworkError:
        """Return the error of a host that failed during the response; ``why`` is the host's term."""
        return self.truncated(f"The provider stopped the response early ({why})")

    def unknown_stop(self, why: str) -> InvalidResponseError:
        """Return the error of a response that ended for an unknown reason; ``why`` is the host's term."""
        return self.invalid_response(
            f"The response ended for an unknown reason and may be incomplete ({why})", "unknown_stop"
        )

    def truncated(self, text: str = "The connection closed before the response was complete") -> NetworkError:
        """Return the error of an incomplete response."""
        return self._build(NetworkError, f"{text} ({self._model_label}).", "stream_cut")

    def invalid_response(self, text: str, reason: str) -> InvalidResponseError:
        """Return the error of a response that cannot be decoded."""
        return self._build(InvalidResponseError, f"{text} ({self._model_label}).", reason)

    def empty(self) -> InvalidResponseError:
        """Return the error of a response without any content, which is usually a short failure of a gateway, so it is retried."""
        error = self.invalid_response("The response is empty", "empty")
        error.retryable = True
        return error

    def invalid_json(self, data: bytes) -> InvalidResponseError:
        """Return the error of a response that is not JSON."""
        start = data[:200].decode("utf-8", "replace").strip()
        if start[:1] == "<":
            return self.invalid_response("The host returned a web page instead of JSON. Check the base URL", "html")
        return self.invalid_response(f"The response is not valid JSON. It starts with: {start[:120]!r}", "not_json")

    @property
    def _model_label(self) -> str:
        return f"{self._profile.provider}, {self._profile.base_url}"

    def _build(self, kind: type[_F], text: str, reason: str) -> _F:
        profile = self._profile
        return kind(text, reason=reason, provider=profile.provider, model=profile.model, partial=self._partial())

    def _partial(self) -> Message | None:
        return self._draft.message() if len(self._draft) else None


class StreamDecoder(ABC, Generic[_E]):
    """Base of the decoders; see `WireDecoder`. A protocol adds ``feed``, the typed decoding of its events of type ``_E``.

    An empty response becomes a message with one empty text block, so that content is never empty.

    Args:
        profile: Model that responds.
    """

    __slots__ = ("_errors", "_profile", "_started", "complete", "draft", "ended", "has_unparsed_calls", "tools")

    filter_reasons: ClassVar[frozenset[str]] = frozenset()
    """Finish reasons of a content filter."""

    overflow_reasons: ClassVar[frozenset[str]] = frozenset()
    """Finish reasons of an exceeded context window."""

    abort_reasons: ClassVar[frozenset[str]] = frozenset()
    """Finish reasons of a host that failed during the response."""

    known_reasons: ClassVar[frozenset[str] | None] = None
    """All other finish reasons: one that is in none of these sets is an error, never a success; ``None`` accepts all."""

    error_fields: ClassVar[tuple[str, ...]] = ("detail", "message", "errors")
    """Fields that make an unknown object an error in the format of some host."""

    completes_at_done_mark: ClassVar[bool] = True
    """Whether ``[DONE]`` completes a response without a finish reason."""

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self.complete = self.ended = self.has_unparsed_calls = False
        self.tools: Sequence[ToolDefinition] = ()
        self._reset()

    def decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        """Decode a complete response that was not streamed."""
        if not body:
            raise self._errors.empty()
        self._decode_body(body, out)

    def finish(self, out: list[StreamEvent]) -> None:
        """Handle the end of the stream."""
        if not self._started:
            raise self._errors.empty()
        if not self.complete:
            raise self._errors.truncated()
        self._close_blocks(out)
        if not len(self.draft):
            event = self.draft.open_text()
            out += [event, self.draft.close_text(event.index)]
        done = self.draft.done(self._stop_reason())
        out.append(done)
        if self.tools and done.reason == "end_turn" and not done.message.tool_uses:
            text = done.message.text or done.message.thinking
            if text.rstrip()[-1:] in CALL_ENDS or any(token in text for token in SPECIAL_TOKENS):
                self.has_unparsed_calls = self.has_unparsed_calls or has_unread_calls(text, self.tools)

    @abstractmethod
    def _convert(self, fields: dict[str, Any]) -> _E:
        """Return the event of an object whose fields may have any type."""

    @abstractmethod
    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        """Decode a body that is not empty."""

    @abstractmethod
    def _close_blocks(self, out: list[StreamEvent]) -> None:
        """Close all open blocks."""

    @abstractmethod
    def _stop_reason(self) -> StopReason:
        """Return the stop reason, or raise an error if it is a failure."""

    def _reset(self) -> None:
        """Start with an empty message."""
        self.draft = MessageBuilder(self._profile.provider, self._profile.model)
        self._errors = ResponseErrors(self.draft, self._profile)
        self._started = False

    def _start(self, out: list[StreamEvent]) -> None:
        """Add the first event, once."""
        if not self._started:
            self._started = True
            out.append(self.draft.start())

    def _decode_irregular(self, name: str, data: bytes) -> _E | None:
        """Decode an event that the typed decoder rejected; return ``None`` for the mark of the end, and for keep-alives."""
        if data.strip() == b"[DONE]":
            self.ended = True
            self.complete = self.complete or self.completes_at_done_mark
            return None
        if name != "error" and (name in _KEEP_ALIVE_NAMES or data.strip() in _NOTHING or data.lstrip()[:1] == b":"):
            return None  # Gateways also send comments of the stream as data.
        return self._parse_leniently(name, data, self._convert)

    def _parse_leniently(self, name: str, data: bytes, convert: Callable[[dict[str, Any]], _T]) -> _T:
        try:
            return convert(parse_object_leniently(data))
        except (ValueError, RecursionError) as error:
            is_error = name == "error" or "error" in ErrorBody(data).fields
            raise (self._errors.reported_by_host(data) if is_error else self._errors.invalid_json(data)) from error

    def _check_unknown_object(self, data: bytes) -> dict[str, Any]:
        """Check an object that is not an event: a keep-alive, or an error in the format of some host.

        Returns:
            Its fields; empty after the start of the response.
        """
        try:
            value = parse_object_leniently(data)
        except ValueError:
            return {}
        if is_error_object(value) or (not self._started and any(field in value for field in self.error_fields)):
            raise self._errors.reported_by_host(data)
        return {} if self._started else value

    def _record_usage(self, raw: object) -> None:
        """Store token counts in OpenAI's form; zeros do not replace earlier counts."""
        fields = as_dict(raw)
        usage = normalize_usage(fields) if fields else None
        if fields and usage is not None and (usage.total_tokens or self.draft.usage is None):
            self.draft.usage = with_cost(usage, self._profile.info, reported_cost(fields))

    def _raise_for_reason(self, reason: str, text: str) -> None:
        """Raise an error if a finish reason is a failure; ``text`` contains the host's term."""
        if reason in self.filter_reasons:
            raise self._errors.content_filtered(text)
        if reason in self.overflow_reasons:
            raise self._errors.context_exceeded(text)
        if reason in self.abort_reasons:
            raise self._errors.provider_aborted(text)
        if reason and self.known_reasons is not None and reason not in self.known_reasons:
            raise self._errors.unknown_stop(text)
