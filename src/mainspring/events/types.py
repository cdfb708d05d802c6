"""The events of a model response while it is received, and the events of a run.

Order: ``StreamStart``; for each block its start, deltas and end (blocks may interleave); then ``Done``. A provider that
fails raises instead; the loop converts the exception to a ``StreamError``. ``partial`` of an event is the message at that
moment, built when read.

Order of a run: ``AgentStart``; per turn ``TurnStart``, ``MessageStart``, the model's own events (`StreamEvent`),
``MessageEnd``, for each call ``ToolExecutionStart``, any ``ToolExecutionUpdate``, ``ToolExecutionEnd``, then ``TurnEnd``;
finally ``AgentEnd``, the last event.
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
        """Return the message after its first ``at`` changes."""
        ...


class _PartialMessageEvent(Struct, frozen=True, gc=False, eq=False):
    """Base of the events while a message is received."""

    @property
    def partial(self) -> Message:
        """Return the assistant message at this event."""
        # A struct without fields: each event defines `draft` and `at` as its last fields.
        draft: MessageDraft | None = self.draft  # type: ignore[attr-defined]
        return draft.snapshot(self.at) if draft else Message("assistant")  # type: ignore[attr-defined]


class StreamStart(_PartialMessageEvent, frozen=True, gc=False, eq=False):
    """A response begins."""

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
    """A tool call begins. Its ID and name may be empty until the provider sends them."""

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
    """The response is complete. The last event of a successful stream."""

    type: ClassVar[str] = "done"
    reason: StopReason
    message: Message

    @property
    def partial(self) -> Message:
        """The complete message."""
        return self.message


class StreamError(Struct, frozen=True, eq=False):
    """The response was interrupted; ``message`` is the partial message.

    The last event of a failed or aborted stream.
    """

    type: ClassVar[str] = "error"
    reason: Literal["aborted", "error"]
    message: Message
    error: ModelError | None = None

    @property
    def partial(self) -> Message:
        """The message as received so far."""
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
"""Events with content. After the first of them, a failed model call is not retried."""


StreamEvent = StreamStart | ContentEvent | Done | StreamError
"""All events of a stream."""


RunStatus = Literal[
    "completed", "max_turns", "max_tokens", "max_seconds", "max_cost", "aborted", "error", "denied", "paused"
]
"""How a run ended. The ``max_*`` are limits of the run; ``denied`` means that a denied call ended it."""


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


class AgentStart(Struct, frozen=True, eq=False):
    """A run begins."""

    type: ClassVar[str] = "agent_start"
    run_id: str


class AgentEnd(Struct, frozen=True, eq=False):
    """A run has ended; ``messages`` are those that it added."""

    type: ClassVar[str] = "agent_end"
    run_id: str
    messages: tuple[AgentMessage, ...]
    status: RunStatus
    error: Exception | None = None


class TurnStart(Struct, frozen=True, eq=False):
    """A model call is about to begin; ``turn`` is counted from 1 in each run."""

    type: ClassVar[str] = "turn_start"
    turn: int
    turn_id: str


class TurnEnd(Struct, frozen=True, eq=False):
    """The response and the results of its calls are complete."""

    type: ClassVar[str] = "turn_end"
    turn: int
    message: Message
    tool_results: tuple[ToolResultBlock, ...]


class MessageStart(Struct, frozen=True, eq=False):
    """A message begins to join the conversation: a prompt, a response, or tool results."""

    type: ClassVar[str] = "message_start"
    message: AgentMessage


class MessageUpdate(Struct, frozen=True, eq=False):
    """The response grew by ``event``. `subscribe` wraps each stream event in this one."""

    type: ClassVar[str] = "message_update"
    event: StreamEvent

    @property
    def message(self) -> Message:
        """Return the message at this moment."""
        return self.event.partial


class MessageEnd(Struct, frozen=True, eq=False):
    """A message is complete."""

    type: ClassVar[str] = "message_end"
    message: AgentMessage


class ToolExecutionStart(Struct, frozen=True, eq=False):
    """A tool call begins."""

    type: ClassVar[str] = "tool_execution_start"
    call: ToolUseBlock
    label: str = ""


class ToolExecutionUpdate(Struct, frozen=True, eq=False):
    """A tool reports progress: partial output, or title and metadata."""

    type: ClassVar[str] = "tool_execution_update"
    call_id: str
    name: str
    output: str = ""
    title: str | None = None
    metadata: dict[str, Any] | None = None


class ToolExecutionEnd(Struct, frozen=True, eq=False):
    """A call has its result. ``seconds`` is the duration of the tool itself."""

    type: ClassVar[str] = "tool_execution_end"
    call: ToolUseBlock
    result: ToolResultBlock
    title: str = ""
    seconds: float = 0.0


class ModelRetry(Struct, frozen=True, eq=False):
    """A model call failed before any content and will be retried in ``delay`` seconds."""

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
"""Any event of a run."""
