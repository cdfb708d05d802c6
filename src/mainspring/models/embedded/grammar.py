"""The JSON object of a turn, ``{"tool": ..., "args": {...}}`` or ``{"answer": ...}``: its schema and its streaming parser.

Small models do not use native tool calling reliably: they write a call as prose. Decoding constrained by this schema makes
each turn a call or an answer, even if the model's chat template does not support tools. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.messages import strip_surrogates

GrammarSchema = dict[str, Any]

_COPIED_KEYWORDS = ("type", "enum", "const", "required")
_MAX_DEPTH = 6  # Deeper levels are unconstrained: a small model does not follow such a schema anyway.


class CallStart(Struct, frozen=True):
    """Start of a call of the tool ``name``."""

    name: str


class ArgumentsDelta(Struct, frozen=True):
    """More JSON text of the arguments of a call."""

    text: str


class AnswerDelta(Struct, frozen=True):
    """More text of the answer."""

    text: str


Piece = CallStart | ArgumentsDelta | AnswerDelta
"""Output of the parser."""


def turn_schema(calls: Mapping[str, GrammarSchema], answer: GrammarSchema | None) -> GrammarSchema:
    """Return the schema of one turn.

    Args:
        calls: Argument schemas of the tools that may be called.
        answer: GrammarSchema of the answer; ``None`` allows only calls.
    """
    options: list[GrammarSchema] = [
        _object({"tool": {"const": name}, "args": simplify_schema(schema)}, ("tool", "args"))
        for name, schema in calls.items()
    ]
    if answer is not None:
        options.append(_object({"answer": answer}, ("answer",)))
    return options[0] if len(options) == 1 else {"anyOf": options}


def encode_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Encode a call as the model writes it, so that the prompt cache contains the turn."""
    return json.dumps({"tool": name, "args": arguments}, ensure_ascii=False)


def encode_answer(text: str) -> str:
    """Encode an answer as the model writes it."""
    return json.dumps({"answer": text}, ensure_ascii=False)


def simplify_schema(schema: GrammarSchema) -> GrammarSchema:
    """Return the part of a JSON GrammarSchema that grammar-constrained decoding supports, with local references inlined."""
    return _simplify(schema, _definitions(schema), 0)


def _definitions(schema: GrammarSchema) -> dict[str, GrammarSchema]:
    return {
        f"#/{place}/{name}": definition
        for place in ("$defs", "definitions")
        for name, definition in cast("dict[str, GrammarSchema]", schema.get(place, {})).items()
    }


def _simplify(schema: Any, definitions: dict[str, GrammarSchema], depth: int) -> GrammarSchema:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    schema = cast("GrammarSchema", schema)
    if "$ref" in schema:
        return _simplify(definitions.get(schema["$ref"], {}), definitions, depth + 1)
    lowered: GrammarSchema = {key: schema[key] for key in _COPIED_KEYWORDS if key in schema}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return {"anyOf": [_simplify(option, definitions, depth + 1) for option in schema[key]]}
    if "items" in schema:
        lowered["items"] = _simplify(schema["items"], definitions, depth + 1)
    if "properties" in schema:
        properties = cast("dict[str, Any]", schema["properties"])
        lowered["properties"] = {name: _simplify(part, definitions, depth + 1) for name, part in properties.items()}
        lowered["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        lowered["additionalProperties"] = _simplify(schema["additionalProperties"], definitions, depth + 1)
    return lowered


def _object(properties: dict[str, GrammarSchema], required: Iterable[str]) -> GrammarSchema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_STRING = lazy_re(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN = lazy_re(r'[^"\\]+')
_ESCAPE = lazy_re(r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])')
_OPEN_ESCAPE = lazy_re(r"\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")


class TurnParser:
    """Streaming parser of one turn: each `feed` returns the parts that are complete.

    Text that is not a JSON object is used as the answer, and unknown keys are skipped. The split of the text into chunks does
    not affect the result.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._state: Callable[[], bool] = self._opening
        self._found: list[Piece] = []
        self._make: Callable[[str], Piece] | None = None  # Target of the current value; None skips it.
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, text: str) -> list[Piece]:
        """Parse more text of the turn."""
        self._rest += text
        self._found = []
        while self._rest and self._state():
            pass
        return _merge_deltas(self._found)

    def _opening(self) -> bool:
        rest = self._rest.lstrip()
        if not rest:
            return False
        if rest[0] == "{":
            self._rest, self._state = rest[1:], self._key
        else:
            self._rest, self._state = rest, self._parse_plain_text
        return True

    def _parse_plain_text(self) -> bool:
        self._found.append(AnswerDelta(self._rest))
        self._rest = ""
        return False

    def _key(self) -> bool:
        rest = self._rest.lstrip(" \t\r\n,")
        if rest[:1] == "}":
            self._rest, self._state = "", self._done
            return False
        match = _STRING.match(rest)
        if not match:
            return False
        after = rest[match.end() :].lstrip()
        if after[:1] != ":" or not (value := after[1:].lstrip()):
            return False
        return self._value(match[1], value)

    def _value(self, key: str, rest: str) -> bool:
        if key == "tool":
            match = _STRING.match(rest)
            if not match:
                return False
            self._found.append(CallStart(_decoded(match[0])))
            self._rest = rest[match.end() :]
            return True
        self._make = {"args": ArgumentsDelta, "answer": AnswerDelta}.get(key)
        if key == "answer" and rest[0] == '"':
            self._rest, self._state = rest[1:], self._text
        else:
            self._rest, self._state, self._depth, self._quoted = rest, self._parse_json_value, 0, False
        return True

    def _text(self) -> bool:
        """Decode the string of the answer."""
        rest = self._rest
        if rest[0] == '"':
            self._rest, self._state = rest[1:], self._key
            return True
        if match := _PLAIN.match(rest):
            self._emit(match[0])
        elif _OPEN_ESCAPE.match(rest):
            return False
        elif match := _ESCAPE.match(rest):
            self._emit(_decoded(f'"{match[0]}"'))
        else:  # A backslash that escapes nothing.
            self._emit("\\")
            self._rest = rest[1:]
            return True
        self._rest = rest[match.end() :]
        return True

    def _parse_json_value(self) -> bool:
        """Pass on the JSON text of any other value, up to its end."""
        rest = self._rest
        for at, char in enumerate(rest):
            if self._quoted:
                self._quoted = char != '"' or self._escaped
                self._escaped = char == "\\" and not self._escaped
                ends = not (self._quoted or self._depth)
            elif char in ", \t\r\n}]" and not self._depth:
                return self._end_value(at)
            else:
                self._quoted = char == '"'
                self._depth += (char in "{[") - (char in "}]")
                ends = char in "}]" and not self._depth
            if ends:
                return self._end_value(at + 1)
        self._emit(rest)
        self._rest = ""
        return False

    def _end_value(self, at: int) -> bool:
        self._emit(self._rest[:at])
        self._rest, self._state = self._rest[at:], self._key
        return True

    def _done(self) -> bool:
        self._rest = ""
        return False

    def _emit(self, text: str) -> None:
        if self._make and text:
            self._found.append(self._make(text))


def _decoded(literal: str) -> str:
    try:
        return strip_surrogates(json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _merge_deltas(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, AnswerDelta) and isinstance(last, AnswerDelta):
            joined[-1] = AnswerDelta(last.text + piece.text)
        elif isinstance(piece, ArgumentsDelta) and isinstance(last, ArgumentsDelta):
            joined[-1] = ArgumentsDelta(last.text + piece.text)
        else:
            joined.append(piece)
    return joined
