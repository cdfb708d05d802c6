"""The base of all events, and the parts that several of them have: an exception as data, the status and the figures of a run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from msgspec import Struct

from mainspring.errors import AgentProviderError, ModelError, describe_failure
from mainspring.messages import Usage
from mainspring.text import to_snake_case


class _Tag:
    """Returns the tag of an event's class, for the class and for its instances."""

    def __get__(self, event: Event | None, kind: type[Event]) -> str:
        return str(kind.__struct_config__.tag)


class Event(
    Struct, frozen=True, eq=False, omit_defaults=True, repr_omit_defaults=True, tag_field="type", tag=to_snake_case
):
    """A fact about a run or a chat. Immutable, and JSON on every wire: see `mainspring.events.codec`.

    Attributes:
        type: The name in JSON: the class name in snake case, or the tag of the class.
        in_process: Fields for listeners in this process. They are not encoded.
    """

    type: ClassVar[_Tag] = _Tag()
    in_process: ClassVar[tuple[str, ...]] = ()


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
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
            message: Text to use instead of that of the exception.
        """
        cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
        text = describe_failure(error) if message is None else message
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


RunStatus = Literal[
    "completed",
    "max_turns",
    "max_total_tokens",
    "max_seconds",
    "max_cost",
    "aborted",
    "error",
    "denied",
    "paused",
    "no_output",
]
"""How a run ended. A limit has the name of its option; ``denied`` means that a denied call ended it; ``no_output`` that the model
stopped without the requested structured output."""

STOP_DESCRIPTIONS: dict[str, str] = {
    "max_turns": "Turn limit reached",
    "max_total_tokens": "Token limit reached",
    "max_seconds": "Time limit reached",
    "max_cost": "Cost limit reached",
    "denied": "A tool call was denied",
}
"""Why a run stopped, by its `RunStatus`, for users."""


class SubagentStats(Struct, frozen=True, kw_only=True):
    """Statistics of a subagent.

    Attributes:
        child_id: The ID of the subagent.
        child: The name of its definition; empty for a plain one.
        depth: Its nesting depth; 1 for a subagent of the main agent.
        status: How its run ended.
        turns: The number of its model calls with a response.
        usage: Tokens, including those of its subagents.
        tool_counts: Number of calls by tool.
        seconds: Duration of its run.
        children: Statistics of its subagents.
    """

    child_id: str
    child: str
    depth: int
    status: RunStatus
    turns: int = 0
    usage: Usage = Usage.zero()
    tool_counts: dict[str, int] = {}
    seconds: float = 0.0
    children: tuple[SubagentStats, ...] = ()


class AgentStats(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Figures of a run.

    Attributes:
        turns: Number of turns.
        usage: Tokens of all model calls.
        turn_usage: Tokens of each turn.
        tool_counts: Number of calls of each tool.
        seconds: Duration of the run.
        side_usage: Tokens used outside the conversation (side calls, subagents), by purpose; part of ``usage``.
        output: The structured output; ``None`` if none was requested or returned.
        children: Figures of each subagent that the run started, in the order in which they ended.
    """

    turns: int = 0
    usage: Usage = Usage()
    turn_usage: tuple[Usage, ...] = ()
    tool_counts: dict[str, int] = {}
    seconds: float = 0.0
    side_usage: dict[str, Usage] = {}
    output: Any = None
    children: tuple[SubagentStats, ...] = ()
