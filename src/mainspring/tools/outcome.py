"""What became of a call: its failure as a result, and the size of its output."""

from __future__ import annotations

from mainspring.errors import PermissionDeniedError, ToolError
from mainspring.messages import ImageBlock
from mainspring.tools.tool import ToolErrorCode, ToolOutput, ToolResult


def error_result(text: str, code: ToolErrorCode) -> ToolResult:
    """A result that says that the call failed."""
    return ToolResult(output=text, is_error=True, code=code)


def failure(name: str, error: Exception) -> ToolResult:
    """What the model is told of an exception of the tool ``name``."""
    text = told(error)
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


def told(error: BaseException) -> str:
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
