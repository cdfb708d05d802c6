"""Errors of a response, with the same texts for every wire protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.errors import ContextExceededError, InvalidResponseError, ModelError, NetworkError
from mainspring.lazy import lazy_function
from mainspring.messages import Message
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.profile import ModelProfile

if TYPE_CHECKING:
    from mainspring.models.errors import classify_error
else:
    classify_error = lazy_function("mainspring.models.errors", "classify_error")

_E = TypeVar("_E", bound=ModelError)


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

    def truncated(self, text: str = "The connection closed before the response was complete") -> NetworkError:
        """Return the error of an incomplete response."""
        return self._build(NetworkError, f"{text} ({self._model_label}).", "stream_cut")

    def invalid_response(self, text: str, reason: str) -> InvalidResponseError:
        """Return the error of a response that cannot be decoded."""
        return self._build(InvalidResponseError, f"{text} ({self._model_label}).", reason)

    def invalid_json(self, data: bytes) -> InvalidResponseError:
        """Return the error of a response that is not JSON."""
        start = data[:200].decode("utf-8", "replace").strip()
        if start[:1] == "<":
            return self.invalid_response("The host returned a web page instead of JSON. Check the base URL", "html")
        return self.invalid_response(f"The response is not valid JSON. It starts with: {start[:120]!r}", "not_json")

    @property
    def _model_label(self) -> str:
        return f"{self._profile.provider}, {self._profile.base_url}"

    def _build(self, kind: type[_E], text: str, reason: str) -> _E:
        profile = self._profile
        return kind(text, reason=reason, provider=profile.provider, model=profile.model, partial=self._partial())

    def _partial(self) -> Message | None:
        return self._draft.message() if len(self._draft) else None
