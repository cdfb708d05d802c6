"""What became of a call: what is said of one that did not run, its failure as a result, and the size of its output."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import PermissionDeniedError, ToolError
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools.tool import ToolErrorCode, ToolOutput, ToolResult

ABORTED = "Aborted: the run was stopped before this call was made."
INTERRUPTED = "Aborted: the run was stopped while this call was running; what it did until then is unknown."
SKIPPED = "Skipped: a new message from the user came in before this call was made."
BROKEN_OFF = "Not run: the answer broke off before it was complete."
TRUNCATED = (
    "Not run: the answer reached its output limit{limit} before it was complete, so the arguments may be cut off. "
    "Make the call again with less in it, or do it in several smaller calls."
)
NO_ANSWER = "Your last reply held neither an answer nor a tool call. Reply again: call a tool, or answer in plain text."
_IMAGE = "[image left out: this model cannot see images]"


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


def failure_again(kind: str, text: str) -> Exception:
    """An exception of a tool that is known by its name and text alone: of the known class, or one that only looks like it."""
    return _KINDS.get(kind, type(kind, (Exception,), {}))(text)


_KINDS: dict[str, type[Exception]] = {
    e.__name__: e for e in (ToolError, PermissionDeniedError, TimeoutError, FileNotFoundError, OSError)
}


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


def without_images(output: Sequence[TextBlock | ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    """An output for a model that has no eyes: each image is a line that says so."""
    return tuple([TextBlock(_IMAGE) if isinstance(b, ImageBlock) else b for b in output])
