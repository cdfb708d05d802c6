"""Stored results of steps, as plain JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mainspring.errors import (
    AgentAbortedError,
    AgentError,
    AgentOutputError,
    DurableError,
    ErrorCode,
    ModelError,
    describe_failure,
    model_error,
)
from mainspring.events import RunStatus
from mainspring.loop import AgentStats, RunResult
from mainspring.messages import AgentMessage, Message, StopReason
from mainspring.messages.codec import strip_surrogates
from mainspring.redaction import redact_environment
from mainspring.tools import ToolResult
from mainspring.tools.execute import rebuild_exception

_T = TypeVar("_T")

_encoder = msgspec.json.Encoder(enc_hook=str)


class Failure(Struct, frozen=True):
    """An exception: the name of its class and its message. For a `ModelError`, its fields too."""

    type: str
    text: str
    fields: dict[str, Any] | None = None


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored result of a step.

    Attributes:
        at: When it finished.
        elapsed: Seconds that the run had been active by then.
        message: A model's response, or the part that was received.
        result: A tool's result.
        failure: The reason for a missing result.
        messages: Queued messages that joined.
        taken: The number of the last message among them.
    """

    at: datetime
    elapsed: float
    message: AgentMessage | None = None
    result: ToolResult | None = None
    failure: Failure | None = None
    messages: tuple[AgentMessage, ...] = ()
    taken: int = 0


class StoredResult(Struct, frozen=True, kw_only=True, rename={"output_or_none": "output"}):
    """A `RunResult` that can be stored."""

    status: RunStatus
    text: str
    output_or_none: Any
    output_error: str
    messages: tuple[AgentMessage, ...]
    stop_reason: StopReason | None
    stats: AgentStats
    run_id: str
    agent: str = ""
    failure: Failure | None

    @classmethod
    def from_result(cls, result: RunResult) -> StoredResult:
        """Convert a result, without its exception."""
        fields = {f: getattr(result, f) for f in cls.__struct_fields__ if f != "failure"}
        error = result.error
        failure = Failure(type(error).__name__, redact_environment(describe_failure(error))) if error else None
        return cls(**fields, failure=failure)

    def result(self) -> RunResult:
        """Convert back to a `RunResult`."""
        fields = {f: getattr(self, f) for f in self.__struct_fields__ if f != "failure"}
        return RunResult(**fields, error=_agent_error(self.failure) if self.failure else None)


def encode(value: Any) -> bytes:
    """Encode a record as JSON. A lone surrogate becomes U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(value, enc_hook=str)))


def decode(data: bytes, kind: type[_T]) -> _T:
    """Decode the output of `encode`.

    Raises:
        DurableError: If the data is invalid, for example, because other code stored it.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DurableError(
            f"This version cannot read the stored steps of the run ({error}). Finish the run with the version that started it."
        ) from None


_FIELDS = ("reason", "retryable", "retry_after", "status", "provider", "model", "request_id")


def to_stored_error(error: BaseException) -> Failure:
    """Convert an exception to its stored form."""
    if isinstance(error, ModelError):
        fields = {name: getattr(error, name) for name in _FIELDS}
        return Failure(type(error).__name__, redact_environment(str(error)), {**fields, "code": error.code.value})
    return Failure(type(error).__name__, redact_environment(describe_failure(error)))


def from_stored_error(failure: Failure, partial: AgentMessage | None = None) -> Exception:
    """Create an exception with the same message and class name: the known class, or a class of the same form."""
    if failure.fields is not None:
        fields = dict(failure.fields)
        code = ErrorCode(fields.pop("code"))
        return model_error(failure.text, code=code, partial=partial if isinstance(partial, Message) else None, **fields)
    return rebuild_exception(failure.type, failure.text)


def _agent_error(failure: Failure) -> AgentError:
    kinds = {kind.__name__: kind for kind in (AgentAbortedError, AgentOutputError)}
    return kinds.get(failure.type, AgentError)(failure.text)
