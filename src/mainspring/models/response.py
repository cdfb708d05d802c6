"""The responses of `LLMClient`: a success with its result, or a failure with its error code."""

from __future__ import annotations

from typing import Generic, TypeGuard, TypeVar

from msgspec import Struct

from mainspring.errors import ErrorCode, ModelError
from mainspring.messages import Message, StopReason, Usage
from mainspring.models.port import ModelResponse

_T = TypeVar("_T")

ModelErrorCode = ErrorCode
"""Alias of `ErrorCode`."""


class Success(Struct, Generic[_T], frozen=True, eq=False):
    """A successful call; ``result`` is its value."""

    result: _T
    message: str = ""

    @property
    def success(self) -> bool:
        """Always True."""
        return True


class Failure(Struct, frozen=True, eq=False):
    """A failed call.

    Attributes:
        error: Error code.
        message: Description of the error, its cause, and the fix.
        retry_after: Seconds to wait, if the server sent them.
        cause: The original error with all details.
    """

    error: ErrorCode
    message: str
    retry_after: float | None = None
    cause: ModelError | None = None

    @property
    def success(self) -> bool:
        """Always False."""
        return False


class InvokeResult(Struct, frozen=True, eq=False):
    """The result of `LLMClient.invoke`."""

    response: ModelResponse

    @property
    def content(self) -> str:
        """Text of the response."""
        return self.response.text

    @property
    def text(self) -> str:
        """Text of the response, like ``content``."""
        return self.response.text

    @property
    def message(self) -> Message:
        """The response with all its blocks, for example, tool calls."""
        return self.response.message

    @property
    def usage(self) -> Usage:
        """Token counts; zero if the provider reported none."""
        return self.response.usage

    @property
    def stop_reason(self) -> StopReason:
        """Reason why the model stopped."""
        return self.response.stop_reason


ModelResult = Success[_T] | Failure
"""A success or a failure; ``match`` on the class, or use the guards."""


def is_model_success(result: Success[_T] | Failure) -> TypeGuard[Success[_T]]:
    """Return True if the call succeeded."""
    return isinstance(result, Success)


def is_model_error(result: Success[_T] | Failure) -> TypeGuard[Failure]:
    """Return True if the call failed."""
    return isinstance(result, Failure)


def success_response(result: _T, message: str = "") -> Success[_T]:
    """Return a success."""
    return Success(result, message)


def error_response(error: ErrorCode | str, message: str, retry_after_ms: float | None = None) -> Failure:
    """Return a failure.

    Args:
        error: Error code, or its name.
        message: Description of the error.
        retry_after_ms: Milliseconds to wait before a retry, if known.
    """
    return Failure(ErrorCode(error), message, None if retry_after_ms is None else retry_after_ms / 1000)


def failure_from_error(error: ModelError) -> Failure:
    """Return the failure for a `ModelError`."""
    return Failure(error.code, error.message, error.retry_after, error)
