"""Events of a chat, as its views make them."""

from typing import Any

from mainspring.app.chat.events import ChatEvent, user_message_event
from mainspring.events import (
    AgentEnd,
    AgentStats,
    ApprovalRequest,
    ErrorInfo,
    Event,
    MessageEnd,
    ModelCallRetry,
    SubagentEnd,
    SubagentEvent,
    SubagentStats,
    TextDelta,
    ThinkingDelta,
    ToolDisplay,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    encode,
)
from mainspring.messages import Cost, Message, ToolResultBlock, ToolUseBlock, Usage

user_text = user_message_event


def text(piece: str) -> TextDelta:
    return TextDelta(0, piece)


def thinking(piece: str) -> ThinkingDelta:
    return ThinkingDelta(0, piece)


def response(text: str) -> MessageEnd:
    return MessageEnd(Message.assistant(text))


def tool_start(
    id: str, name: str, display: str, summary: str = "", arguments: dict[str, Any] | None = None
) -> ToolExecutionStart:
    return ToolExecutionStart(
        ToolUseBlock(id, name, arguments or {}), display=ToolDisplay(name=display, summary=summary)
    )


def tool_update(id: str, output: str = "", title: str = "") -> ToolExecutionUpdate:
    return ToolExecutionUpdate(id, "tool", output, title)


def tool_end(
    id: str,
    name: str,
    display: str,
    summary: str = "",
    *,
    is_error: bool = False,
    denied: bool = False,
    output: str = "",
    seconds: float = 0.0,
    details: Any = None,
    **shown: Any,
) -> ToolExecutionEnd:
    return ToolExecutionEnd(
        ToolUseBlock(id, name),
        ToolResultBlock(id, name, output, is_error, details),
        seconds=seconds,
        status="denied" if denied else "error" if is_error else "ok",
        display=ToolDisplay(name=display, summary=summary, **shown),
    )


def approval(
    id: str,
    call_id: str,
    tool: str,
    display: str,
    action: str,
    resource: str,
    *,
    arguments: dict[str, Any] | None = None,
    diffs: Any = (),
    **fields: Any,
) -> ApprovalRequest:
    return ApprovalRequest(
        id=id,
        call=ToolUseBlock(call_id, tool, arguments or {}),
        action=action,
        resource=resource,
        display=ToolDisplay(name=display, diffs=diffs),
        **fields,
    )


def in_subagent(id: str, event: Any) -> SubagentEvent:
    return SubagentEvent((id,), event)


def usage(tokens: int = 0, cost: float | None = 0.0) -> Usage:
    return Usage(tokens, cost=None if cost is None else Cost(input=cost))


def subagent_end(
    id: str,
    name: str,
    status: Any,
    *,
    text: str = "",
    error: str = "",
    turns: int = 0,
    tokens: int = 0,
    cost: float | None = None,
    seconds: float = 0.0,
) -> SubagentEnd:
    stats = SubagentStats(
        child_id=id, child=name, depth=1, status=status, turns=turns, usage=usage(tokens, cost), seconds=seconds
    )
    return SubagentEnd(id, name, "", 1, stats, text, ErrorInfo(type="Error", message=error) if error else None)


def run_end(
    status: Any,
    *,
    text: str = "",
    error: ErrorInfo | str = "",
    turns: int = 0,
    tokens: int = 0,
    cost: float | None = 0.0,
    seconds: float = 0.0,
) -> AgentEnd:
    info = ErrorInfo(type="Error", message=error) if isinstance(error, str) and error else error or None
    return AgentEnd(
        "", (), status, text, stats=AgentStats(turns=turns, usage=usage(tokens, cost), seconds=seconds), error=info
    )


def retry(attempt: int, max_retries: int, delay: float, reason: str) -> ModelCallRetry:
    return ModelCallRetry(attempt, max_retries, delay, ErrorInfo(type="Error", message=reason))


def shown(event: ToolExecutionStart | ToolExecutionEnd | ApprovalRequest) -> ToolDisplay:
    """Return how a call is shown."""
    assert event.display is not None
    return event.display


def cost(event: AgentEnd | SubagentEnd) -> float:
    """Return the cost of a run."""
    assert event.stats.usage.cost is not None
    return event.stats.usage.cost.total


def encoded(events: list[ChatEvent] | list[Event]) -> list[bytes]:
    """Return events in a form that can be compared."""
    return [encode(event) for event in events]
