"""What a model says while it says it: the events of one answer.

Order: ``StreamStart``; for each block its start, deltas and end (blocks may interleave); then ``Done``. A provider that
fails raises instead; the loop turns that into one ``StreamError``. ``partial`` of an event is the message as it was at that
moment, built when read.

What a run tells while it runs.

Order of a run: ``AgentStart``; per turn ``TurnStart``, ``MessageStart``, the model's own events (`StreamEvent`),
``MessageEnd``, for each call ``ToolExecutionStart``, any ``ToolExecutionUpdate``, ``ToolExecutionEnd``, then ``TurnEnd``; at
last ``AgentEnd``, after which nothing follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct

from mainspring.errors import ModelError
from mainspring.messages import AgentMessage, Message, StopReason, ToolResultBlock, ToolUseBlock, Usage


class MessageDraft(Protocol):
    """An assistant message that is still being received.

    Attributes:
        tool_names: Replacements for tool names in partial messages; a wrapper that renames tools in events sets them.
    """

    tool_names: Mapping[str, str]

    def snapshot(self, at: int) -> Message:
        """The message as it was after its first ``at`` changes."""
        ...


class _PartialMessageEvent(Struct, frozen=True, gc=False, eq=False):
    """Shared by the events that come while the message grows."""

    @property
    def partial(self) -> Message:
        """The assistant message as it was at this event."""
        # A struct without fields of its own: `draft` and `at` are those of each event, and stand last there.
        draft: MessageDraft | None = self.draft  # type: ignore[attr-defined]
        return draft.snapshot(self.at) if draft else Message("assistant")  # type: ignore[attr-defined]


class StreamStart(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """The answer begins."""

    type: ClassVar[str] = "start"
    draft: MessageDraft | None = None
    at: int = 0


class TextStart(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """A text block begins."""

    type: ClassVar[str] = "text_start"
    index: int
    draft: MessageDraft | None = None
    at: int = 0


class TextDelta(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """More text of block ``index``."""

    type: ClassVar[str] = "text_delta"
    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class TextEnd(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """Block ``index`` is complete; ``text`` is all of it."""

    type: ClassVar[str] = "text_end"
    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingStart(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """A reasoning block begins."""

    type: ClassVar[str] = "thinking_start"
    index: int
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingDelta(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """More reasoning of block ``index``."""

    type: ClassVar[str] = "thinking_delta"
    index: int
    thinking: str
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingEnd(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """Reasoning block ``index`` is complete; ``thinking`` is all of it."""

    type: ClassVar[str] = "thinking_end"
    index: int
    thinking: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallStart(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """A tool call begins; id and name may still be empty where a provider tells them late."""

    type: ClassVar[str] = "toolcall_start"
    index: int
    id: str
    name: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallDelta(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """More of the argument text of call ``index``."""

    type: ClassVar[str] = "toolcall_delta"
    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallEnd(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """Call ``index`` is complete and parsed."""

    type: ClassVar[str] = "toolcall_end"
    index: int
    call: ToolUseBlock
    draft: MessageDraft | None = None
    at: int = 0


class Done(Struct, frozen=True, eq=False):
    """The answer is complete. The last event of a good stream."""

    type: ClassVar[str] = "done"
    reason: StopReason
    message: Message

    @property
    def partial(self) -> Message:
        """The complete message."""
        return self.message


class StreamError(Struct, frozen=True, eq=False):
    """The answer broke off. The last event of a failed or aborted stream; ``message`` is what had arrived."""

    type: ClassVar[str] = "error"
    reason: Literal["aborted", "error"]
    message: Message
    error: ModelError | None = None

    @property
    def partial(self) -> Message:
        """What had arrived."""
        return self.message


ContentEvent = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
"""Events that carry content: after the first of these an answer is never asked for again."""


StreamEvent = StreamStart | ContentEvent | Done | StreamError
"""Everything a stream can hold."""


RunStatus = Literal[
    "completed", "max_turns", "max_tokens", "max_seconds", "max_cost", "aborted", "error", "denied", "paused"
]
"""How a run ended. The ``max_*`` are limits of the run; ``denied`` means that a refusal was to end it."""


class SubagentStats(Struct, frozen=True, kw_only=True):
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
    children: tuple[SubagentStats, ...] = ()


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


Event = (
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
