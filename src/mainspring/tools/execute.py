"""What became of a call: what is said of one that did not run, its failure as a result, and the size of its output.

Running a tool so that nothing it does reaches further than its own call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from mainspring.cancellation import run_cancellable
from mainspring.errors import PermissionDeniedError, ToolError
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolOutput, ToolResult, to_tool_result

NOT_RUN_ABORTED = "Aborted: the run was stopped before this call was made."
ABORTED_WHILE_RUNNING = "Aborted: the run was stopped while this call was running; what it did until then is unknown."
SKIPPED = "Skipped: a new message from the user came in before this call was made."
NOT_RUN_STREAM_ERROR = "Not run: the answer broke off before it was complete."
TRUNCATED = (
    "Not run: the answer reached its output limit{limit} before it was complete, so the arguments may be cut off. "
    "Make the call again with less in it, or do it in several smaller calls."
)
EMPTY_RESPONSE_PROMPT = (
    "Your last reply held neither an answer nor a tool call. Reply again: call a tool, or answer in plain text."
)
_IMAGE_OMITTED = "[image left out: this model cannot see images]"


def error_result(text: str, code: ToolErrorCode) -> ToolResult:
    """A result that says that the call failed."""
    return ToolResult(output=text, is_error=True, code=code)


def result_from_exception(name: str, error: Exception) -> ToolResult:
    """What the model is told of an exception of the tool ``name``."""
    text = safe_str(error)
    match error:
        case ToolError():
            return error_result(text, ToolErrorCode.UNKNOWN)
        case PermissionDeniedError():
            return error_result(text, ToolErrorCode.PERMISSION_DENIED)
        case TimeoutError():
            return error_result(text or f"{name} took too long", ToolErrorCode.TIMEOUT)
        case FileNotFoundError():
            return error_result(f"Error: {text}", ToolErrorCode.NOT_FOUND)
        case OSError():
            return error_result(f"Error: {text}", ToolErrorCode.IO_ERROR)
        case _:
            return error_result(f"Error: {type(error).__name__}: {text}", ToolErrorCode.UNKNOWN)


def rebuild_exception(kind: str, text: str) -> Exception:
    """An exception of a tool that is known by its name and text alone: of the known class, or one that only looks like it."""
    return _EXCEPTION_TYPES.get(kind, type(kind, (Exception,), {}))(text)


_EXCEPTION_TYPES: dict[str, type[Exception]] = {
    e.__name__: e for e in (ToolError, PermissionDeniedError, TimeoutError, FileNotFoundError, OSError)
}


def safe_str(error: BaseException) -> str:
    """What an exception says, even where its own ``__str__`` fails."""
    try:
        return str(error)
    except Exception as raised:
        return f"(its text cannot be had: {type(raised).__name__})"


def output_bytes(output: ToolOutput) -> int:
    """The size of an output: UTF-8 bytes of text, base64 length of images."""
    if isinstance(output, str):
        return len(output.encode("utf-8", "replace"))
    return sum(len(b.data) if isinstance(b, ImageBlock) else output_bytes(b.text) for b in output)


def replace_images(output: Sequence[TextBlock | ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    """An output for a model that has no eyes: each image is a line that says so."""
    return tuple([TextBlock(_IMAGE_OMITTED) if isinstance(b, ImageBlock) else b for b in output])


logger = logging.getLogger("mainspring")


async def run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext, grace: float = 2.0) -> ToolResult:
    """Run a tool; arguments are taken as they are.

    Args:
        tool: The tool.
        arguments: Its arguments, validated.
        context: What it may know and use; its signal ends it.
        grace: Seconds that it gets to end once the signal is set, before it is abandoned.

    Raises:
        Exception: What the tool raised; its own SystemExit, say, as a `ToolError`.
        KeyboardInterrupt: If it was interrupted.
        asyncio.CancelledError: If the signal or a cancellation from outside ended it.
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
            raise ToolError(f"Error: {type(error).__name__}: {safe_str(error)}") from error

    return await run_cancellable(work, context.signal, grace)


def _to_result(tool: Tool, output: Any) -> ToolResult:
    """The result, or a failure that its developer finds in the log: the model can do nothing about it."""
    try:
        return to_tool_result(output, tool.name)
    except TypeError as error:
        logger.error("%s", error)
        raise


def _is_cancellation(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether a tool is being cancelled or thrown away; a tool's own SystemExit, say, is no reason to end the program."""
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    try:
        return asyncio.current_task() is not task
    except RuntimeError:  # no loop runs: the coroutine is being collected
        return True
