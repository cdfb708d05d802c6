"""`ToolResponse`, a tool's result as a union of success and failure, and `AssistRequest`.

Callbacks receive the union, and tools of older programs return it. The agent uses `ToolResult`; only this module converts
between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from mainspring.tools.tool import ToolErrorCode, ToolResult, to_tool_result

_ASSIST = ToolErrorCode.LLM_ASSIST_REQUIRED


class SuccessResponse(Struct, frozen=True):
    """Result of a successful call.

    Attributes:
        result: Output of the tool.
        message: A line for the user.
        success: Always true; distinguishes the two forms.
    """

    result: Any = None
    message: str = ""
    success: Literal[True] = True

    def to_tool_result(self) -> ToolResult:
        """Convert to a `ToolResult`."""
        result = to_tool_result(self.result)
        result.title = self.message
        return result


class ErrorResponse(Struct, frozen=True):
    """Result of a failed call.

    Attributes:
        error: Kind of failure.
        message: Description of the failure, for the model and the user.
        success: Always false; distinguishes the two forms.
    """

    error: ToolErrorCode
    message: str = ""
    success: Literal[False] = False

    def to_tool_result(self) -> ToolResult:
        """Convert to a `ToolResult`."""
        return ToolResult(output=self.message, is_error=True, code=self.error)


ToolResponse = SuccessResponse | ErrorResponse
"""Result of a call."""


def success_response(result: Any, message: str = "") -> SuccessResponse:
    """Create a success with its result."""
    return SuccessResponse(result, message)


def error_response(error: ToolErrorCode | str, message: str) -> ErrorResponse:
    """Create a failure; an unknown code becomes ``UNKNOWN``."""
    return ErrorResponse(to_error_code(error), message)


def to_error_code(value: object) -> ToolErrorCode:
    """Return the error code that ``value`` names; ``UNKNOWN`` if it does not name a code."""
    try:
        return ToolErrorCode(str(value))
    except ValueError:
        return ToolErrorCode.UNKNOWN


def to_tool_response(result: ToolResult) -> ToolResponse:
    """Convert a `ToolResult` to a `ToolResponse`.

    A failure keeps its code, or the code in ``metadata["error"]``. The result of a success is the data that the tool returned,
    or its text; the message is its title, or else the first line of its text.
    """
    named = result.code or result.metadata.get("error")
    if result.is_error or named:
        return ErrorResponse(to_error_code(named), result.text)
    return SuccessResponse(result.value, result.title or result.text.partition("\n")[0])


class AssistRequest(Struct, frozen=True, kw_only=True):
    """Request of a tool for assistance of a model.

    Tools never call a model; they return this request, and the agent decides.

    Attributes:
        prompt: Prompt for the model.
        message: Reason why the tool cannot continue alone, for the user.
        action: Always ``LLM_ASSIST_REQUIRED``.
    """

    prompt: str
    message: str = ""
    action: str = _ASSIST.value

    def to_tool_result(self) -> ToolResult:
        """Return the result to return from the tool."""
        fields = {"action": self.action, "prompt": self.prompt, "message": self.message}
        return ToolResult(
            output=msgspec.json.encode(fields).decode(),
            title=self.message or "needs a model's help",
            metadata={"error": _ASSIST.value},
            is_error=True,
            code=_ASSIST,
        )


def extract_assist_request(result: ToolResult, *, trust_text: bool = True) -> AssistRequest | None:
    """Return the request for assistance, if the result contains one.

    Two forms are supported: a marked result (``code``, or ``metadata["error"]``) with prompt and message in its metadata or
    as a JSON object in its output; and the older form, a bare JSON object as output: ``{"action": "LLM_ASSIST_REQUIRED",
    "prompt": ..., "message": ...}`` or ``{"success": false, "error": "LLM_ASSIST_REQUIRED", "message": ...}``.

    Args:
        result: Result of the tool.
        trust_text: Whether to accept the bare form. Use False for tools that return external content (files, web pages,
            other servers), since anyone could write such an object.
    """
    marked = result.code is _ASSIST or result.metadata.get("error") == _ASSIST.value
    if not marked and not trust_text:
        return None
    fields = _mapping(result.output)
    if fields is None or not (marked or _ASSIST.value in (fields.get("action"), fields.get("error"))):
        if not marked:
            return None
        fields = {"prompt": result.text}
    # Metadata next to the mark comes from the tool itself, so it has priority.
    found = {**fields, **{k: v for k, v in result.metadata.items() if k in ("prompt", "message")}}
    message = found.get("message")
    message = message if isinstance(message, str) else ""
    prompt = found.get("prompt")
    prompt = prompt if isinstance(prompt, str) and prompt.strip() else message
    return AssistRequest(prompt=prompt, message=message) if prompt.strip() else None


def _mapping(value: object) -> dict[str, Any] | None:
    """Return the value if it is a mapping, or the mapping in a JSON text."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else None
