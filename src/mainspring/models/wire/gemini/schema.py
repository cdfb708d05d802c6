"""JSON Schema as Gemini takes it.

Google documents a subset of JSON Schema for ``parametersJsonSchema`` and ``responseJsonSchema``, and a smaller one of OpenAPI
for ``parameters``. What is outside of it is left out or said otherwise: the model then knows less of the constraint, and
our own validation of the arguments still has all of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from mainspring.models.json_values import as_dict, as_dicts, as_list, as_number

KEYWORDS = frozenset(
    (
        "$anchor $defs $id $ref additionalProperties anyOf default description enum format items maxItems maximum minItems "
        "minimum oneOf prefixItems properties propertyOrdering required title type"
    ).split()
)
"""What ``parametersJsonSchema`` may hold (documented; ``default`` is accepted in practice)."""

OPENAPI_KEYWORDS = frozenset(
    (
        "anyOf description enum format items maxItems maximum minItems minimum nullable properties propertyOrdering "
        "required title type"
    ).split()
)
"""What ``parameters`` may hold."""

_TYPE_KEYWORDS = {
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "propertyOrdering"),
}
"""What belongs to one type only."""

_MAX_REFERENCES = 500
"""References that are put in place; beyond that a host would refuse the schema for its size anyway."""


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema within the documented subset."""
    kept: dict[str, Any] = {}
    if "$ref" in schema:  # Beside a reference only what begins with a dollar may stand.
        kept["$ref"] = str(schema["$ref"]).replace("#/definitions/", "#/$defs/")
        _keep_definitions(schema, kept)
        return kept
    for name, value in _translate_keywords(schema).items():
        if name in ("properties", "$defs"):
            fields = as_dict(value) or {}
            kept[name] = {key: json_schema(as_dict(field) or {}) for key, field in fields.items()}
        elif name in ("anyOf", "oneOf", "prefixItems"):
            options = [json_schema(option) for option in as_dicts(value)]
            if options:
                kept[name] = options
        elif name in ("items", "additionalProperties"):
            inner = as_dict(value)
            kept[name] = value if inner is None else json_schema(inner)
        elif name in KEYWORDS:
            kept[name] = value
    return kept


def openapi_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same within the smaller subset of OpenAPI: no references, one type, texts as choices."""
    plain = json_schema(schema)
    return _openapi(plain, as_dict(plain.get("$defs")) or {}, (), itertools.count())


def _keep_definitions(schema: Mapping[str, Any], kept: dict[str, Any]) -> None:
    for name in ("$defs", "definitions"):
        for key, value in (as_dict(schema.get(name)) or {}).items():
            kept.setdefault("$defs", {})[key] = json_schema(as_dict(value) or {})


def _translate_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its keywords in words that are in the subset, as far as there are any."""
    fields = dict(schema)
    definitions = {**(as_dict(fields.pop("definitions", None)) or {}), **(as_dict(fields.get("$defs")) or {})}
    if definitions:
        fields["$defs"] = definitions
    for part in as_dicts(fields.pop("allOf", None)):
        fields = _merge_schemas(fields, part)
    if "const" in fields:
        fields["enum"] = [fields.pop("const")]
    if "enum" in fields:
        choices = as_list(fields["enum"])
        if not choices:
            del fields["enum"]
        elif any(not isinstance(c, str | int | float) or isinstance(c, bool) for c in choices):
            del fields["enum"]  # Only texts and numbers may be choices.
            _hint(fields, f"One of: {', '.join(map(str, choices))}")
    for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = as_number(fields.pop(exclusive, None))
        if bound is not None and fields.get("type") == "integer":
            fields.setdefault(inclusive, int(bound) + step)
    for name, text in (("pattern", "Pattern"), ("minLength", "At least, in characters"), ("maxLength", "At most")):
        if name in fields:
            _hint(fields, f"{text}: {fields.pop(name)}")
    items = fields.get("items")
    if isinstance(items, list):  # An older way to write a tuple.
        fields["prefixItems"] = fields.pop("items")
    return fields


def _merge_schemas(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Two schemas that both hold: properties and what is required are put together, of the rest the first wins."""
    result = {**part, **schema}
    for name in ("properties", "$defs"):
        if name in part and name in schema:
            result[name] = {**(as_dict(part[name]) or {}), **(as_dict(schema[name]) or {})}
    if "required" in part and "required" in schema:
        result["required"] = list(dict.fromkeys([*as_list(schema["required"]), *as_list(part["required"])]))
    return result


def _hint(fields: dict[str, Any], text: str) -> None:
    known = fields.get("description")
    fields["description"] = f"{known} ({text})" if isinstance(known, str) and known else text


def _split_by_type(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema for each of several types, with what belongs to that type; it is taken out of ``fields``."""
    kinds = [kind for kind in as_list(fields.pop("type")) if isinstance(kind, str)]
    parts = {kind: {n: fields.pop(n) for n in _TYPE_KEYWORDS.get(kind, ()) if n in fields} for kind in kinds}
    return [{"type": kind, **parts[kind]} for kind in kinds] or [{}]


def _openapi(
    schema: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...], count: Iterator[int]
) -> dict[str, Any]:
    """One schema with its references put in place; one that holds itself (``inside``) is just an object there. So is every further
    one where there are very many: each may hold several that do.
    """
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        found = as_dict(definitions.get(name))
        known = found is not None and name not in inside and next(count) < _MAX_REFERENCES
        return _openapi(found or {}, definitions, (*inside, name), count) if known else {"type": "object"}
    fields = dict(schema)
    options = as_dicts(fields.pop("anyOf", None)) or as_dicts(fields.pop("oneOf", None))
    if as_list(fields.get("type")):
        options = _split_by_type(fields)
    elif fields.get("type") == "null":
        fields.update(type="string", nullable=True)
    wanted = [option for option in options if option.get("type") != "null"]
    if len(wanted) < len(options):
        fields["nullable"] = True
    if len(wanted) == 1:
        return _openapi({**wanted[0], **fields}, definitions, inside, count)
    kept: dict[str, Any] = {name: value for name, value in fields.items() if name in OPENAPI_KEYWORDS}
    if wanted:
        kept["anyOf"] = [_openapi(option, definitions, inside, count) for option in wanted]
    elif "type" not in kept:
        kept["type"] = "array" if "items" in kept else "object" if "properties" in kept else "string"
    if "properties" in kept:
        kept["properties"] = {
            k: _openapi(as_dict(v) or {}, definitions, inside, count) for k, v in kept["properties"].items()
        }
    if kept.get("type") == "array":
        items = [as_dict(kept.get("items")) or {}, *as_dicts(fields.get("prefixItems"))]
        kept["items"] = _openapi(next((item for item in items if item), items[0]), definitions, inside, count)
    if "enum" in kept:
        kept["enum"] = [str(choice) for choice in kept["enum"]]
        kept["type"] = "string"
    return _keep_type_keywords(kept)


def _keep_type_keywords(kept: dict[str, Any]) -> dict[str, Any]:
    foreign = {name for kind, own in _TYPE_KEYWORDS.items() if kept.get("type") != kind for name in own}
    return {name: value for name, value in kept.items() if name not in foreign}
