"""One model call: its span, and what is measured of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mainspring.events import ModelRetry
from mainspring.messages import Message, Usage
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import Attributes, error_type, of_answer, of_request
from mainspring.telemetry.content import Content
from mainspring.telemetry.otel import Scope
from mainspring.telemetry.signals import Signals

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from mainspring.models import ModelRequest


class ChatTrace:
    """A model call from the request to its answer, with the attempts that failed on the way.

    Args:
        signals: What spans and the like are made with.
        content: Converts messages.
        context: That of the run.
        asked: Who is asked.
        extra: Further attributes of the span.
        request: What is asked, where it is known.
    """

    def __init__(
        self,
        signals: Signals,
        content: Content,
        context: Context,
        *,
        asked: Attributes,
        extra: Attributes,
        request: ModelRequest | None,
    ) -> None:
        self._signals = signals
        self._convert = content
        self._attributes: Attributes = {c.OPERATION: c.CHAT, **asked}
        given = {**self._attributes, **extra, **(of_request(request) if request is not None else {})}
        name = signals.span_name(c.CHAT, str(asked[c.REQUEST_MODEL]))
        self.span = signals.tracer.start_span(name, context, signals.api.client, given)
        self._context = signals.api.within(self.span, context)
        self._scope = Scope(signals.api)
        self._scope.enter(self._context)
        self._request = request
        self._began = self._asked = self._last = time.perf_counter()
        self._first = 0.0
        self._chunks = 0
        self._retries = 0

    def chunk(self) -> None:
        """A piece of the answer arrived."""
        now = time.perf_counter()
        if not self._chunks:
            self._first = now - self._asked
        self._chunks += 1
        self._last = now

    def retry(self, event: ModelRetry) -> None:
        """An attempt failed, and there will be another."""
        self._retries += 1
        kind, text = error_type(event.error), self._signals.error_text(event.error)
        attributes: Attributes = {"attempt": event.attempt, "delay": event.delay, c.ERROR_TYPE: kind, "message": text}
        self.span.add_event(c.RETRY_EVENT, attributes)
        self._exception(event.error, text)
        self._asked = time.perf_counter() + event.delay

    def leave(self) -> None:
        """It is the current span of the task no more."""
        self._scope.leave()

    def end(self, message: Message | None, error: BaseException | None = None, *, aborted: bool = False) -> None:
        """It is over, one way or the other."""
        signals, span = self._signals, self.span
        self._scope.leave()
        kind = ""
        if error is not None:
            kind, text = error_type(error), signals.error_text(error)
            signals.api.fail(span, kind, text)
            self._exception(error, text)
        elif aborted:
            kind = "aborted"
            signals.api.fail(span, kind, "the run was stopped")
        if message is not None:
            span.set_attributes(of_answer(message))
            if message.model:
                self._attributes[c.RESPONSE_MODEL] = message.model
        if self._retries:
            span.set_attribute(c.RETRIES, self._retries)
        if self._chunks:
            span.set_attribute(c.TIME_TO_FIRST_CHUNK, self._first)
        if signals.options.sensitive and span.is_recording():
            self._content(message)
        span.end()
        self._measure(message, kind)

    def _measure(self, message: Message | None, kind: str) -> None:
        measured = self._signals.instruments
        measured.duration(time.perf_counter() - self._began, self._attributes, kind)
        measured.usage((message and message.usage) or Usage.zero(), self._attributes)
        if self._chunks:
            between = (self._last - self._asked - self._first) / (self._chunks - 1) if self._chunks > 1 else None
            measured.chunks(self._first, between, self._attributes)

    def _content(self, message: Message | None) -> None:
        content, request = self._convert, self._request
        made: Attributes = {}
        if request is not None:
            made[c.INPUT_MESSAGES] = content.messages(request.messages)
            made |= content.given(request.system, request.tools)
        if message is not None and message.content:
            made[c.OUTPUT_MESSAGES] = content.answer(message)
        self._signals.put_content(self.span, self._context, self._attributes, made)

    def _exception(self, error: BaseException, text: str) -> None:
        attributes: Attributes = {"exception.type": type(error).__qualname__, "exception.message": text}
        self._signals.emit(c.EXCEPTION_EVENT, attributes, self._context, warn=True)
