"""The functions that an application may give, and what they are given."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from mainspring.errors import AgentAbortedError, AgentProviderError, ModelError
from mainspring.events.span import SpanContext
from mainspring.messages import Message, Usage
from mainspring.permissions import PermissionRequest
from mainspring.redaction import redact_environment
from mainspring.tools import ToolResult
from mainspring.tools.response import ToolResponse

PermissionResult = bool | Awaitable[bool]
"""Yes or no, now or later."""


class ErrorReport(Struct, frozen=True, kw_only=True):
    """A failure, in fields.

    Attributes:
        code: One of the ten codes of `ModelError`; ``ABORTED``; or ``UNKNOWN``.
        message: What happened, without secrets.
        reason: A finer word where one is known, as ``quota``.
        retryable: Whether the same may succeed later.
        retry_after: Seconds the server asked to wait, if it did.
        status: HTTP status, if there was one.
        provider: Name of the provider, if it was a model that failed.
        model: Id of the model, likewise.
        error: The exception itself.
    """

    code: str
    message: str
    reason: str = ""
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None
    provider: str | None = None
    model: str | None = None
    error: BaseException

    @classmethod
    def from_exception(cls, error: BaseException) -> ErrorReport:
        """What an exception says."""
        cause = error.cause if isinstance(error, AgentProviderError) and error.cause else error
        text = redact_environment(str(error) or type(error).__name__)
        if isinstance(cause, ModelError):
            return cls(
                code=cause.code.value,
                message=text,
                reason=cause.reason,
                retryable=cause.retryable,
                retry_after=cause.retry_after,
                status=cause.status,
                provider=cause.provider,
                model=cause.model,
                error=error,
            )
        return cls(code="ABORTED" if isinstance(error, AgentAbortedError) else "UNKNOWN", message=text, error=error)


class AgentCallbacks(Struct, frozen=True, kw_only=True, eq=False):
    """Functions that are told what an agent does. Each may be left out, and costs nothing then.

    All are plain functions that return at once (but ``on_permission_request``, which may be async). What one raises is logged,
    and the run goes on. Order: ``on_agent_start``, ``on_spinner_start``; for each model call ``on_llm_start``, ``on_llm_stream`` for
    each piece of text, ``on_llm_end``; for each tool call ``on_tool_start``, ``on_tool_end``; at last ``on_error`` if the run failed,
    ``on_spinner_stop``, ``on_agent_end``.

    Attributes:
        on_agent_start: A run begins; gets its prompt's text.
        on_agent_end: A run is over; gets the text of the last answer, as far as there is one.
        on_llm_start: A request is about to be sent; gets the model's name and the messages.
        on_llm_stream: A piece of text arrived.
        on_llm_end: An answer is complete; gets its text and usage. Not called for a call that failed.
        on_tool_start: A tool call is taken up; gets the tool's name and the arguments as the model gave them.
        on_tool_end: A call has its result: as `ToolResponse`, and in full.
        on_spinner_start: Something to wait for begins; gets a line for people.
        on_spinner_stop: Nothing more to wait for.
        on_answer_stream: An answer with text begins; gets an async generator of its pieces, which ends with the answer.
        on_error: A model call failed for good, or the run failed; once for each failure.
        on_debug: Something worth a line while looking for a fault; gets a line and facts.
        on_trace: Every event of the run but the pieces of an answer; gets its type, and the event.
        on_permission_request: A person must be asked (``request["scope"]``, ``["resource"]``, ``["action"]``). Sync or async; a sync
            one runs in a thread and may wait. Used where the agent has permissions that have nobody else to ask.
    """

    on_agent_start: Callable[[SpanContext, str], object] | None = None
    on_agent_end: Callable[[SpanContext, str], object] | None = None
    on_llm_start: Callable[[SpanContext, str, Sequence[Message]], object] | None = None
    on_llm_stream: Callable[[SpanContext, str], object] | None = None
    on_llm_end: Callable[[SpanContext, str, Usage], object] | None = None
    on_tool_start: Callable[[SpanContext, str, dict[str, Any]], object] | None = None
    on_tool_end: Callable[[SpanContext, str, ToolResponse, ToolResult], object] | None = None
    on_spinner_start: Callable[[str], object] | None = None
    on_spinner_stop: Callable[[], object] | None = None
    on_answer_stream: Callable[[AsyncGenerator[str, None]], object] | None = None
    on_error: Callable[[SpanContext, ErrorReport], object] | None = None
    on_debug: Callable[[SpanContext, str, dict[str, Any]], object] | None = None
    on_trace: Callable[[SpanContext, str, Any], object] | None = None
    on_permission_request: Callable[[PermissionRequest], PermissionResult] | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name != "on_permission_request" and inspect.iscoroutinefunction(getattr(self, name)):
                raise TypeError(
                    f"{name} is async; it must be a plain function that returns at once (start a task in it)"
                )
