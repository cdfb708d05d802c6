"""The expected output: convert a schema or a type to tool arguments and back, and extract JSON from text.

JSON is found as the whole text, in a code fence, or within prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.tools import parse_arguments
from mainspring.tools.schema.function import schema_from_type
from mainspring.tools.validation import get_validator

_FIELD = "output"
_ROOTS = ("$defs", "definitions")


class Answer(Struct, frozen=True):
    """A parsed answer.

    Attributes:
        value: The output: JSON data, or a value of the requested type.
        raw: The JSON data, valid or not.
        error: Why the data is invalid, for the model; ``None`` if it is valid.
    """

    value: Any
    raw: Any
    error: str | None = None


class OutputSchema:
    """A schema for the output.

    Tool arguments are an object, so any other schema becomes the field ``output`` of an object.

    Args:
        expected: A JSON Schema, or a type: a msgspec struct, a dataclass, a `TypedDict`, a pydantic model, ``list[int]``, ...

    Attributes:
        schema: The JSON Schema.
        arguments: The schema of the tool's arguments.

    Raises:
        ConfigError: If the schema is invalid, or JSON Schema cannot express the type.
    """

    def __init__(self, expected: Any) -> None:
        self._decode: Callable[[Any], Any] | None = None
        if isinstance(expected, Mapping):
            self.schema = dict(cast("Mapping[str, Any]", expected))
            problem = get_validator(self.schema).invalid
            if problem is not None:
                raise ConfigError(f"behavior.schema cannot be used: {problem.replace('the schema of this tool', 'it')}")
        else:
            try:
                self.schema, self._decode = schema_from_type(expected)
            except TypeError as error:
                raise ConfigError(f"behavior.schema cannot be used: {error}") from error
        self._wrapped = self.schema.get("type") != "object"
        self.arguments = _wrap_in_object(self.schema) if self._wrapped else self.schema

    def parse_arguments(self, raw: str | Mapping[str, Any] | None) -> Answer:
        """Return the output from the arguments of a call, parsed or as raw text."""
        parsed = parse_arguments(self.arguments, raw)
        value: Any = parsed.value
        if self._wrapped:
            value = parsed.value.get(_FIELD, parsed.value)
        if parsed.error is not None:
            return Answer(None, value, parsed.error)
        if self._decode is None:
            return Answer(value, value)
        try:
            return Answer(self._decode(value), value)
        except ValueError as error:  # checks of the type beyond its schema
            return Answer(None, value, str(error))

    def validate(self, value: Any) -> Answer:
        """Validate JSON data and return the output."""
        if self._wrapped:
            return self.parse_arguments({_FIELD: value})
        if not isinstance(value, dict):
            return Answer(None, value, f"the answer must be a JSON object, not {type(value).__name__}")
        return self.parse_arguments(cast("dict[str, Any]", value))


def _wrap_in_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object schema with the schema as its only field, with references adjusted."""
    inner = _rebase_refs({k: v for k, v in schema.items() if k not in (*_ROOTS, "$schema", "$id")})
    roots = {k: _rebase_refs(schema[k]) for k in _ROOTS if k in schema}
    return {
        "type": "object",
        "properties": {_FIELD: inner},
        "required": [_FIELD],
        "additionalProperties": False,
        **roots,
    }


def _rebase_refs(node: Any) -> Any:
    """Return a copy in which references to moved parts have their new paths."""
    if isinstance(node, list):
        return [_rebase_refs(each) for each in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    rebased: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", node).items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            stays = any(value.startswith(f"#/{root}/") for root in _ROOTS)
            rebased[key] = value if stays else f"#/properties/{_FIELD}{value[1:]}"
        else:
            rebased[key] = _rebase_refs(value)
    return rebased


_FENCE = lazy_re(r"```[ \t]*(?:json[c5]?|javascript|js)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder()
_MAX_STARTS = 200
"""Maximum number of positions tried in a long text; each costs at most one pass over text that resembles JSON."""


def extract_json_values(text: str) -> list[Any]:
    """Return the JSON values in a text, from the most reliable source: the whole text, else code fences, else prose.

    In prose only objects and lists are recognized, and only the outermost of nested values.
    """
    parsed = _value(text)
    if parsed is not _NOTHING:
        return [parsed]
    fenced = [value for body in _FENCE.findall(text) if (value := _value(body)) is not _NOTHING]
    return fenced or list(_iter_json_in_prose(text))


class _NotJson:
    """Marks text that is not JSON; ``None`` is a JSON value."""


_NOTHING = _NotJson()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _iter_json_in_prose(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_MAX_STARTS):
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value
