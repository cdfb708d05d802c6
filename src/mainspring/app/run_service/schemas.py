"""Inputs and outputs of the run service. The OpenAPI document is built from these types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta, Struct

from mainspring.durable.engine import RunState as RunState
from mainspring.events import RunStatus

if TYPE_CHECKING:
    from mainspring.events import ApprovalRequest

Text = Annotated[str, Meta(min_length=1, max_length=1_000_000)]
RunId = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,31}[.][A-Za-z0-9_-]{1,64}$")]
IdempotencyKey = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
AgentName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$")]


class StartRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to start a run."""

    prompt: Annotated[Text, Meta(description="Prompt for the agent.")]
    agent: Annotated[AgentName | None, Meta(description="Name of the agent (default: the first one).")] = None
    key: Annotated[
        IdempotencyKey | None,
        Meta(
            description="Unique name of the run within the tenant: a second start with the same name returns the first run."
        ),
    ] = None


class Fork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to start a run from the conversation of another run."""

    prompt: Annotated[Text, Meta(description="Next prompt for the agent.")]
    at: Annotated[
        Annotated[float, Meta(ge=1, le=1_000_000, multiple_of=1)] | None,
        Meta(description="Number of the last message to copy, from the `message_end` events (default: all)."),
    ] = None
    key: Annotated[IdempotencyKey | None, Meta(description="Same as for the start of a run.")] = None


class Say(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to a running run."""

    text: Text


class Approve(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to allow a tool call."""

    call_id: Annotated[str, Meta(min_length=1, max_length=500)]
    input: Annotated[dict[str, Any] | None, Meta(description="Other arguments for the tool call.")] = None


class Deny(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to deny a tool call."""

    call_id: Annotated[str, Meta(min_length=1, max_length=500)]
    reason: Annotated[str, Meta(max_length=10_000, description="Reason for the model.")] = "the user denied it"
    stop: Annotated[bool, Meta(description="Whether to end the run as well.")] = False


class Abort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to stop a run."""

    reason: Annotated[str, Meta(max_length=10_000)] = "aborted"


class WaitingView(Struct, frozen=True, kw_only=True):
    """A tool call that needs approval, and why."""

    call_id: str
    tool: str
    input: dict[str, Any]
    reason: str
    agent: Annotated[str, Meta(description="Name of the subagent that made the call; empty for the main agent.")] = ""

    @classmethod
    def from_call(cls, waiting: ApprovalRequest) -> Self:
        """Convert a waiting call of the engine."""
        call = waiting.call
        return cls(call_id=call.id, tool=call.name, input=call.input, reason=waiting.reason, agent=waiting.agent)


class RunView(Struct, frozen=True, kw_only=True):
    """A run: its state and the tool calls that need approval."""

    id: RunId
    agent: str
    state: Annotated[
        RunState, Meta(description="`waiting`: a worker must start or resume it; `paused`: a tool call needs approval.")
    ]
    created: Annotated[float, Meta(description="Unix time in seconds.")]
    title: Annotated[str, Meta(description="Beginning of the prompt.")] = ""
    worker: str = ""
    error: Annotated[str, Meta(description="Why the run failed, or why no worker can execute it.")] = ""
    waiting: tuple[WaitingView, ...] = ()


class RunList(Struct, frozen=True, kw_only=True):
    """List of runs, the newest first."""

    runs: tuple[RunView, ...]


class ResultView(Struct, frozen=True, kw_only=True):
    """Result of a run."""

    id: RunId
    status: RunStatus
    text: str
    output: Any = None
    error: str = ""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost: Annotated[
        float | None, Meta(description="US dollars of the calls with a known price; null if no price is known.")
    ] = None
    unpriced_calls: Annotated[int, Meta(description="Calls of unknown price, which cost excludes.")] = 0
    estimated_calls: Annotated[
        int, Meta(description="Calls that were stopped or cut off: their cost is an estimate.")
    ] = 0
    seconds: float = 0.0


class AgentView(Struct, frozen=True, kw_only=True):
    """An available agent."""

    name: str


class AgentList(Struct, frozen=True, kw_only=True):
    """Available agents; the first one is the default."""

    agents: tuple[AgentView, ...]
