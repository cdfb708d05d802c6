"""`ToolResponse`: a tool's result as a union of success and failure, and a tool's request that a model help it.

The union is what callbacks get, and what tools of older programs return. `ToolResult` is the form that the agent works with;
the two are converted here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from mainspring.tools.tool import ToolErrorCode, ToolResult, to_tool_result

_ASSIST = ToolErrorCode.LLM_ASSIST_REQUIRED


class SuccessResponse(Struct, frozen=True):
    """The call did what it should.

    Attributes:
        result: What it gave.
        message: A line for people.
        success: Always true; tells the two forms apart.
    """

    result: Any = None
    message: str = ""
    success: Literal[True] = True

    def to_tool_result(self) -> ToolResult:
        """The same as a `ToolResult`."""
        return ToolResult(output=to_tool_result(self.result).output, title=self.message)


class ErrorResponse(Struct, frozen=True):
    """The call failed.

    Attributes:
        error: What kind of failure.
        message: What happened, for the model and for people.
        success: Always false; tells the two forms apart.
    """

    error: ToolErrorCode
    message: str = ""
    success: Literal[False] = False

    def to_tool_result(self) -> ToolResult:
        """The same as a `ToolResult`."""
        return ToolResult(output=self.message, is_error=True, code=self.error)


ToolResponse = SuccessResponse | ErrorResponse
"""What a call came to."""


def success_response(result: Any, message: str = "") -> SuccessResponse:
    """A success with its result."""
    return SuccessResponse(result, message)


def error_response(error: ToolErrorCode | str, message: str) -> ErrorResponse:
    """A failure; a code that is none of the nine counts as ``UNKNOWN``."""
    return ErrorResponse(to_error_code(error), message)


def to_error_code(value: object) -> ToolErrorCode:
    """The code that ``value`` names; ``UNKNOWN`` where it names none."""
    try:
        return ToolErrorCode(str(value))
    except ValueError:
        return ToolErrorCode.UNKNOWN


def to_tool_response(result: ToolResult) -> ToolResponse:
    """A `ToolResult` as a `ToolResponse`.

    A failure keeps its code, or the one that ``metadata["error"]`` names. The message of a success is its title, or else the
    first line of its text.
    """
    named = result.code or result.metadata.get("error")
    if result.is_error or named:
        return ErrorResponse(to_error_code(named), result.text)
    return SuccessResponse(result.output, result.title or result.text.partition("\n")[0])


class AssistRequest(Struct, frozen=True, kw_only=True):
    """What a tool wants a model for. Tools never call one themselves: they return this, and the agent decides.

    Attributes:
        prompt: What to ask the model.
        message: Why the tool cannot go on alone, for people.
        action: Always ``LLM_ASSIST_REQUIRED``.
    """

    prompt: str
    message: str = ""
    action: str = _ASSIST.value

    def to_tool_result(self) -> ToolResult:
        """The result to return from the tool."""
        fields = {"action": self.action, "prompt": self.prompt, "message": self.message}
        return ToolResult(
            output=msgspec.json.encode(fields).decode(),
            title=self.message or "needs a model's help",
            metadata={"error": _ASSIST.value},
            is_error=True,
            code=_ASSIST,
        )


def extract_assist_request(result: ToolResult, *, trust_text: bool = True) -> AssistRequest | None:
    """What the tool asks for, if this result is such a request.

    Two forms are known: a result marked as one (``code``, or ``metadata["error"]``), with prompt and message in its metadata
    or as a JSON object in its output; and the older one, a bare JSON object as output: ``{"action": "LLM_ASSIST_REQUIRED",
    "prompt": ..., "message": ...}`` or ``{"success": false, "error": "LLM_ASSIST_REQUIRED", "message": ...}``.

    Args:
        result: What the tool gave.
        trust_text: Whether the bare form counts. It should not for tools that pass on what others wrote (files, web pages,
            other servers), as everybody could write such an object.
    """
    marked = result.code is _ASSIST or result.metadata.get("error") == _ASSIST.value
    if not marked and not trust_text:
        return None
    fields = _mapping(result.output)
    if fields is None or not (marked or _ASSIST.value in (fields.get("action"), fields.get("error"))):
        if not marked:
            return None
        fields = {"prompt": result.text}
    # What the metadata say beside the mark is the tool's own word, so it goes first.
    found = {**fields, **{k: v for k, v in result.metadata.items() if k in ("prompt", "message")}}
    message = found.get("message")
    message = message if isinstance(message, str) else ""
    prompt = found.get("prompt")
    prompt = prompt if isinstance(prompt, str) and prompt.strip() else message
    return AssistRequest(prompt=prompt, message=message) if prompt.strip() else None


def _mapping(value: object) -> dict[str, Any] | None:
    """A mapping, or the one that JSON text holds."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else None
