"""JSON Schemas in the subset that Anthropic takes. What is left out here is still checked by whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.lazy import lazy_re
from mainspring.models.json_values import as_list, as_object, to_json

_NAME = lazy_re(r"[a-zA-Z0-9_.-]{1,64}")
_UNIONS = ("anyOf", "oneOf", "allOf")
_DROPPED = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "unevaluatedItems",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Constraints that are refused in the schema of an answer."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


def answer_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an answer: every object closed, constraints that are refused left out."""
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _DROPPED or (name == "format" and value not in _FORMATS):
            continue
        if name in ("properties", "$defs", "definitions"):
            result[name] = {key: _lowered(inner) for key, inner in (as_object(value) or {}).items()}
        elif name in _UNIONS:
            result["anyOf" if name == "oneOf" else name] = [_lowered(inner) for inner in as_list(value)]
        elif name == "items":
            result[name] = _lowered(value)
        elif name == "minItems":
            result[name] = min(value, 1) if isinstance(value, int) else 1
        else:
            result[name] = value
    if "properties" in result or result.get("type") == "object":
        result["additionalProperties"] = False
    return result


def _lowered(schema: Any) -> Any:
    fields = as_object(schema)
    return schema if fields is None else answer_schema(fields)


def with_fitting_names(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's input with only those properties at its top whose names are taken (ASCII letters, digits, ``_.-``).

    The others are told in its description, under their real names: arguments may hold more than the properties.
    """
    properties: dict[str, Any] = schema["properties"]
    odd = {name: value for name, value in properties.items() if not _NAME.fullmatch(name)}
    if not odd:
        return schema
    required = as_list(schema.get("required"))
    told = [
        f"{to_json(name).decode()}{' (required)' if name in required else ''}: {to_json(value).decode()}"
        for name, value in odd.items()
    ]
    about = "\n".join([*filter(None, [schema.get("description")]), "Further arguments, by their exact names:", *told])
    left = {name: value for name, value in schema.items() if name not in ("required", "additionalProperties")}
    kept = [name for name in required if name not in odd]
    return {
        **left,
        "properties": {name: value for name, value in properties.items() if name not in odd},
        **({"required": kept} if kept else {}),
        "description": about,
    }
