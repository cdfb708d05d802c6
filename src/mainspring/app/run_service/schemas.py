"""What goes into a service and comes out of it. The OpenAPI document is made of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec import Meta, Struct

from mainspring.events import RunStatus

if TYPE_CHECKING:
    from mainspring.durable.feed import WaitingCall

Text = Annotated[str, Meta(min_length=1, max_length=1_000_000)]
RunId = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,31}[.][A-Za-z0-9_-]{1,64}$")]
KeyAction = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
AgentName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$")]
RunState = Literal["waiting", "running", "paused", "done", "failed", "cancelled"]


class StartRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to start."""

    prompt: Annotated[Text, Meta(description="What the agent is to do.")]
    agent: Annotated[AgentName | None, Meta(description="Which agent; the first one if left out.")] = None
    key: Annotated[
        KeyAction | None,
        Meta(description="Name of the run within the tenant: a second start with it finds the first run."),
    ] = None


class Fork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that goes on from the conversation of another one."""

    prompt: Annotated[Text, Meta(description="What the agent is to do then.")]
    at: Annotated[
        Annotated[float, Meta(ge=1, le=1_000_000, multiple_of=1)] | None,
        Meta(description="Number of the last message to keep, from the `message` events; all if left out."),
    ] = None
    key: Annotated[KeyAction | None, Meta(description="As in the start of a run.")] = None


class Say(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to a run that goes on."""

    text: Text


class Approve(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let a call be made."""

    call_id: Annotated[str, Meta(min_length=1, max_length=500)]
    input: Annotated[dict[str, Any] | None, Meta(description="Other arguments for the tool call.")] = None


class Deny(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuse a call."""

    call_id: Annotated[str, Meta(min_length=1, max_length=500)]
    reason: Annotated[str, Meta(max_length=10_000, description="Told to the model.")] = "Denied by the user"
    stop: Annotated[bool, Meta(description="Whether the run ends then.")] = False


class Abort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop a run."""

    reason: Annotated[str, Meta(max_length=10_000)] = "aborted"


class WaitingView(Struct, frozen=True, kw_only=True):
    """A call that waits for an answer, and why."""

    call_id: str
    tool: str
    input: dict[str, Any]
    reason: str
    agent: Annotated[str, Meta(description="The sub-agent whose call it is; empty for the run's own.")] = ""

    @classmethod
    def from_call(cls, waiting: WaitingCall) -> Self:
        """What people are told of a call that waits."""
        call = waiting.call
        return cls(call_id=call.id, tool=call.name, input=call.input, reason=waiting.reason, agent=waiting.agent)


class RunView(Struct, frozen=True, kw_only=True):
    """A run: how far it is, and what it waits for."""

    id: RunId
    agent: str
    state: Annotated[RunState, Meta(description="`waiting` is for a worker, `paused` for an answer to a call.")]
    created: Annotated[float, Meta(description="Seconds since 1970.")]
    title: Annotated[str, Meta(description="The beginning of its prompt.")] = ""
    worker: str = ""
    error: Annotated[str, Meta(description="Why it failed, or why no worker takes it up.")] = ""
    waiting: tuple[WaitingView, ...] = ()


class RunList(Struct, frozen=True, kw_only=True):
    """Runs, the newest first."""

    runs: tuple[RunView, ...]


class ResultView(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    id: RunId
    status: RunStatus
    text: str
    output: Any = None
    error: str = ""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost: Annotated[float | None, Meta(description="US dollars; null where a price is not known.")] = None
    seconds: float = 0.0


class AgentView(Struct, frozen=True, kw_only=True):
    """An agent that runs can be started of."""

    name: str


class AgentList(Struct, frozen=True, kw_only=True):
    """Agents that runs can be started of, the first one being the default."""

    agents: tuple[AgentView, ...]
