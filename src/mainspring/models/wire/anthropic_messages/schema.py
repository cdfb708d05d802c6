"""JSON Schemas in the subset that Anthropic takes. What is left out here is still checked by whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.models.json_values import as_list, as_object

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


def input_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's input, which must be one object: unions at its top become the properties of all of them."""
    branches = [branch for name in _UNIONS for branch in map(as_object, as_list(schema.get(name))) if branch]
    kept = {name: value for name, value in schema.items() if name not in _UNIONS}
    if branches:
        properties: dict[str, Any] = {}
        for branch in (*branches, schema):
            properties.update(as_object(branch.get("properties")) or {})
        kept["properties"] = properties
    return {**kept, "type": "object", "properties": kept.get("properties") or {}}
