"""Spans and metrics of runs and model calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mainspring.events import (
    AgentEnd,
    AgentStart,
    ContextCompacted,
    Event,
    MessageEnd,
    MessageStart,
    ModelCallRetry,
    SpanContext,
    StreamError,
    ToolExecutionEnd,
    ToolExecutionStart,
    UsageUpdate,
)
from mainspring.loop.hooks import BeforeToolRun, ModelErrorHook, TurnBefore
from mainspring.messages import Message, Usage
from mainspring.telemetry import conventions
from mainspring.telemetry.attributes import (
    Attributes,
    ContentEncoder,
    error_type,
    model_attributes,
    request_attributes,
    response_attributes,
    server_attributes,
    usage_attributes,
)
from mainspring.telemetry.otel import CurrentSpan
from mainspring.telemetry.telemetry import TelemetryContext
from mainspring.telemetry.tool_spans import ToolCallSpan

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from mainspring.loop import CoreAgent
    from mainspring.models import ModelRequest


class ModelCallSpan:
    """A model call from the request to its response, including failed attempts.

    Args:
        signals: Creates spans, events, and metrics.
        content: Encodes messages.
        context: The context of the run.
        asked: The model.
        extra: Further attributes of the span.
        request: The request, if known.
    """

    def __init__(
        self,
        signals: TelemetryContext,
        content: ContentEncoder,
        context: Context,
        *,
        common: Attributes,
        extra: Attributes,
        request: ModelRequest | None,
    ) -> None:
        self._signals = signals
        self._encoder = content
        self._attributes: Attributes = {conventions.OPERATION: conventions.CHAT, **common}
        given = {**self._attributes, **extra, **(request_attributes(request) if request is not None else {})}
        name = signals.span_name(conventions.CHAT, str(common[conventions.REQUEST_MODEL]))
        self.span = signals.tracer.start_span(name, context, signals.api.client, given)
        self._context = signals.api.context_with(self.span, context)
        self._scope = CurrentSpan(signals.api)
        self._scope.enter(self._context)
        self._request = request
        self._started_at = self._attempted_at = self._last = time.perf_counter()
        self._first = 0.0
        self._chunks = 0
        self._retries = 0

    def record_chunk(self) -> None:
        """Record that a piece of the response arrived."""
        now = time.perf_counter()
        if not self._chunks:
            self._first = now - self._attempted_at
        self._chunks += 1
        self._last = now

    def retry(self, event: ModelCallRetry) -> None:
        """Record a failed attempt that is retried."""
        self._retries += 1
        assert event.exception is not None
        kind, text = error_type(event.exception), self._signals.error_text(event.exception)
        attributes: Attributes = {
            "attempt": event.attempt,
            "delay": event.delay,
            conventions.ERROR_TYPE: kind,
            "message": text,
        }
        self.span.add_event(conventions.RETRY_EVENT, attributes)
        self._exception(event.exception, text)
        self._attempted_at = time.perf_counter() + event.delay

    def detach(self) -> None:
        """Stop being the current span of the task."""
        self._scope.leave()

    def end(self, message: Message | None, error: BaseException | None = None, *, aborted: bool = False) -> None:
        """End the span, after success or failure."""
        signals, span = self._signals, self.span
        self._scope.leave()
        kind = ""
        if error is not None:
            kind, text = error_type(error), signals.error_text(error)
            signals.api.mark_failed(span, kind, text)
            self._exception(error, text)
        elif aborted:
            kind = "aborted"
            signals.api.mark_failed(span, kind, "the run was aborted")
        if message is not None:
            span.set_attributes(response_attributes(message))
            if message.model:
                self._attributes[conventions.RESPONSE_MODEL] = message.model
        if self._retries:
            span.set_attribute(conventions.RETRIES, self._retries)
        if self._chunks:
            span.set_attribute(conventions.TIME_TO_FIRST_CHUNK, self._first)
        if signals.options.sensitive and span.is_recording():
            self._content(message)
        span.end()
        self._measure(message, kind)

    def _measure(self, message: Message | None, kind: str) -> None:
        measured = self._signals.instruments
        measured.duration(time.perf_counter() - self._started_at, self._attributes, kind)
        measured.usage((message and message.usage) or Usage.zero(), self._attributes)
        if self._chunks:
            between = (self._last - self._attempted_at - self._first) / (self._chunks - 1) if self._chunks > 1 else None
            measured.chunks(self._first, between, self._attributes)

    def _content(self, message: Message | None) -> None:
        content, request = self._encoder, self._request
        attributes: Attributes = {}
        if request is not None:
            attributes[conventions.INPUT_MESSAGES] = content.messages(request.messages)
            attributes |= content.request_attributes(request.system, request.tools)
        if message is not None and message.content:
            attributes[conventions.OUTPUT_MESSAGES] = content.answer(message)
        self._signals.put_content(self.span, self._context, self._attributes, attributes)

    def _exception(self, error: BaseException, text: str) -> None:
        attributes: Attributes = {"exception.type": type(error).__qualname__, "exception.message": text}
        self._signals.emit(conventions.EXCEPTION_EVENT, attributes, self._context, warn=True)


class RunSpan:
    """The trace of one run.

    Args:
        signals: Creates spans, events, and metrics.
        agent: The agent of the run.
        name: Its name; for a subagent, that of its kind.
        id: ID of a subagent.
        run_id: ID of the run.
        parent: The parent context; ``None`` is the current one.
        started_at: Start of the wait before the run, in nanoseconds since 1970; ``None`` is now.

    Attributes:
        span: Its span.
        context: A context in which that is the current one.
    """

    def __init__(
        self,
        signals: TelemetryContext,
        agent: CoreAgent,
        name: str,
        id: str,
        run_id: str,
        *,
        parent: Context | None,
        started_at: int | None = None,
    ) -> None:
        self._signals = signals
        self._agent = agent
        self._content = ContentEncoder(signals.cleaner)
        self._started = time.perf_counter()
        self._attributes: Attributes = {
            conventions.OPERATION: conventions.INVOKE_AGENT,
            **model_attributes(agent.model.provider, agent.model.model),
        }
        given: Attributes = {**self._attributes, conventions.AGENT_NAME: name, conventions.RUN_ID: run_id}
        if id:
            given[conventions.AGENT_ID] = id
        if agent.session_id:
            given[conventions.CONVERSATION_ID] = agent.session_id
        title = signals.span_name(conventions.INVOKE_AGENT, name)
        self.span = signals.tracer.start_span(title, parent, signals.api.internal, given, start_time=started_at)
        self.context = signals.api.context_with(self.span, parent)
        self._scope = CurrentSpan(signals.api)
        self._scope.enter(self.context)
        self._server = server_attributes(agent.model)
        self._chat: ModelCallSpan | None = None
        self._calls: dict[str, ToolCallSpan] = {}
        self._id = run_id
        self._turn = 0
        self._request: ModelRequest | None = None
        self._prompts: list[Message] = []

    def ids(self, event: Event) -> SpanContext | None:
        """Return the IDs of the span that begins with an event."""
        api = self._signals.api
        match event:
            case AgentStart():
                return api.span_ids(self.span)
            case MessageStart() if self._chat is not None:
                return api.span_ids(self._chat.span)
            case ToolExecutionStart() if call := self._calls.get(event.call.id):
                return call.ids
            case _:
                return None

    @property
    def _is_replaying(self) -> bool:
        """Return True if the last step of a durable run was read back: the attempt that executed it has reported it."""
        return bool(getattr(self._agent.steps, "replaying", False))

    # --- events and hooks -------------------------------------------------------------------------------------------

    def map(self, event: Event) -> None:
        """Map an event to spans, span events, and metrics; a call that never started has no span."""
        match event:
            case MessageStart(message=Message(role="assistant") as message):
                self._start_model_call(message)
            case MessageStart(message=Message() as message) if not self._turn:
                self._prompts.append(message)
            case MessageEnd(message=Message(role="assistant") as message):
                self._end_model_call(message)
            case StreamError():
                self._end_model_call(event.message, event.exception, aborted=event.reason == "aborted")
            case ModelCallRetry() if self._chat is not None and not self._is_replaying:
                self._chat.retry(event)
            case ToolExecutionStart():
                self._start_call(event)
            case ToolExecutionEnd() if call := self._calls.pop(event.call.id, None):
                if event.call.id in getattr(self._agent.steps, "replayed_calls", ()):
                    call.discard()
                else:
                    call.end(event)
            case UsageUpdate() if event.purpose and not self._is_replaying:
                self._record_side_call(event)
            case ContextCompacted(reason=reason, before=before, after=after):
                counts: Attributes = {"reason": reason, "before": before, "after": after}
                self.span.add_event(conventions.COMPACTED_EVENT, counts)
            case _:
                pass

    def record_chunk(self) -> None:
        """Record that a piece of a response arrived."""
        if self._chat is not None:
            self._chat.record_chunk()

    def begin_turn(self, hook: TurnBefore) -> None:
        """Record a complete request. The options of the first are those of the run."""
        if self._request is None:
            self.span.set_attributes(
                {k: v for k, v in request_attributes(hook.request).items() if k != conventions.REQUEST_STREAM}
            )
        self._turn, self._request = hook.turn, hook.request

    def fail_model_call(self, hook: ModelErrorHook) -> None:
        """Record a model call that failed permanently; a handler may repeat it."""
        self._end_model_call(hook.error.partial, hook.error)

    def start_tool(self, hook: BeforeToolRun) -> None:
        """Record the start of a tool, in the task that runs it."""
        if not hook.block and (call := self._calls.get(hook.call_id)):
            call.start(hook.input)

    def _start_model_call(self, message: Message) -> None:
        self._end_model_call(None)
        provider = message.provider or self._agent.model.provider
        model = message.model or self._agent.model.model
        request = model_attributes(provider, model)
        if request.items() - self._attributes.items():  # a run may use another model than its agent's own
            self._attributes |= request
            self.span.set_attributes(request)
        own = (provider, model) == (self._agent.model.provider, self._agent.model.model)
        self._chat = ModelCallSpan(
            self._signals,
            self._content,
            self.context,
            common=request | self._server if own else request,
            extra={conventions.RUN_ID: self._id, conventions.TURN: self._turn},
            request=self._request,
        )

    def _end_model_call(
        self, message: Message | None, error: BaseException | None = None, *, aborted: bool = False
    ) -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        if self._is_replaying and not aborted:
            chat.detach()  # a span that never ends is not exported
        else:
            chat.end(message, error, aborted=aborted)

    def _start_call(self, event: ToolExecutionStart) -> None:
        tool = self._agent.tools.get(event.call.name)
        self._calls[event.call.id] = ToolCallSpan(
            self._signals,
            self._content,
            self.span,
            self.context,
            self._id,
            event,
            tool.description if tool is not None else "",
        )

    def _record_side_call(self, event: UsageUpdate) -> None:
        """Record a model call outside the conversation; its model and duration are unknown."""
        attributes: Attributes = {conventions.PURPOSE: event.purpose, **usage_attributes(event.usage)}
        self.span.add_event(conventions.SIDE_CALL_EVENT, attributes)
        self._signals.instruments.usage(
            event.usage,
            {conventions.OPERATION: conventions.CHAT, conventions.PROVIDER: self._attributes[conventions.PROVIDER]},
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Restore the previous context of the run's task."""
        if self._chat is not None:
            self._chat.detach()
        self._scope.leave()

    def end(self, event: AgentEnd) -> None:
        """End the run and all spans that are still open."""
        self._end_model_call(None, aborted=True)
        for call in self._calls.values():
            call.abandon()
        self._scope.leave()
        signals, span = self._signals, self.span
        status, stats, error = event.status, event.stats, event.exception
        span.set_attributes({conventions.RUN_STATUS: status, conventions.TURNS: stats.turns})
        usage = usage_attributes(stats.usage)
        span.set_attributes({k: v for k, v in usage.items() if k != conventions.USAGE_REASONING})
        kind = ""
        if status == "aborted":
            kind = "aborted"
            signals.api.mark_failed(span, kind, "the run was aborted")
        elif error is not None or status == "error":
            kind = error_type(error) if error is not None else "error"
            signals.api.mark_failed(span, kind, signals.error_text(error) if error is not None else kind)
        answers = (m for m in reversed(event.messages) if isinstance(m, Message) and m.role == "assistant")
        answer = next(answers, None)
        if answer is not None and answer.stop_reason:
            span.set_attribute(
                conventions.FINISH_REASONS, (conventions.STOP_REASONS.get(answer.stop_reason, answer.stop_reason),)
            )
        if signals.options.sensitive and span.is_recording():
            self._put_content(answer)
        span.end()
        signals.instruments.duration(time.perf_counter() - self._started, self._attributes, kind)

    def _put_content(self, answer: Message | None) -> None:
        attributes: Attributes = {}
        if self._request is not None:
            attributes |= self._content.request_attributes(self._request.system, self._request.tools)
        if self._prompts:
            attributes[conventions.INPUT_MESSAGES] = self._content.messages(self._prompts)
        if answer is not None and answer.content:
            attributes[conventions.OUTPUT_MESSAGES] = self._content.answer(answer)
        if attributes and self._signals.options.content != "events":
            self.span.set_attributes(attributes)
