"""What can be wrong with an answer, in the same words for every wire protocol."""

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
    """Makes the errors of one answer; each carries what had arrived of it.

    Args:
        draft: What has arrived.
        profile: The model that answers.
    """

    __slots__ = ("_draft", "_profile")

    def __init__(self, draft: MessageBuilder, profile: ModelProfile) -> None:
        self._draft = draft
        self._profile = profile

    def reported_by_host(self, body: bytes | Mapping[str, Any]) -> ModelError:
        """The host says itself that it failed, inside an answer that was otherwise accepted."""
        profile = self._profile
        error = classify_error(None, {}, body, provider=profile.provider, model=profile.model)
        error.partial = self._partial()
        return error

    def content_filtered(self, why: str) -> ModelError:
        """The host's content filter stopped the answer; ``why`` is its word for it."""
        return self._build(
            ModelError, f"{self._profile.provider} stopped the answer with its content filter ({why})", "content_filter"
        )

    def context_exceeded(self, why: str) -> ContextExceededError:
        """The conversation does not fit; ``why`` is the host's word for it."""
        return self._build(
            ContextExceededError, f"The conversation does not fit the model's window ({why})", "overflow"
        )

    def provider_aborted(self, why: str) -> NetworkError:
        """The host gave up in the middle; ``why`` is its word for it."""
        return self.truncated(f"The provider broke off the answer ({why})")

    def truncated(self, text: str = "The connection ended before the answer was complete") -> NetworkError:
        """The answer is not complete."""
        return self._build(NetworkError, f"{text} ({self._model_label})", "stream_cut")

    def invalid_response(self, text: str, reason: str) -> InvalidResponseError:
        """The answer cannot be understood."""
        return self._build(InvalidResponseError, f"{text} ({self._model_label})", reason)

    def invalid_json(self, data: bytes) -> InvalidResponseError:
        """The answer is no JSON."""
        start = data[:200].decode("utf-8", "replace").strip()
        if start[:1] == "<":
            return self.invalid_response(
                "The host answered with a web page instead of JSON; is the base URL right?", "html"
            )
        return self.invalid_response(f"The answer is no JSON: {start[:120]!r}", "not_json")

    @property
    def _model_label(self) -> str:
        return f"{self._profile.provider}, {self._profile.base_url}"

    def _build(self, kind: type[_E], text: str, reason: str) -> _E:
        profile = self._profile
        return kind(text, reason=reason, provider=profile.provider, model=profile.model, partial=self._partial())

    def _partial(self) -> Message | None:
        return self._draft.message() if len(self._draft) else None
