"""The adapter from hooks and events to callbacks."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from mainspring.callbacks.types import AgentCallbacks, ErrorReport
from mainspring.errors import ModelError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    Event,
    EventStream,
    MessageEnd,
    MessageStart,
    ModelCallRetry,
    StreamEvent,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from mainspring.events.span import RandomSource, SpanContext, SpanSource
from mainspring.loop import Plugin
from mainspring.loop.hooks import ModelErrorHook, ToolTransform, TurnBefore
from mainspring.messages import Message, ToolResultBlock, Usage
from mainspring.permissions import Permissions
from mainspring.tools import ToolResult
from mainspring.tools.response import to_error_code, to_tool_response

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring")

SPINNER_TEXT = "Thinking"
"""Label of the spinner."""

_TRACED: tuple[type[Event], ...] = (
    AgentStart,
    AgentEnd,
    TurnStart,
    TurnEnd,
    MessageStart,
    MessageEnd,
    ModelCallRetry,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolExecutionEnd,
    *[kind for kind in get_args(StreamEvent) if not kind.__name__.endswith("Delta")],
)
"""The events that `AgentCallbacks.on_trace` gets: the steps of a run, without deltas."""

_ORDER_LAST = 1000  # after all handlers that change the reported values


class CallbacksPlug(Plugin):
    """Notifies callbacks of an agent's actions. It uses the hook bus like any other plugin.

    Args:
        callbacks: The callbacks.
        random: Source of span IDs. Default: the system's own source.
        parent: The parent span of the runs, if any; its trace continues.
    """

    def __init__(
        self, callbacks: AgentCallbacks, *, random: RandomSource = os.urandom, parent: SpanContext | None = None
    ) -> None:
        self.callbacks = callbacks
        self._random = random
        self._parent = parent
        self._agent: CoreAgent | None = None
        self._run: _CallbackRun | None = None

    def install(self, agent: CoreAgent) -> None:
        """Listen to the events that the callbacks need; without callbacks nothing is registered."""
        callbacks = self.callbacks
        if callbacks.on_permission_request is not None:
            for plug in agent.plugs:
                if isinstance(plug, Permissions) and plug.on_permission_request is None:
                    plug.on_permission_request = callbacks.on_permission_request
        others = (n for n in callbacks.__struct_fields__ if n != "on_permission_request")
        if not any(getattr(callbacks, n) is not None for n in others):
            return
        self._agent = agent
        agent.bus.subscribe(self._on_event)
        if callbacks.on_llm_start is not None:
            agent.on(TurnBefore, self._on_request, order=_ORDER_LAST)
        if callbacks.on_tool_end is not None:
            agent.on(ToolTransform, self._on_tool_result, order=_ORDER_LAST)
        if callbacks.on_error is not None:
            agent.on(ModelErrorHook, self._on_model_error, order=_ORDER_LAST)

    def for_child(self) -> Plugin | None:
        """Return ``None``: the parent's `child:*` hooks report subagents."""
        return None

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation: the same callbacks."""
        return CallbacksPlug(self.callbacks, random=self._random, parent=self._parent)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, AgentStart):
            plugs = self._agent.plugs if self._agent is not None else ()
            spans = next((p for p in plugs if isinstance(p, SpanSource)), None)
            span = spans.span_of(event) if spans is not None else None
            if span is None:
                span = self._parent.child(self._random) if self._parent else SpanContext.root(self._random)
            self._run = _CallbackRun(self.callbacks, span, self._random, spans)
        if self._run is not None:
            self._run.event(event)

    def _on_request(self, hook: TurnBefore) -> None:
        if self._run is not None:
            self._run.request = hook.request.messages

    def _on_tool_result(self, hook: ToolTransform) -> None:
        if self._run is not None:
            self._run.results[hook.call_id] = hook.result

    def _on_model_error(self, hook: ModelErrorHook) -> None:
        if self._run is not None:
            self._run.failed(hook.error)


class _CallbackRun:
    """The state of one run."""

    def __init__(
        self, callbacks: AgentCallbacks, span: SpanContext, random: RandomSource, spans: SpanSource | None = None
    ) -> None:
        self.callbacks = callbacks
        self.span = span
        self._spans = spans
        self.results: dict[str, ToolResult] = {}
        self.request: Sequence[Message] = ()
        self._random = random
        self._llm: SpanContext | None = None
        self._tools: dict[str, SpanContext] = {}
        self._answer: EventStream[str, None] | None = None
        self._prompts: list[str] = []
        self._started = False
        self._reported: BaseException | None = None

    def event(self, event: Event) -> None:
        """Notify the callbacks of an event."""
        match event:
            case TextDelta():
                self._text(event.text)
                return
            case ToolExecutionStart():
                self._tool_start(event)
            case ToolExecutionEnd():
                self._tool_end(event)
            case MessageStart() if isinstance(event.message, Message):
                self._message_start(event, event.message)
            case MessageEnd() if isinstance(event.message, Message):
                self._message_end(event.message)
            case AgentEnd():
                self._end(event)
            case TurnStart():
                self._begin()
                self._debug(f"turn {event.turn} begins", turn=event.turn, turn_id=event.turn_id)
            case ModelCallRetry(exception=ModelError() as failure):
                wait = f"the model call is {'continued' if event.continues else 'retried'} in {event.delay:g}s"
                self._debug(wait, attempt=event.attempt, error=ErrorReport.from_exception(failure))
            case _:
                pass
        if self.callbacks.on_trace is not None and isinstance(event, _TRACED):
            _call_safely(self.callbacks.on_trace, self.span, event.type, event)

    def failed(self, error: BaseException) -> None:
        """Report a failure, unless it was reported before."""
        if self._reported is None or self._reported not in (error, getattr(error, "cause", None)):
            self._reported = error
            _call_safely(self.callbacks.on_error, self._llm or self.span, ErrorReport.from_exception(error))

    def _begin(self) -> None:
        if not self._started:
            self._started = True
            _call_safely(self.callbacks.on_agent_start, self.span, "\n".join(self._prompts))
            _call_safely(self.callbacks.on_spinner_start, SPINNER_TEXT)

    def _span(self, event: Event) -> SpanContext:
        """Return the span that begins with an event: the real one, or a generated one within the run's span."""
        real = self._spans.span_of(event) if self._spans is not None else None
        return real or self.span.child(self._random)

    def _message_start(self, event: Event, message: Message) -> None:
        if message.role == "assistant":
            self._llm = self._span(event)
            model = f"{message.provider}:{message.model}"
            _call_safely(self.callbacks.on_llm_start, self._llm, model, self.request)
        elif not self._started and message.text:
            self._prompts.append(message.text)

    def _message_end(self, message: Message) -> None:
        if message.role == "assistant":
            self._end_answer()
            llm, self._llm = self._llm or self.span, None
            if message.error is None:
                _call_safely(self.callbacks.on_llm_end, llm, message.text, message.usage or Usage())

    def _text(self, text: str) -> None:
        _call_safely(self.callbacks.on_llm_stream, self._llm or self.span, text)
        if self.callbacks.on_answer_stream is None:
            return
        if self._answer is None:
            self._answer = EventStream()
            _call_safely(self.callbacks.on_answer_stream, _iter_text(self._answer))
        self._answer.publish(text)

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end()

    def _tool_start(self, event: ToolExecutionStart) -> None:
        self._begin()
        self._tools[event.call.id] = span = self._span(event)
        _call_safely(self.callbacks.on_tool_start, span, event.call.name, event.call.input)

    def _tool_end(self, event: ToolExecutionEnd) -> None:
        span = self._tools.pop(event.call.id, None)
        if span is None:  # a call that never started
            return
        result = self.results.pop(event.call.id, None) or _synthetic_result(event.result, event.title)
        _call_safely(self.callbacks.on_tool_end, span, event.call.name, to_tool_response(result), result)
        if event.result.is_error:
            self._debug(f"{event.call.name} failed", call_id=event.call.id, result=event.result.text)

    def _end(self, event: AgentEnd) -> None:
        self._begin()
        self._end_answer()
        if isinstance(event.exception, Exception):
            self.failed(event.exception)
        answers = (m for m in reversed(event.messages) if isinstance(m, Message) and m.role == "assistant")
        last = next(answers, None)
        self._debug(f"the run is over: {event.status}", status=event.status)
        _call_safely(self.callbacks.on_spinner_stop)
        _call_safely(self.callbacks.on_agent_end, self.span, last.text if last else "")

    def _debug(self, message: str, **facts: Any) -> None:
        if self.callbacks.on_debug is not None:
            _call_safely(self.callbacks.on_debug, self.span, message, facts)


def _synthetic_result(block: ToolResultBlock, title: str) -> ToolResult:
    """Create the result of a call that never ran, or was denied."""
    details = dict(block.details or {})
    code = details.pop("code", None)
    return ToolResult(
        output=block.content,
        title=title,
        metadata=details,
        is_error=block.is_error,
        code=to_error_code(code) if code or block.is_error else None,
    )


async def _iter_text(stream: EventStream[str, None]) -> AsyncGenerator[str, None]:
    async for piece in stream:
        yield piece


def _call_safely(callback: Callable[..., object] | None, *arguments: Any) -> None:
    """Call the callback if it is set.

    An exception is logged, since a display must not end a run.
    """
    if callback is None:
        return
    try:
        callback(*arguments)
    except Exception:
        logger.exception("The callback %s failed", getattr(callback, "__qualname__", repr(callback)))
