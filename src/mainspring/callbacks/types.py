"""The callbacks of an application, and their arguments."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from mainspring.errors import AgentAbortedError, AgentProviderError, ModelError, describe_failure
from mainspring.events.span import SpanContext
from mainspring.messages import Message, Usage
from mainspring.permissions import PermissionRequest
from mainspring.redaction import redact_environment
from mainspring.tools import ToolResult
from mainspring.tools.response import ToolResponse

PermissionResult = bool | Awaitable[bool]
"""True to allow or False to deny, immediate or awaitable."""


class ErrorReport(Struct, frozen=True, kw_only=True):
    """A failure, in fields.

    Attributes:
        code: One of the ten codes of `ModelError`; ``ABORTED``; or ``UNKNOWN``.
        message: The error, without secrets.
        reason: A more specific code if known, for example ``quota``.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait as requested by the server, if any.
        status: HTTP status, if any.
        provider: Name of the provider, if a model failed.
        model: ID of the model, if a model failed.
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
        """Create a report from an exception."""
        cause = error.cause if isinstance(error, AgentProviderError) and error.cause else error
        text = redact_environment(describe_failure(error) or type(error).__name__)
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
    """Callbacks for an agent's actions. All are optional; a missing callback costs nothing.

    All are plain functions that return immediately (except ``on_permission_request``, which may be async). An exception is logged,
    and the run continues. Order: ``on_agent_start``, ``on_spinner_start``; for each model call ``on_llm_start``, ``on_llm_stream`` for
    each piece of text, ``on_llm_end``; for each tool call ``on_tool_start``, ``on_tool_end``; finally ``on_error`` if the run failed,
    ``on_spinner_stop``, ``on_agent_end``.

    Attributes:
        on_agent_start: A run begins; gets its prompt's text.
        on_agent_end: A run has ended; gets the text of the last response, if any.
        on_llm_start: A request is about to be sent; gets the model's name and the messages.
        on_llm_stream: A piece of text arrived.
        on_llm_end: A response is complete; gets its text and usage. Not called for a call that failed.
        on_tool_start: A tool call starts; gets the tool's name and the arguments from the model.
        on_tool_end: A call has its result: as `ToolResponse`, and in full.
        on_spinner_start: A wait begins; gets a label for the user.
        on_spinner_stop: The wait is over.
        on_answer_stream: A response with text begins; gets an async generator of its pieces, which ends with the response.
        on_error: A model call failed permanently, or the run failed; once for each failure.
        on_debug: Debug information; gets a line and fields.
        on_trace: Every step of the run: turns, messages, tool calls, retries, and the blocks of a response, but not its pieces. Gets
            the type of the event, and the event.
        on_permission_request: The user must be asked (``request["scope"]``, ``["resource"]``, ``["action"]``). Sync or async; a sync
            one runs in a thread and may block. Used if the agent has permissions without another way to ask.
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
                    f"{name} is async. It must be a plain function that returns immediately (start a task in it)."
                )
