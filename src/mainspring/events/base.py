"""The base of all events, and an exception as data."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from mainspring.errors import AgentProviderError, ModelError
from mainspring.text import to_snake_case


class _Tag:
    """Returns the tag of an event's class, for the class and for its instances."""

    def __get__(self, event: Event | None, kind: type[Event]) -> str:
        return str(kind.__struct_config__.tag)


class Event(Struct, frozen=True, eq=False, omit_defaults=True, tag_field="type", tag=to_snake_case):
    """A fact about a run or a chat. Immutable, and JSON on every wire: see `mainspring.events.codec`.

    Attributes:
        type: The name in JSON: the class name in snake case.
        in_process: Fields for listeners in this process. They are not encoded.
    """

    type: ClassVar[_Tag] = _Tag()
    in_process: ClassVar[tuple[str, ...]] = ()


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception as data.

    Attributes:
        type: Name of its class.
        message: Its text.
        code: The `ErrorCode` of a failed model call; empty for other errors.
        reason: A more specific code, such as ``quota``.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait as requested by the server.
        status: HTTP status.
        provider: Name of the provider.
        model: ID of the model.
    """

    type: str
    message: str
    code: str = ""
    reason: str = ""
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None
    provider: str = ""
    model: str = ""

    @classmethod
    def from_exception(cls, error: BaseException, message: str | None = None) -> Self:
        """Describe an exception; the cause of an `AgentProviderError` is described in its place.

        Args:
            error: The exception.
            message: Text to use instead of its own.
        """
        cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
        text = str(error) if message is None else message
        if not isinstance(cause, ModelError):
            return cls(type=type(cause).__name__, message=text)
        return cls(
            type=type(cause).__name__,
            message=text,
            code=cause.code.value,
            reason=cause.reason,
            retryable=cause.retryable,
            retry_after=cause.retry_after,
            status=cause.status,
            provider=cause.provider or "",
            model=cause.model or "",
        )
