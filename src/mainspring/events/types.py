"""What a run tells while it runs.

Order of a run: ``AgentStart``; per turn ``TurnStart``, ``MessageStart``, the model's own events (`StreamEvent`),
``MessageEnd``, for each call ``ToolExecutionStart``, any ``ToolExecutionUpdate``, ``ToolExecutionEnd``, then ``TurnEnd``; at
last ``AgentEnd``, after which nothing follows.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from mainspring.errors import ModelError
from mainspring.events.model import StreamEvent
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock, Usage

RunStatus = Literal[
    "completed", "max_turns", "max_tokens", "max_seconds", "max_cost", "aborted", "error", "denied", "paused"
]
"""How a run ended. The ``max_*`` are limits of the run; ``denied`` means that a refusal was to end it."""


class ChildStats(Struct, frozen=True, kw_only=True):
    """Figures of a sub-agent.

    Attributes:
        child_id: Which child.
        child: The name of its definition; empty for a plain one.
        depth: How deep it stands; 1 for a child of the agent that a person talks to.
        status: How its run ended.
        turns: How many of its model calls were answered.
        usage: Tokens, those of its own sub-agents included.
        tool_counts: How often it called each tool.
        seconds: How long it ran.
        children: Figures of its own sub-agents.
    """

    child_id: str
    child: str
    depth: int
    status: RunStatus
    turns: int = 0
    usage: Usage = Usage.zero()
    tool_counts: dict[str, int] = {}
    seconds: float = 0.0
    children: tuple[ChildStats, ...] = ()


class AgentStart(Struct, frozen=True, eq=False):
    """A run begins."""

    type: ClassVar[str] = "agent_start"
    run_id: str


class AgentEnd(Struct, frozen=True, eq=False):
    """A run is over; ``messages`` are those that it added."""

    type: ClassVar[str] = "agent_end"
    run_id: str
    messages: tuple[AgentMessage, ...]
    status: RunStatus
    error: Exception | None = None


class TurnStart(Struct, frozen=True, eq=False):
    """A model call is about to be made; ``turn`` counts from 1 in each run."""

    type: ClassVar[str] = "turn_start"
    turn: int
    turn_id: str


class TurnEnd(Struct, frozen=True, eq=False):
    """The answer and the results of its calls are complete."""

    type: ClassVar[str] = "turn_end"
    turn: int
    message: Message
    tool_results: tuple[ToolResultBlock, ...]


class MessageStart(Struct, frozen=True, eq=False):
    """A message begins to join the conversation: a prompt, an answer, or tool results."""

    type: ClassVar[str] = "message_start"
    message: AgentMessage


class MessageUpdate(Struct, frozen=True, eq=False):
    """The answer grew by ``event``; what `subscribe` hands out instead of the bare event."""

    type: ClassVar[str] = "message_update"
    event: StreamEvent

    @property
    def message(self) -> Message:
        """The message as it was at this moment."""
        return self.event.partial


class MessageEnd(Struct, frozen=True, eq=False):
    """A message is complete."""

    type: ClassVar[str] = "message_end"
    message: AgentMessage


class ToolExecutionStart(Struct, frozen=True, eq=False):
    """A tool call is taken up."""

    type: ClassVar[str] = "tool_execution_start"
    call: ToolUseBlock
    label: str = ""


class ToolExecutionUpdate(Struct, frozen=True, eq=False):
    """A tool reports on the way: partial output, or title and metadata."""

    type: ClassVar[str] = "tool_execution_update"
    call_id: str
    name: str
    output: str = ""
    title: str | None = None
    metadata: dict[str, Any] | None = None


class ToolExecutionEnd(Struct, frozen=True, eq=False):
    """A call has its result. ``seconds`` is the time the tool itself took."""

    type: ClassVar[str] = "tool_execution_end"
    call: ToolUseBlock
    result: ToolResultBlock
    title: str = ""
    seconds: float = 0.0


class ModelRetry(Struct, frozen=True, eq=False):
    """A model call failed before any content and will be tried again in ``delay`` seconds."""

    type: ClassVar[str] = "model_retry"
    attempt: int
    max_retries: int
    delay: float
    error: ModelError


AgentEvent = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | ModelRetry
    | StreamEvent
)
"""Everything that iterating a run can give."""
