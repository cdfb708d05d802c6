"""Coerce arguments of nearly the right type where the schema allows only one meaning.

Models write `"5"` for 5, `"true"` for true, and a JSON text where a list is expected. The schema defines the intended
type at every level that it describes. Three rules keep coercion safe: no information is lost (`"5.5"` never becomes an
integer), a value whose schema allows a string stays a string, and a value that already fits is unchanged. The caller's
data is never changed: only copies are.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.lenient_json import parse_relaxed
from mainspring.tools.problems import Path, format_path, is_dict, is_list
from mainspring.tools.schema_dialect import BadPatternError, matches_pattern, resolve_local_ref
from mainspring.tools.validation import SchemaValidator, get_validator

_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})
_INTEGER = lazy_re(r"[+-]?[0-9]{1,400}")
_NUMBER = lazy_re(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")
_SAFE_INTEGER = 2**53
_UNFIXABLE_KEYWORDS = frozenset({"depth", "schema"})
_NO_SCHEMAS: frozenset[int] = frozenset()
_MAX_STEPS = 100_000


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_list,
    "object": is_dict,
}


class Coercion(Struct, frozen=True):
    """A replaced value.

    Attributes:
        path: Path of the value, for example `$.items[2].count`.
        before: Value that the model sent.
        after: Value that the tool receives.
        rule: Rule that applied: `string-to-boolean`, `string-to-number`, `string-to-json`, `string-to-null`,
            `to-string`, or `null-omitted` (a null for an optional property that must not be null is treated as not sent).
    """

    path: str
    before: Any
    after: Any
    rule: str


def coerce(schema: Any, value: Any) -> tuple[Any, list[Coercion]]:
    """Coerce a value toward its schema.

    Args:
        schema: JSON Schema.
        value: Value to coerce. It is not changed.

    Returns:
        The value, or a changed copy, and the list of replacements. The value may still not fit.
    """
    walk = _Coercer(get_validator(schema))
    problems = walk.root.problems(value)
    if not problems or any(each.keyword in _UNFIXABLE_KEYWORDS for each in problems):
        return value, []
    try:
        return walk.visit(schema, value, ()), walk.done
    except RecursionError:
        return value, []


class _Coercer:
    """A single pass over a value and its schema."""

    def __init__(self, root: SchemaValidator, steps: list[int] | None = None) -> None:
        self.root = root
        self.done: list[Coercion] = []
        self.steps = steps or [0]

    def visit(self, schema: Any, value: Any, path: Path, active_schemas: frozenset[int] = _NO_SCHEMAS) -> Any:
        """Return the value coerced to a part of the schema.

        `active_schemas` are the parts that already apply to the value.
        """
        if not is_dict(schema) or id(schema) in active_schemas:
            return value
        active_schemas |= {id(schema)}
        self.steps[0] += 1
        if self.steps[0] > _MAX_STEPS:
            raise RecursionError  # a schema that refers to itself in a branch
        for part in self._allof_parts(schema):
            value = self.visit(part, value, path, active_schemas)
        kinds = self._kinds(schema)
        if kinds and not any(_TYPE_CHECKS[kind](value) for kind in kinds):
            value = self._replace(kinds, value, path)
        if is_dict(value):
            value = self._visit_object(schema, value, path)
        elif is_list(value):
            value = self._visit_array(schema, value, path)
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if is_list(branches):
                value = self._visit_union(branches, value, path, active_schemas)
        return value

    def _allof_parts(self, node: dict[str, Any]) -> Iterable[Any]:
        """Return the parts that apply to the same value in addition to this part."""
        if "$ref" in node:
            try:
                yield resolve_local_ref(self.root.schema, node["$ref"])
            except LookupError:
                pass
        yield from _as_list(node.get("allOf"))

    def _kinds(self, node: dict[str, Any]) -> list[str]:
        """Return the types that a part allows; empty if the part does not restrict the type."""
        named: Any = node.get("type")
        if named is None and isinstance(node.get("enum"), list):
            named = _types_of(node["enum"])
        elif named is None and "const" in node:
            named = _types_of([node["const"]])
        kinds: list[Any] = [named] if isinstance(named, str) else named if is_list(named) else []
        if kinds and node.get("nullable") is True:
            kinds = [*kinds, "null"]
        return [kind for kind in kinds if isinstance(kind, str) and kind in _TYPE_CHECKS]

    def _replace(self, kinds: list[str], value: Any, path: Path) -> Any:
        if isinstance(value, str):
            if "string" in kinds:
                return value
            for kind in sorted(kinds, key=_ORDER.index):
                found = _FROM_STRING[kind](value)
                if found:
                    return self._record(path, value, found[0], found[1])
        elif isinstance(value, (bool, int, float)) and set(kinds) - {"null"} == {"string"}:
            return self._record(path, value, _as_text(value), "to-string")
        return value

    def _visit_object(self, node: dict[str, Any], value: dict[str, Any], path: Path) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        dropped: list[str] = []
        properties = _as_dict(node.get("properties"))
        required: Any = node.get("required", ())
        for name, item in value.items():
            parts = list(_parts_for(name, node, properties))
            fresh = item
            for part in parts:
                fresh = self.visit(part, fresh, (*path, name))
            if (
                fresh is None
                and name in properties
                and name not in required
                and not self.root.is_valid_part(properties[name], None)
            ):
                dropped.append(name)
                self._record((*path, name), None, None, "null-omitted")
            elif fresh is not item:
                changed[name] = fresh
        if not changed and not dropped:
            return value
        return {name: changed.get(name, item) for name, item in value.items() if name not in dropped}

    def _visit_array(self, node: dict[str, Any], value: list[Any], path: Path) -> list[Any]:
        first, rest = _item_schemas(node)
        if not first and rest is None:
            return value
        fresh = [
            self.visit(first[index] if index < len(first) else rest, item, (*path, index))
            for index, item in enumerate(value)
        ]
        return fresh if any(new is not old for new, old in zip(fresh, value, strict=True)) else value

    def _visit_union(self, branches: list[Any], value: Any, path: Path, parent_ids: frozenset[int]) -> Any:
        if any(self.root.is_valid_part(branch, value) for branch in branches):
            return value
        if isinstance(value, str) and any(self._allows_string(branch) for branch in branches):
            return value
        for branch in branches:
            attempt = _Coercer(self.root, self.steps)
            fresh = attempt.visit(branch, value, path, parent_ids)
            if attempt.done and self.root.is_valid_part(branch, fresh):
                self.done += attempt.done
                return fresh
        return value

    def _allows_string(self, branch: Any, parent_ids: frozenset[int] = _NO_SCHEMAS) -> bool:
        if not is_dict(branch) or id(branch) in parent_ids:
            return branch is True
        kinds = self._kinds(branch)
        if kinds:
            return "string" in kinds
        inner = [*self._allof_parts(branch), *_as_list(branch.get("anyOf")), *_as_list(branch.get("oneOf"))]
        if not inner:
            return _CONTAINER_KEYWORDS.isdisjoint(branch)
        return any(self._allows_string(each, parent_ids | {id(branch)}) for each in inner)

    def _record(self, path: Path, before: Any, after: Any, rule: str) -> Any:
        self.done.append(Coercion(format_path(path), before, after, rule))
        return after


_CONTAINER_KEYWORDS = frozenset({"properties", "required", "items", "prefixItems", "additionalProperties"})
"""Keywords that show that a part without `type` does not expect a string."""


def _types_of(values: Any) -> list[str]:
    return [kind for kind in _ORDER if any(_TYPE_CHECKS[kind](each) for each in values)] + (
        ["string"] if any(isinstance(each, str) for each in values) else []
    )


def _as_dict(value: Any) -> dict[str, Any]:
    return value if is_dict(value) else {}


def _as_list(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _parts_for(name: str, node: dict[str, Any], properties: dict[str, Any]) -> Iterable[Any]:
    """Return the parts of an object schema that describe a property."""
    found = False
    if name in properties:
        found = True
        yield properties[name]
    for pattern, part in _as_dict(node.get("patternProperties")).items():
        try:
            matches = matches_pattern(pattern, name)
        except BadPatternError:
            continue
        if matches:
            found = True
            yield part
    if not found:
        yield node.get("additionalProperties")


def _item_schemas(node: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schema of each leading item, and the schema of the remaining items."""
    items = node.get("items")
    if is_list(items):
        return items, node.get("additionalItems")
    return _as_list(node.get("prefixItems")), items


def _as_text(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


_Converted = tuple[Any, str] | None


def _to_integer(text: str) -> _Converted:
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text), "string-to-number"
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number.is_integer() and abs(number) <= _SAFE_INTEGER:
            return int(number), "string-to-number"
    return None


def _to_number(text: str) -> _Converted:
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text), "string-to-number"
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number - number == 0:  # not infinite
            return number, "string-to-number"
    return None


def _to_boolean(text: str) -> _Converted:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE, "string-to-boolean"
    return None


def _to_null(text: str) -> _Converted:
    return (None, "string-to-null") if text.strip() == "null" else None


def _to_container(kind: type, opening: str) -> Callable[[str], _Converted]:
    def convert(text: str) -> _Converted:
        if not text.lstrip().startswith(opening):
            return None
        reading = parse_relaxed(text)
        if (
            reading.state != "whole"
            or reading.problem
            or text[reading.end :].strip()
            or type(reading.value) is not kind
        ):
            return None
        return reading.value, "string-to-json"

    return convert


_FROM_STRING: dict[str, Callable[[str], _Converted]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "array": _to_container(list, "["),
    "object": _to_container(dict, "{"),
    "null": _to_null,
}
_ORDER = list(_FROM_STRING)
