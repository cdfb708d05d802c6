"""JSON Schema of Python types, small enough to send with every request."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, cast

import msgspec

from mainspring.tools.problems import format_issues, format_path, is_dict, is_list

_PREFIX = "#/$defs/"
_DICTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems")
_RECORD_MARKS = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__required_keys__")
_LEFT_OUT = frozenset({"title", "discriminator"})
_KINDS: tuple[tuple[type, str], ...] = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def is_pydantic_model(kind: Any) -> bool:
    """Whether it is a pydantic model class; told by its methods, since pydantic is never imported here."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def is_struct_type(kind: Any) -> bool:
    """Whether it is a class of named fields: msgspec, pydantic, dataclass, attrs or `TypedDict`."""
    return isinstance(kind, type) and (is_pydantic_model(kind) or any(hasattr(kind, mark) for mark in _RECORD_MARKS))


def schemas_for_types(kinds: Iterable[Any]) -> list[dict[str, Any]]:
    """The schema of each type, complete in itself.

    References are replaced by what they point to. Only a type that contains itself keeps its `$defs`.

    Raises:
        TypeError: If a type has no counterpart in JSON Schema.
    """
    custom = _CustomTypes()
    found, definitions = msgspec.json.schema_components(
        list(kinds), schema_hook=custom.schema, ref_template=_PREFIX + "{name}"
    )
    return [inline_definitions(each, {**definitions, **custom.definitions}) for each in found]


def decode_custom(kind: type, value: Any) -> Any:
    """Make a value of a type that msgspec does not know: the counterpart of the schemas given out here."""
    if is_pydantic_model(kind):
        try:
            return cast("Any", kind).model_validate(value)
        except ValueError as problem:
            raise ValueError(_pydantic_message(problem)) from problem
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return kind(value)
    raise NotImplementedError(f"{kind!r} cannot be made from JSON")


def decoder_for(kind: Any) -> Callable[[Any], Any]:
    """A function from a JSON value to a value of the type.

    It raises `ValueError` with the path of the first thing that does not fit.
    """
    if is_pydantic_model(kind):
        return lambda value: decode_custom(kind, value)
    convert = msgspec.convert

    def decode(value: Any) -> Any:
        return convert(value, kind, dec_hook=decode_custom)

    return decode


def _pydantic_message(problem: Any) -> str:
    """What a pydantic model objects to, in our words."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    found = cast("list[dict[str, Any]]", errors(include_url=False, include_context=False, include_input=False))
    return format_issues([f"{format_path(each['loc'])}: {each['msg']}" for each in found])


class _CustomTypes:
    """Schemas of the types that msgspec does not know; their definitions get names that cannot clash."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def schema(self, kind: Any) -> dict[str, Any]:
        """The schema of a type, with references into `definitions`."""
        if is_pydantic_model(kind):
            prefix = f"{kind.__name__}{len(self.definitions) or ''}_"
            whole = cast("dict[str, Any]", kind.model_json_schema(ref_template=_PREFIX + prefix + "{model}"))
            for name, each in whole.pop("$defs", {}).items():
                self.definitions[prefix + name] = each
            return whole
        if isinstance(kind, type) and issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        raise NotImplementedError


def inline_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the schema without titles and, as far as recursion allows, without references to `definitions`."""
    walk = _Inliner(definitions)
    made = walk.copy({k: v for k, v in schema.items() if k != "$defs"}, ())
    pending = list(walk.kept)
    kept: dict[str, Any] = {}
    while pending:
        name = pending.pop()
        if name not in kept:
            kept[name] = walk.copy(definitions[name], (name,))
            pending += walk.kept
    root = kept.get(str(made.get("$ref", "")).removeprefix(_PREFIX))
    if root is not None:  # the outermost type contains itself: a schema of arguments needs its properties at the top
        made = {**root, **{k: v for k, v in made.items() if k != "$ref"}}
    if kept:
        made["$defs"] = kept
    return made


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.kept: set[str] = set()

    def copy(self, node: Any, inside: tuple[str, ...]) -> Any:
        """A copy of a schema; `inside` names the definitions that are being written out around it."""
        if not isinstance(node, dict):
            return node
        entries = cast("dict[str, Any]", node)
        reference = entries.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            return self._followed(entries, reference.removeprefix(_PREFIX), inside)
        made: dict[str, Any] = {}
        for key, value in entries.items():
            if key in _LEFT_OUT and (key == "discriminator" or isinstance(value, str)):
                continue
            made[key] = self._part(key, value, inside)
        return _with_type(made)

    def _followed(self, entries: dict[str, Any], name: str, inside: tuple[str, ...]) -> dict[str, Any]:
        beside = {k: self._part(k, v, inside) for k, v in entries.items() if k not in {"$ref", "title"}}
        if name not in self._definitions:
            return {"$ref": _PREFIX + name, **beside}
        if name in inside or self._is_recursive(name):
            self.kept.add(name)
            return {"$ref": _PREFIX + name, **beside}
        return {**self.copy(self._definitions[name], (*inside, name)), **beside}

    def _part(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in _DICTS and is_dict(value):
            return {name: self.copy(each, inside) for name, each in value.items()}
        if is_list(value) and key in (*_LISTS, "items"):
            return [self.copy(each, inside) for each in value]
        return self.copy(value, inside) if key in _SINGLE else value

    def _is_recursive(self, name: str) -> bool:
        """Whether a definition leads back to itself."""
        seen: set[str] = set()
        pending = _references(self._definitions[name])
        while pending:
            each = pending.pop()
            if each == name:
                return True
            if each not in seen and each in self._definitions:
                seen.add(each)
                pending |= _references(self._definitions[each])
        return False


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        entries = cast("dict[str, Any]", node)
        found = set[str]().union(*map(_references, entries.values()))
        reference = entries.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            found.add(reference.removeprefix(_PREFIX))
        return found
    return set[str]().union(*map(_references, cast("list[Any]", node))) if isinstance(node, list) else set()


def _with_type(schema: dict[str, Any]) -> dict[str, Any]:
    """An enum gets the type of its values: some providers refuse one without."""
    values = schema.get("enum")
    if isinstance(values, list) and values and "type" not in schema:
        for kind, name in _KINDS:
            if all(type(each) is kind for each in cast("list[Any]", values)):
                return {"type": name, **schema}
    return schema
