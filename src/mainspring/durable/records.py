"""What steps gave, as it is kept: plain JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mainspring.errors import (
    AgentAbortedError,
    AgentError,
    DurableError,
    ErrorCode,
    ModelError,
    model_error,
)
from mainspring.events import RunStatus
from mainspring.loop import AgentStats, RunResult
from mainspring.messages import AgentMessage, Message, StopReason
from mainspring.messages.codec import strip_surrogates
from mainspring.redaction import redact
from mainspring.tools import ToolResult
from mainspring.tools.execute import rebuild_exception

T = TypeVar("T")

_encoder = msgspec.json.Encoder(enc_hook=str)


class Failure(Struct, frozen=True):
    """An exception: the name of its class and what it says; of a `ModelError` the fields too."""

    type: str
    text: str
    fields: dict[str, Any] | None = None


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step gave.

    Attributes:
        at: When it was done.
        elapsed: Seconds that the run had been at work by then.
        message: A model's answer, or as much of it as there was.
        result: What a tool gave.
        failure: Why there is none.
        messages: What was waiting and joined.
        taken: The number of the last letter among them.
    """

    at: datetime
    elapsed: float
    message: AgentMessage | None = None
    result: ToolResult | None = None
    failure: Failure | None = None
    messages: tuple[AgentMessage, ...] = ()
    taken: int = 0


class StoredResult(Struct, frozen=True, kw_only=True):
    """A `RunResult` that can be kept."""

    status: RunStatus
    text: str
    output: Any
    output_error: str
    messages: tuple[AgentMessage, ...]
    stop_reason: StopReason | None
    stats: AgentStats
    run_id: str
    failure: Failure | None

    @classmethod
    def of(cls, result: RunResult) -> StoredResult:
        """The same, without its exception."""
        fields = {f: getattr(result, f) for f in cls.__struct_fields__ if f != "failure"}
        error = result.error
        return cls(**fields, failure=Failure(type(error).__name__, redact(str(error))) if error else None)

    def result(self) -> RunResult:
        """The result again."""
        fields = {f: getattr(self, f) for f in self.__struct_fields__ if f != "failure"}
        return RunResult(**fields, error=_agent_error(self.failure) if self.failure else None)


def encode(value: Any) -> bytes:
    """Any of these as JSON; a lone surrogate becomes U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(value, enc_hook=str)))


def decode(data: bytes, kind: type[T]) -> T:
    """What `encode` gave.

    Raises:
        DurableError: If it is something else: it was kept by other code.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DurableError(
            f"what this run has kept cannot be read by this version ({error}); have the version that began it finish it"
        ) from None


_FIELDS = ("reason", "retryable", "retry_after", "status", "provider", "model", "request_id")


def to_stored_error(error: BaseException) -> Failure:
    """An exception as it is kept."""
    if isinstance(error, ModelError):
        fields = {name: getattr(error, name) for name in _FIELDS}
        return Failure(type(error).__name__, redact(str(error)), {**fields, "code": error.code.value})
    return Failure(type(error).__name__, redact(str(error)))


def from_stored_error(failure: Failure, partial: AgentMessage | None = None) -> Exception:
    """An exception that says and is called the same: the known class, or one that only looks like it."""
    if failure.fields is not None:
        fields = dict(failure.fields)
        code = ErrorCode(fields.pop("code"))
        return model_error(failure.text, code=code, partial=partial if isinstance(partial, Message) else None, **fields)
    return rebuild_exception(failure.type, failure.text)


def _agent_error(failure: Failure) -> AgentError:
    kind = AgentAbortedError if failure.type == AgentAbortedError.__name__ else AgentError
    return kind(failure.text)
