"""The fields of Chat Completions answers that are used, as typed structs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import strip_surrogates


class FunctionDelta(Struct, gc=False):
    """A piece of a function call."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(Struct, gc=False):
    """A piece of a tool call."""

    id: str | None = None
    index: int | None = None
    function: FunctionDelta | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


class Delta(Struct, gc=False):
    """A piece of the answer, or all of it."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: FunctionDelta | None = None
    extra_content: dict[str, Any] | None = None


class Choice(Struct, gc=False):
    """One of the answers; only the first is used."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    usage: dict[str, Any] | None = None


class Chunk(Struct, gc=False):
    """One event of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    id: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
"""The fast way; anything unusual about the types fails, and `loose_chunk` takes over."""


def loose_object(data: bytes) -> dict[str, Any]:
    """The JSON object of ``data``, also with control characters in strings, bad UTF-8 or half surrogates in it.

    Raises:
        ValueError: If it is no JSON object.
    """
    value = json.loads(data.decode("utf-8", "replace"), strict=False)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004
    return value  # pyright: ignore[reportUnknownVariableType]


def loose_chunk(value: dict[str, Any]) -> Chunk:
    """The chunk in an object whose fields may have any type; what does not fit is left out."""
    choices = [_choice(c) for c in _list(value.get("choices")) if isinstance(c, dict)]
    return Chunk(
        choices, _text(value.get("id")), _dict(value.get("usage")), value.get("error"), _dict(value.get("x_groq"))
    )


def _choice(value: dict[str, Any]) -> Choice:
    return Choice(
        index=_int(value.get("index")),
        delta=_delta(value.get("delta")),
        message=_delta(value.get("message")),
        finish_reason=_text(value.get("finish_reason")),
        stop_reason=_text(value.get("stop_reason")),
        usage=_dict(value.get("usage")),
    )


def _delta(value: Any) -> Delta | None:
    if not isinstance(value, dict):
        return None
    content: Any = value.get("content")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(content, dict):
        content = [content]
    elif not isinstance(content, list):
        content = _text(content)
    fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    calls = [_call(c) for c in _list(fields.get("tool_calls")) if isinstance(c, dict)]
    return Delta(
        content=content,
        reasoning_content=_text(fields.get("reasoning_content")),
        reasoning=_text(fields.get("reasoning")),
        thinking=_text(fields.get("thinking")),
        reasoning_details=[d for d in _list(fields.get("reasoning_details")) if isinstance(d, dict)] or None,
        refusal=_text(fields.get("refusal")),
        tool_calls=calls or None,
        function_call=_function(fields.get("function_call")),
        extra_content=_dict(fields.get("extra_content")),
    )


def _call(value: dict[str, Any]) -> CallDelta:
    return CallDelta(
        id=_text(value.get("id")),
        index=_int(value.get("index")),
        function=_function(value.get("function")),
        custom=_dict(value.get("custom")),
        extra_content=_dict(value.get("extra_content")),
    )


def _function(value: Any) -> FunctionDelta | None:
    fields = _dict(value)
    if fields is None:
        return None
    arguments = fields.get("arguments")
    if arguments is not None and not isinstance(arguments, str | dict):
        arguments = json.dumps(arguments)
    return FunctionDelta(_text(fields.get("name")), arguments)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return strip_surrogates(_joined(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):  # {"text": "..."} or {"content": "..."} where a string belongs
        inner: Any = value.get("text", value.get("content"))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return inner if isinstance(inner, str) else None
    return None


def _joined(text: str) -> str:
    """Surrogate pairs that JSON decoding left as two halves become one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _int(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
