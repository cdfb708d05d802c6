"""Typed structs of the fields that are read from Chat Completions responses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import strip_surrogates
from mainspring.models.codec.text import SurrogateJoiner
from mainspring.models.json_values import as_dict, as_dicts, as_int, as_list


class FunctionDelta(Struct, gc=False):
    """A delta of a function call."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(Struct, gc=False):
    """A delta of a tool call."""

    id: str | None = None
    index: int | None = None
    function: FunctionDelta | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


class ChatDelta(Struct, gc=False):
    """A delta of the response, or the complete message."""

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
    """One choice; only the first is used."""

    index: int | None = None
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class ChatChunk(Struct, gc=False):
    """One event of a stream, or a complete response."""

    choices: list[Choice] | None = None
    id: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None


decode_chunk = msgspec.json.Decoder(ChatChunk).decode
"""Decode an event quickly; it fails for unexpected types, and `LenientChunkParser` is used instead."""


_PART_KEYS = frozenset({"type", "text", "content", "thinking", "refusal"})


class LenientChunkParser:
    """Parses chunks with fields of any type; invalid fields are ignored, and split surrogate pairs are joined."""

    __slots__ = ("_surrogate_joiner",)

    def __init__(self) -> None:
        self._surrogate_joiner = SurrogateJoiner()

    def chunk(self, value: dict[str, Any]) -> ChatChunk:
        """Return the chunk of an object."""
        return ChatChunk(
            [self._choice(choice) for choice in as_dicts(value.get("choices"))],
            _short_text(value.get("id")),
            as_dict(value.get("usage")),
            value.get("error"),
            as_dict(value.get("x_groq")),
        )

    def _choice(self, value: dict[str, Any]) -> Choice:
        index = as_int(value.get("index"))
        return Choice(
            index=index,
            delta=self._delta(value.get("delta"), f"{index}"),
            message=self._delta(value.get("message"), f"{index}"),
            finish_reason=_short_text(value.get("finish_reason")),
            stop_reason=_short_text(value.get("stop_reason")),
            usage=as_dict(value.get("usage")),
            error=value.get("error"),
        )

    def _delta(self, value: object, place: str) -> ChatDelta | None:
        fields = as_dict(value)
        if fields is None:
            return None
        content = fields.get("content")
        part = as_dict(content)
        if part is not None:  # An object that is not a content part is the response itself, decoded by its host.
            content = [part] if part.keys() & _PART_KEYS else json.dumps(part, ensure_ascii=False)
        texts = {
            name: self._surrogate_joiner.join(_text(fields.get(name)), f"{place} {name}")
            for name in ("reasoning_content", "reasoning", "thinking", "refusal")
        }
        calls = as_dicts(fields.get("tool_calls"))
        return ChatDelta(
            content=strip_surrogates(content)
            if isinstance(content, list)
            else self._surrogate_joiner.join(_text(content), f"{place} content"),
            reasoning_details=strip_surrogates(as_dicts(fields.get("reasoning_details"))) or None,
            tool_calls=[self._call(call, place) for call in calls] or None,
            function_call=self._function(fields.get("function_call"), place),
            extra_content=as_dict(fields.get("extra_content")),
            **texts,
        )

    def _call(self, value: dict[str, Any], place: str) -> CallDelta:
        index = as_int(value.get("index"))
        return CallDelta(
            id=_short_text(value.get("id")),
            index=index,
            function=self._function(value.get("function"), f"{place} {index}"),
            custom=as_dict(strip_surrogates(value.get("custom"))),
            extra_content=as_dict(strip_surrogates(value.get("extra_content"))),
        )

    def _function(self, value: object, place: str) -> FunctionDelta | None:
        fields = as_dict(value)
        if fields is None:
            return None
        arguments = fields.get("arguments")
        if isinstance(arguments, str):
            arguments = self._surrogate_joiner.join(arguments, f"{place} arguments")
        elif arguments is not None:
            arguments = as_dict(strip_surrogates(arguments)) or json.dumps(arguments)
        return FunctionDelta(_short_text(fields.get("name")), arguments)


def _short_text(value: object) -> str | None:
    """Return a text that arrives in one piece, so a lone surrogate in it does not continue in another."""
    return strip_surrogates(_text(value))


def _text(value: object) -> str | None:
    """Return a text or its equivalent: a number, an object that contains the text, an array of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    fields = as_dict(value)
    if fields is not None:
        return _text(fields.get("text", fields.get("content")))
    return "".join([_text(piece) or "" for piece in as_list(value)]) or None
