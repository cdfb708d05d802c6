"""Running a tool so that nothing it does reaches further than its own call."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mainspring.cancellation import run_cancellable
from mainspring.errors import ToolError
from mainspring.tools.execute import told
from mainspring.tools.tool import Tool, ToolContext, ToolResult, as_result

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
            return _usable(tool, output)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            if _from_outside(error, task):
                raise
            raise ToolError(f"Error: {type(error).__name__}: {told(error)}") from error

    return await run_cancellable(work, context.signal, grace)


def _usable(tool: Tool, output: Any) -> ToolResult:
    """The result, or a failure that its developer finds in the log: the model can do nothing about it."""
    try:
        return as_result(output, tool.name)
    except TypeError as error:
        logger.error("%s", error)
        raise


def _from_outside(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether a tool is being cancelled or thrown away; a tool's own SystemExit, say, is no reason to end the program."""
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    try:
        return asyncio.current_task() is not task
    except RuntimeError:  # no loop runs: the coroutine is being collected
        return True
