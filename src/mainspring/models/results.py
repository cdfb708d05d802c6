"""The answer of `LLMClient`: a success or a failure, never an exception."""

from __future__ import annotations

from typing import Generic, TypeGuard, TypeVar

from msgspec import Struct

from mainspring.errors import ErrorCode, ModelError

T = TypeVar("T")

ModelErrorCode = ErrorCode
"""The same under its other name."""


class Success(Struct, Generic[T], frozen=True, eq=False):
    """It worked; ``result`` is what was asked for."""

    result: T
    message: str = ""

    @property
    def success(self) -> bool:
        """True."""
        return True


class Failure(Struct, frozen=True, eq=False):
    """It did not work.

    Attributes:
        error: The code.
        message: What happened, why, what to do.
        retry_after: Seconds the server asked to wait, if it did.
        cause: The error itself, with everything known about it.
    """

    error: ErrorCode
    message: str
    retry_after: float | None = None
    cause: ModelError | None = None

    @property
    def success(self) -> bool:
        """False."""
        return False


ModelResult = Success[T] | Failure
"""Either; ``match`` on the class, or use the guards."""


def is_model_success(result: Success[T] | Failure) -> TypeGuard[Success[T]]:
    """Whether it worked."""
    return isinstance(result, Success)


def is_model_error(result: Success[T] | Failure) -> TypeGuard[Failure]:
    """Whether it did not."""
    return isinstance(result, Failure)


def success_response(result: T, message: str = "") -> Success[T]:
    """A success."""
    return Success(result, message)


def error_response(error: ErrorCode | str, message: str, retry_after_ms: float | None = None) -> Failure:
    """A failure.

    Args:
        error: The code, or its name.
        message: What happened.
        retry_after_ms: Milliseconds to wait before another try, if that is known.
    """
    return Failure(ErrorCode(error), message, None if retry_after_ms is None else retry_after_ms / 1000)


def failure_from_error(error: ModelError) -> Failure:
    """The failure that a `ModelError` means."""
    return Failure(error.code, error.message, error.retry_after, error)
