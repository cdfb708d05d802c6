"""Run a tool so that no failure leaves its call; results for calls that fail or do not run; the size of an output.

The texts here are read by the model.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any

from mainspring.cancellation import CancelToken, run_cancellable
from mainspring.env.paths import is_system_refusal
from mainspring.errors import (
    AuthenticationError,
    ConfigError,
    ModelNotFoundError,
    ModelTimeoutError,
    NetworkError,
    PermissionDeniedError,
    ProviderConfigError,
    RateLimitedError,
    ToolError,
    describe_failure,
)
from mainspring.messages import ImageBlock, TextBlock
from mainspring.redaction import redact_environment
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolOutput, ToolResult, to_tool_result

logger = logging.getLogger("mainspring")

NOT_RUN_ABORTED = "Aborted: the run was stopped before this call was made."
ABORTED_WHILE_RUNNING = "Aborted: the run was stopped while this call was running; what it did until then is unknown."
TIMED_OUT = "{tool} was stopped at its time limit of {seconds}; what it did until then is unknown."
SKIPPED = "Skipped: a new message from the user came in before this call was made."
NOT_RUN_STREAM_ERROR = "Not run: the response ended before it was complete."
TRUNCATED = (
    "Not run: the answer reached its output limit{limit} before it was complete, so the arguments may be cut off. "
    "Make the call again with less in it, or do it in several smaller calls."
)
EMPTY_RESPONSE_PROMPT = (
    "Your last reply contained neither an answer nor a tool call. Reply again: call a tool, or answer in plain text."
)
MISSING_CALL_PROMPT = "Your last reply ended as if a tool call followed, but it contained none. Make the call now, or answer if the work is done."
CONTINUE_PROMPT = "Continue."
_TIME_LIMIT = "time limit of the tool"
_IMAGE_OMITTED = "[image left out: this model cannot see images]"


def error_result(text: str, code: ToolErrorCode) -> ToolResult:
    """Return the result of a failed call."""
    return ToolResult(output=text, is_error=True, code=code)


def result_from_exception(name: str, error: Exception) -> ToolResult:
    """Return the result that the model gets for an exception of the tool ``name``.

    An unexpected exception is a bug in the tool: it is logged with its traceback. The model gets neither the traceback nor secrets.
    """
    text = safe_str(error)
    if isinstance(error, ToolError):
        return error_result(text, ToolErrorCode.UNKNOWN)
    text = redact_environment(text)
    code = next((code for kind, code in _EXCEPTION_CODES.items() if isinstance(error, kind)), None)
    if code is None:
        trace = "".join(traceback.format_exception(error))
        logger.error("Tool %s raised an unexpected exception:\n%s", name, redact_environment(trace).rstrip())
        return error_result(f"Error: {type(error).__name__}{text and f': {text}'}", ToolErrorCode.UNKNOWN)
    if isinstance(error, PermissionError) and is_system_refusal(error):
        code = ToolErrorCode.IO_ERROR
    if isinstance(error, TimeoutError):
        text = text or f"{name} took too long"
    elif not isinstance(error, PermissionDeniedError):
        text = f"Error: {text}"
    return error_result(text, code)


_EXCEPTION_CODES: dict[type[Exception], ToolErrorCode] = {
    PermissionDeniedError: ToolErrorCode.PERMISSION_DENIED,
    PermissionError: ToolErrorCode.PERMISSION_DENIED,
    TimeoutError: ToolErrorCode.TIMEOUT,
    ModelTimeoutError: ToolErrorCode.TIMEOUT,
    FileNotFoundError: ToolErrorCode.NOT_FOUND,
    ModelNotFoundError: ToolErrorCode.NOT_FOUND,
    OSError: ToolErrorCode.IO_ERROR,
    NetworkError: ToolErrorCode.IO_ERROR,
    RateLimitedError: ToolErrorCode.RATE_LIMITED,
    ConfigError: ToolErrorCode.CONFIG_ERROR,
    ProviderConfigError: ToolErrorCode.CONFIG_ERROR,
    AuthenticationError: ToolErrorCode.CONFIG_ERROR,
}
"""The code of each known exception of a tool; the first class that matches decides."""


def rebuild_exception(kind: str, text: str) -> Exception:
    """Rebuild a recorded exception of a tool: of a known class, or of a new class with the recorded name."""
    return _EXCEPTION_TYPES.get(kind, type(kind, (Exception,), {}))(text)


_EXCEPTION_TYPES: dict[str, type[Exception]] = {e.__name__: e for e in (ToolError, *_EXCEPTION_CODES)}


def safe_str(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` fails."""
    try:
        return describe_failure(error)
    except Exception as raised:
        return f"(its text cannot be had: {type(raised).__name__})"


def output_bytes(output: ToolOutput) -> int:
    """Return the size of an output: UTF-8 bytes of text, base64 length of images."""
    if isinstance(output, str):
        return len(output.encode("utf-8", "replace"))
    return sum(len(b.data) if isinstance(b, ImageBlock) else output_bytes(b.text) for b in output)


def replace_images(output: Sequence[TextBlock | ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    """Replace each image with a line of text, for a model without vision."""
    return tuple([TextBlock(_IMAGE_OMITTED) if isinstance(b, ImageBlock) else b for b in output])


async def run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext, grace: float = 2.0) -> ToolResult:
    """Run a tool.

    Args:
        tool: The tool.
        arguments: Its validated arguments.
        context: The context of the call; its signal cancels the tool.
        grace: Seconds that the tool has to end after the signal is set, before it is abandoned.

    Raises:
        Exception: The exception of the tool; one that would end the program, such as SystemExit, as a `ToolError`.
        KeyboardInterrupt: If the user interrupted the tool.
        TimeoutError: If the tool took longer than its ``timeout``.
        asyncio.CancelledError: If the signal or a cancellation from outside ended the tool.
    """

    async def work() -> ToolResult:
        task = asyncio.current_task()
        try:
            output = await tool.execute(arguments, context)
            return _to_result(tool, output)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            if _is_cancellation(error, task):
                raise
            raise ToolError(f"Error: {type(error).__name__}: {safe_str(error)}".removesuffix(": ")) from error

    if tool.timeout is None:
        return await run_cancellable(work, context.signal, grace)
    of_run, context.signal = context.signal, CancelToken()
    unlink = of_run.on_cancel(lambda: context.signal.cancel(of_run.reason))
    timer = asyncio.get_running_loop().call_later(tool.timeout, context.signal.cancel, _TIME_LIMIT)
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0
    try:
        return await run_cancellable(work, context.signal, grace)
    except asyncio.CancelledError:
        is_cancelled = task is not None and task.cancelling() > cancellations
        if is_cancelled or of_run.cancelled or not context.signal.cancelled:
            raise
        raise TimeoutError(TIMED_OUT.format(tool=tool.name, seconds=f"{tool.timeout:g}s")) from None
    finally:
        unlink()
        timer.cancel()


def _to_result(tool: Tool, output: Any) -> ToolResult:
    """Return the result. Log an output of the wrong type, too: only the developer of the tool can fix it."""
    try:
        return to_tool_result(output, tool.name)
    except TypeError as error:
        logger.error("%s", error)
        raise


def _is_cancellation(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return True if the task of a tool is being cancelled or collected, so that the exception is not the tool's own."""
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    try:
        return asyncio.current_task() is not task
    except RuntimeError:  # without an event loop the coroutine is being collected
        return True
