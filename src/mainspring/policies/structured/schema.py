"""What an answer has to be: a schema or a type, as the arguments of a tool call, and back.

JSON out of an answer in text: all of it, in a code fence, or with words around it.
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
from mainspring.tools.validation import get_validator, schema_error

OUTPUT_TOOL = "__output__"
"""Name of the tool that takes the final answer. It exists only in requests; no registry holds it."""


_FIELD = "output"
_ROOTS = ("$defs", "definitions")


class Answer(Struct, frozen=True):
    """What became of an answer.

    Attributes:
        value: The output: JSON data, or a value of the type that was asked for.
        raw: The JSON data, whether they fit or not.
        error: Why it does not fit, for the model to read; ``None`` if it does.
    """

    value: Any
    raw: Any
    error: str | None = None


class OutputSchema:
    """A schema that an answer must fit.

    Arguments of a tool are an object, so a schema of anything else is asked for as the one field ``output`` of one.

    Args:
        expected: A JSON Schema, or a type: a msgspec struct, a dataclass, a `TypedDict`, a pydantic model, ``list[int]``, ...

    Attributes:
        schema: The JSON Schema.
        arguments: The schema as that of a tool's arguments.

    Raises:
        ConfigError: If it is no valid schema, or a type that JSON Schema cannot express.
    """

    def __init__(self, expected: Any) -> None:
        self._decode: Callable[[Any], Any] | None = None
        if isinstance(expected, Mapping):
            self.schema = dict(cast("Mapping[str, Any]", expected))
            problem = None if get_validator(self.schema).is_plain else schema_error(self.schema)
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
        """The output that the arguments of a call hold, as parsed or as the text they came in."""
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
        except ValueError as error:  # what a type checks beyond its schema
            return Answer(None, value, str(error))

    def validate(self, value: Any) -> Answer:
        """The output that JSON data are."""
        if self._wrapped:
            return self.parse_arguments({_FIELD: value})
        if not isinstance(value, dict):
            return Answer(None, value, f"the answer must be a JSON object, not {type(value).__name__}")
        return self.parse_arguments(cast("dict[str, Any]", value))


def _wrap_in_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the schema's value as its one field; references into the schema lead there still."""
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
    """A copy in which references to places that moved along say so."""
    if isinstance(node, list):
        return [_rebase_refs(each) for each in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    made: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", node).items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            stays = any(value.startswith(f"#/{root}/") for root in _ROOTS)
            made[key] = value if stays else f"#/properties/{_FIELD}{value[1:]}"
        else:
            made[key] = _rebase_refs(value)
    return made


_FENCE = lazy_re(r"```[ \t]*(?:json[c5]?|javascript|js)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder()
_MOST_STARTS = 200
"""Places tried in a long text of prose; each costs at most one pass over what looks like JSON there."""


def extract_json_values(text: str) -> list[Any]:
    """The JSON values that a text holds, from the surest place: the whole text, else code fences, else what stands in prose.

    In prose only objects and lists count, and of nested ones the outermost.
    """
    whole = _value(text)
    if whole is not _NOTHING:
        return [whole]
    fenced = [value for body in _FENCE.findall(text) if (value := _value(body)) is not _NOTHING]
    return fenced or list(_iter_json_in_prose(text))


class _NotJson:
    """The mark of text that is no JSON; ``None`` is a value."""


_NOTHING = _NotJson()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _iter_json_in_prose(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_MOST_STARTS):
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
