"""Convert tool schemas of any origin to a form that every host accepts.

Hosts reject the whole request because of one schema, and each for other reasons. The result is JSON Schema 2020-12 with an
object without unions at its top level, arrays with items, valid types, and internal references. It may be less strict than
the original, but never different: arguments are validated against the original.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mainspring.models.json_values import as_dict, as_dicts, as_list, as_number

_MAX_DEPTH = 40
_MAX_NODES = 3000
"""Maximum number of schemas in a schema; beyond that, references are no longer inlined."""
_MAX_GROWTH = 4000
"""Maximum growth of a schema by inlined references, in characters; beyond that, references are preserved."""

_TYPES = {
    "any": "",
    "array": "array",
    "bool": "boolean",
    "boolean": "boolean",
    "date": "string",
    "datetime": "string",
    "dict": "object",
    "double": "number",
    "file": "string",
    "float": "number",
    "int": "integer",
    "integer": "integer",
    "list": "array",
    "long": "integer",
    "map": "object",
    "none": "null",
    "null": "null",
    "number": "number",
    "object": "object",
    "str": "string",
    "string": "string",
    "text": "string",
    "tuple": "array",
    "uuid": "string",
}
"""Types by their aliases. An empty type is any."""

_UNIONS = ("anyOf", "oneOf", "allOf")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames")
_NOT_AT_THE_TOP = ("enum", "const", "items", "prefixItems", "contains")
_DEFINITIONS = ("#/$defs/", "#/definitions/")
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return as_number(value) is not None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_any(value: Any) -> bool:
    return True


_KEYWORD_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _is_number),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "additionalProperties"), _is_bool),
    **dict.fromkeys(("const", "default"), _is_any),
    "examples": lambda value: isinstance(value, list),
}
"""Keywords without nested schemas that are preserved, each with its valid values. Other keywords are about the document, from
another draft, unknown, or rejected by some host.
"""


def simplify_tool_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments in a form that all hosts accept. A valid schema is returned unchanged.

    Args:
        schema: A JSON Schema of any draft, or an invalid one.
    """
    lowering = _SchemaSimplifier(schema, inline=True)
    simplified = lowering.root_schema()
    if lowering.referred and len(_text(simplified)) > len(_text(schema)) + _MAX_GROWTH:
        simplified = _SchemaSimplifier(schema, inline=False).root_schema()
    return simplified


def split_description(description: str, max_length: int) -> tuple[str, str]:
    """Split a description in two parts, the first within a host's limit, at the end of a paragraph, a sentence, or a word.

    Args:
        description: The text.
        max_length: Maximum number of characters of the first part.
    """
    if len(description) <= max_length:
        return description, ""
    for mark in ("\n\n", "\n", ". ", " "):
        at = description.rfind(mark, max_length // 2, max_length)
        if at > 0:
            at += len(mark.rstrip())
            return description[:at].rstrip(), description[at:].strip()
    return description[:max_length], description[max_length:]


class _SchemaSimplifier:
    """Conversion of one schema.

    Attributes:
        referred: Whether the schema contains references.
    """

    def __init__(self, schema: Mapping[str, Any], *, inline: bool) -> None:
        self._root = as_dict(schema) or {}
        self._inline = inline
        self._remaining_nodes = _MAX_NODES
        self._names: dict[str, str] = {}
        self.referred = False

    def root_schema(self) -> dict[str, Any]:
        """Return the schema of an object, with the definitions that it still requires."""
        root = {k: v for k, v in _flatten_root(self._root, self._target).items() if k not in _NOT_AT_THE_TOP}
        simplified = self.schema({**root, "type": "object", "nullable": False}, ())
        simplified.setdefault("properties", {})
        definitions: dict[str, Any] = {}
        while waiting := [(r, n) for r, n in self._names.items() if n not in definitions]:
            for reference, name in waiting:
                definitions[name] = self.schema(self._target(reference), (reference,))
        return {**simplified, "$defs": definitions} if definitions else simplified

    def schema(self, node: Any, open_refs: tuple[str, ...], depth: int = 0) -> dict[str, Any]:
        """Convert one schema; ``open_refs`` contains the references that lead to it."""
        self._remaining_nodes -= 1
        fields = as_dict(node)
        if fields is None or depth > _MAX_DEPTH:
            return {}
        reference = fields.get("$ref")
        if isinstance(reference, str):
            return self._inline_reference(reference, fields, open_refs, depth)
        result_fields: dict[str, Any] = {}
        for name, value in fields.items():
            if name == "type":
                result_fields["type"] = value  # Handled below; it keeps its position.
            elif name in ("properties", "patternProperties"):
                table = as_dict(value) or {}
                result_fields[name] = {key: self.schema(each, open_refs, depth + 1) for key, each in table.items()}
            elif name in _UNIONS:
                self._add_alternatives(
                    result_fields, name, [self.schema(each, open_refs, depth + 1) for each in as_list(fields[name])]
                )
            elif name in ("items", "prefixItems") and isinstance(value, list):
                if value:  # an empty list is not valid
                    result_fields["prefixItems"] = [
                        self.schema(each, open_refs, depth + 1) for each in as_list(fields[name])
                    ]
            elif name in _SINGLE and not (name == "additionalProperties" and isinstance(value, bool)):
                result_fields[name] = self.schema(value, open_refs, depth + 1)
            elif (plain := _plain_keyword(name, value, fields)) is not None:
                result_fields[plain[0]] = plain[1]
        return _normalize_types(result_fields, fields)

    def _add_alternatives(self, result: dict[str, Any], name: str, options: list[dict[str, Any]]) -> None:
        """Convert alternatives; they are dropped if one of them allows any value."""
        if name == "allOf":
            options = [option for option in options if option]
        if options and all(options):
            result[name] = options

    def _inline_reference(
        self, reference: str, fields: dict[str, Any], open_refs: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        self.referred = True
        beside = {k: fields[k] for k in ("title", "description", "default") if k in fields}
        target = self._target(reference)
        if target is None:
            return self.schema(beside, open_refs, depth)
        inline = self._inline or not reference.startswith(_DEFINITIONS)
        if inline and reference not in open_refs and self._remaining_nodes > 0:
            found = self.schema(target, (*open_refs, reference), depth + 1)
            return {**found, **self.schema(beside, open_refs, depth)}
        name = self._names.get(reference)
        if name is None:
            plain = (
                "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in _reference_name(reference))
                or "root"
            )
            used_names = set(self._names.values())
            name = plain if plain not in used_names else f"{plain}_{len(used_names)}"
            self._names[reference] = name
        return {"$ref": f"#/$defs/{name}"}

    def _target(self, reference: str) -> Any:
        """Return the target of an internal reference; ``None`` if it is missing or external."""
        if not reference.startswith("#"):
            return None
        path = reference[1:].strip("/")
        if path and not reference.startswith("#/"):
            return self._find_anchor(path)
        node: Any = self._root
        for part in path.split("/") if path else ():
            key = part.replace("%25", "%").replace("%22", '"').replace("~1", "/").replace("~0", "~")
            items = as_list(node)
            if items:
                node = items[int(key)] if key.isdigit() and int(key) < len(items) else None
            else:
                node = (as_dict(node) or {}).get(key)
        return node if isinstance(node, bool) else as_dict(node)

    def _find_anchor(self, name: str) -> Any:
        for table in ("$defs", "definitions"):
            for each in (as_dict(self._root.get(table)) or {}).values():
                fields = as_dict(each) or {}
                if fields.get("$anchor") == name or fields.get("$id") in (f"#{name}", name):
                    return fields
        return None


def _flatten_root(root: dict[str, Any], target: Callable[[str], Any], depth: int = 0) -> dict[str, Any]:
    """Return the top-level schema without reference or unions: with the properties of all branches; required if all require them."""
    reference = root.get("$ref")
    if depth > _MAX_DEPTH:
        return {}
    if isinstance(reference, str):
        beside = {k: v for k, v in root.items() if k != "$ref"}
        return _flatten_root({**(as_dict(target(reference)) or {}), **beside}, target, depth + 1)
    if not any(name in root for name in _UNIONS):
        return root
    properties: dict[str, Any] = {}
    required = _required(root)
    for union in _UNIONS:
        branches = [_flatten_root(each, target, depth + 1) for each in as_dicts(root.get(union))]
        for branch in branches:
            properties = {**(as_dict(branch.get("properties")) or {}), **properties}
        requested = [set(_required(b)) for b in branches]
        if requested:
            common = set[str].union(*requested) if union == "allOf" else set[str].intersection(*requested)
            required += sorted(common.difference(required))
    flattened = {name: value for name, value in root.items() if name not in _UNIONS}
    return {**flattened, "properties": {**properties, **(as_dict(root.get("properties")) or {})}, "required": required}


def _required(schema: dict[str, Any]) -> list[str]:
    return [name for name in as_list(schema.get("required")) if isinstance(name, str)]


def _plain_keyword(name: str, value: Any, fields: dict[str, Any]) -> tuple[str, Any] | None:
    """Return the value of a keyword without nested schemas; ``None`` if the keyword is dropped."""
    if name in _EXCLUSIVE and value is True:  # Draft 4: a boolean that modifies another keyword.
        value = fields.get(_EXCLUSIVE[name])
    elif name in _EXCLUSIVE.values() and fields.get(_exclusive(name)) is True:
        return None
    match name:
        case "required":
            required = list(dict.fromkeys(_required(fields)))
            return (name, required) if required else None
        case "enum":
            choices = as_list(value)
            return (name, [c for i, c in enumerate(choices) if c not in choices[:i]]) if choices else None
        case _:
            fits = _KEYWORD_CHECKS.get(name)
            return (name, value) if fits is not None and fits(value) else None


def _exclusive(limit: str) -> str:
    return f"exclusive{limit.capitalize()}"


def _normalize_types(result: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with valid types, arrays with items, and only existing properties in ``required``."""
    given = fields.get("type")
    names = [n for n in (as_list(given) or [given]) if isinstance(n, str)]
    known = list(dict.fromkeys(_TYPES.get(n.casefold(), "") for n in names))
    if not known or "" in known:  # One of them is any or unknown.
        known = _infer_types(result)
    if fields.get("nullable") is True and known and "null" not in known:
        known = [*known, "null"]
        if None not in result.get("enum", [None]):
            result["enum"] = [*result["enum"], None]
    if known:
        result["type"] = known[0] if len(known) == 1 else known
    else:
        result.pop("type", None)
    if "array" in known:
        result.setdefault("items", {})
    if "required" in result:
        result["required"] = [n for n in result["required"] if n in result.get("properties", {})]
        if not result["required"]:
            del result["required"]
    return result


def _infer_types(result: dict[str, Any]) -> list[str]:
    """Return the types of choices, which some hosts require, and types that other keywords imply."""
    choices = result["enum"] if "enum" in result else [result["const"]] if "const" in result else []
    if choices:
        return list(dict.fromkeys(_kind(c) for c in choices))
    if "properties" in result and not any(name in result for name in _UNIONS):
        return ["object"]
    return ["array"] if "items" in result or "prefixItems" in result else []


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"


def _reference_name(reference: str) -> str:
    return reference.strip("#/").rpartition("/")[2]


def _text(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except (RecursionError, ValueError):
        return ""
