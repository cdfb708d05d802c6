"""The adapter from callbacks to events: for code that calls callbacks itself, and a listener for events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.callbacks.types import AgentCallbacks, ErrorReport
from mainspring.errors import AgentAbortedError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ErrorInfo,
    Event,
    MessageEnd,
    MessageStart,
    RunStatus,
    StreamError,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
    UsageUpdate,
)
from mainspring.events.span import SpanContext
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from mainspring.models.message_builder import MessageBuilder
from mainspring.tools import ToolResult
from mainspring.tools.response import ToolResponse


def callbacks_to_events(observer: Callable[[Event], object]) -> AgentCallbacks:
    """Create callbacks that pass their values to ``observer`` as the events of an agent's run.

    The ID of a run is the ID of the trace, and the ID of a call is that of its span. A request for the user's permission
    (``on_permission_request``) has no event and is omitted.
    """
    builder = _EventBuilder(observer)
    return AgentCallbacks(
        on_agent_start=builder.agent_start,
        on_agent_end=builder.agent_end,
        on_llm_start=builder.llm_start,
        on_llm_stream=builder.llm_stream,
        on_llm_end=builder.llm_end,
        on_tool_start=builder.tool_start,
        on_tool_end=builder.tool_end,
        on_error=builder.error,
    )


class _EventBuilder:
    """Builds the events of one run at a time."""

    def __init__(self, publish: Callable[[Event], object]) -> None:
        self.tell = publish
        self._reset()

    def _reset(self) -> None:
        self._messages: list[Message] = []
        self._draft: MessageBuilder | None = None
        self._block: int | None = None
        self._turn = 0
        self._usage = Usage.zero()
        self._answer: Message | None = None
        self._calls: dict[str, ToolUseBlock] = {}
        self._results: list[ToolResultBlock] = []
        self._error: BaseException | None = None

    def agent_start(self, span: SpanContext, query: str) -> None:
        self._reset()
        self.tell(AgentStart(span.trace_id))
        if query:
            self._add(Message.user(query))

    def llm_start(self, span: SpanContext, model: str, messages: Sequence[Message]) -> None:
        self._end_turn()
        self._turn += 1
        provider, _, name = model.rpartition(":")
        self._draft = draft = MessageBuilder(provider, name)
        self.tell(TurnStart(self._turn, span.span_id))
        self.tell(MessageStart(Message("assistant", provider=provider, model=name)))
        self.tell(draft.start())

    def llm_stream(self, span: SpanContext, chunk: str) -> None:
        draft = self._draft
        if draft is None:
            return
        if self._block is None:
            started = draft.open_text()
            self._block = started.index
            self.tell(started)
        self.tell(draft.text(self._block, chunk))

    def llm_end(self, span: SpanContext, response: str, usage: Usage) -> None:
        draft = self._draft
        if draft is None:
            return
        if self._block is None and response:
            self.llm_stream(span, response)
        if self._block is not None:
            self.tell(draft.close_text(self._block))
        draft.usage = usage
        done = draft.done("end_turn")
        self.tell(done)
        self._draft = self._block = None
        self._answer = done.message
        self._messages.append(done.message)
        self.tell(MessageEnd(done.message))
        self._usage += usage
        self.tell(UsageUpdate(self._turn, usage, self._usage))

    def tool_start(self, span: SpanContext, name: str, args: dict[str, Any]) -> None:
        self._calls[span.span_id] = call = ToolUseBlock(span.span_id, name, args)
        self.tell(ToolExecutionStart(call, name))

    def tool_end(self, span: SpanContext, name: str, response: ToolResponse, result: ToolResult) -> None:
        call = self._calls.pop(span.span_id, None) or ToolUseBlock(span.span_id, name)
        block = ToolResultBlock(call.id, name, result.output, not response.success, result.metadata or None)
        self._results.append(block)
        self.tell(ToolExecutionEnd(call, block, result.title))

    def error(self, span: SpanContext, report: ErrorReport) -> None:
        self._error = report.error
        if self._draft is not None:
            partial = self._draft.message()
            self._draft = self._block = None
            self.tell(StreamError("aborted" if report.code == "ABORTED" else "error", partial))

    def agent_end(self, span: SpanContext, answer: str) -> None:
        self._end_turn()
        error = self._error if isinstance(self._error, Exception) else None
        status: RunStatus = "aborted" if isinstance(error, AgentAbortedError) else "error" if error else "completed"
        info = ErrorInfo.from_exception(error) if error is not None else None
        self.tell(AgentEnd(span.trace_id, tuple(self._messages), status, error=info, exception=error))

    def _end_turn(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        results, self._results = tuple(self._results), []
        if results:
            self._add(Message("user", results))
        self.tell(TurnEnd(self._turn, answer, results))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self.tell(MessageStart(message))
        self.tell(MessageEnd(message))
