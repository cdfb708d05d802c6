"""Create the JSON Schema of types, and convert JSON data to them."""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from mainspring.tools.problems import format_issues, format_path, is_dict, is_list

MISSING: Any = inspect.Parameter.empty
"""Default of a required parameter or field."""

_PREFIX = "#/$defs/"
TITLE = "\0title"
"""Field of an explicit title, which stays in the schema; titles that a library derives from names are removed."""

_DICTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems")
_RECORD_MARKS = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__required_keys__")
_ADAPTED_MARKS = ("__get_pydantic_core_schema__", "__supertype__", "__value__", "_fields")
_SIMPLE = frozenset({str, int, float, bool, type(None)})
_UNIONS = (typing.Union, types.UnionType)
_LEFT_OUT = frozenset({"title", "discriminator"})
_KINDS: tuple[tuple[type, str], ...] = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def is_pydantic_model(kind: Any) -> bool:
    """Return True for a pydantic model class; detected by its methods, since pydantic is never imported here."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def _is_path_type(kind: Any) -> bool:
    pathlib = sys.modules.get("pathlib")  # if it is not loaded, no such type exists
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)


def is_struct_type(kind: Any) -> bool:
    """Return True for a class with named fields: msgspec, pydantic, dataclass, attrs, or `TypedDict`."""
    return isinstance(kind, type) and (is_pydantic_model(kind) or _has_mark(kind, _RECORD_MARKS))


def _has_mark(kind: Any, marks: tuple[str, ...]) -> bool:
    return any(hasattr(kind, mark) for mark in marks)


def schemas_for_types(kinds: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the complete schema of each type.

    References are replaced by their targets. Only a recursive type keeps its `$defs`.

    Raises:
        TypeError: JSON Schema cannot express a type.
    """
    custom = _CustomTypes()
    found, definitions = msgspec.json.schema_components(
        list(kinds), schema_hook=custom.schema, ref_template=_PREFIX + "{name}"
    )
    return [inline_definitions(each, {**definitions, **custom.definitions}) for each in found]


def is_plain_type(kind: Any, enclosing: tuple[Any, ...] = ()) -> bool:
    """Return True if msgspec supports the type and checks all its constraints, so that it need not be adapted."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        inner, *metadata = arguments
        is_meta = len(metadata) == 1 and _is_plain_meta(metadata[0])
        return is_meta and typing.get_origin(inner) not in _UNIONS and is_plain_type(inner, enclosing)
    if origin is typing.Literal:
        return all(type(each) in _SIMPLE for each in arguments)
    if kind in enclosing or is_pydantic_model(kind):
        return True
    if isinstance(kind, type) and issubclass(kind, Struct):
        return all(is_plain_type(each.type, (*enclosing, kind)) for each in fields(kind))
    if origin in _UNIONS:
        others = [a for a in arguments if a not in _SIMPLE and typing.get_origin(a) is not typing.Literal]
        is_alone = len(arguments) - (type(None) in arguments) == 1
        if others and not is_alone and (len(others) > 1 or typing.get_origin(others[0]) not in {list, dict, tuple}):
            return False
    elif is_struct_type(origin or kind) or _has_mark(origin or kind, _ADAPTED_MARKS):
        return False
    return all(is_plain_type(each, enclosing) for each in arguments)


def is_simple_type(kind: Any) -> bool:
    """Return True for types without classes of users, whose code could reject a value that fits the schema."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return is_simple_type(arguments[0])
    return (
        origin is typing.Literal
        or any(kind is each for each in _SIMPLE)
        or (bool(arguments) and all(map(is_simple_type, arguments)))
    )


def _is_plain_meta(item: Any) -> bool:
    return type(item) is msgspec.Meta and item.title is None and item.pattern is None


def convert(value: Any, kind: Any, strict: bool = True) -> Any:
    """Convert JSON data to a value of an adapted type.

    Raises:
        ValueError: The data does not fit.
    """
    return msgspec.convert(value, kind, dec_hook=_decode_custom if strict else _decode_custom_lax, strict=strict)


def _decode_custom(kind: Any, value: Any, strict: bool = True) -> Any:
    """Create a value of a type that msgspec does not support: the counterpart of the schemas generated here."""
    part = getattr(kind, "__adapted__", None)
    if part is not None:
        return part.decode(value, strict)
    if is_pydantic_model(kind):
        try:
            return kind.model_validate(value)
        except ValueError as problem:
            raise pydantic_error(problem) from problem
    if _is_path_type(kind) and isinstance(value, (str, kind)):
        return kind(value)
    raise NotImplementedError(f"{kind!r} cannot be created from JSON.")


def _decode_custom_lax(kind: Any, value: Any) -> Any:
    return _decode_custom(kind, value, strict=False)


def pydantic_error(problem: Any) -> ValueError:
    """Return an error with all problems that pydantic found."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return ValueError(str(problem))
    found = cast("list[dict[str, Any]]", errors(include_url=False, include_context=False, include_input=False))
    return ValueError(format_issues([f"{format_path(each['loc'])}: {each['msg']}" for each in found]))


class _CustomTypes:
    """Schemas of the types that msgspec does not support; their definitions get unique names."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._references: dict[Any, str] = {}

    def schema(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type, with references to `definitions`."""
        part = getattr(kind, "__adapted__", None)
        if part is not None:
            if kind not in self._references:
                name = self._references[kind] = f"{kind.__name__}{len(self.definitions) or ''}"
                self.definitions[name] = {}  # a recursive type refers to itself
                self.definitions[name] = part.schema(self)
            return {"$ref": _PREFIX + self._references[kind]}
        if is_pydantic_model(kind):
            return self.include(kind.__name__, lambda template: kind.model_json_schema(ref_template=template))
        if _is_path_type(kind):
            return {"type": "string", "format": "path"}
        raise NotImplementedError

    def part(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a part of an adapted type."""
        prefix = f"{len(self.definitions)}_"
        (found,), definitions = msgspec.json.schema_components(
            [kind], schema_hook=self.schema, ref_template=_PREFIX + prefix + "{name}"
        )
        self.definitions |= {prefix + name: each for name, each in definitions.items()}
        return found

    def include(self, name: str, create: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """Return the schema that pydantic creates with a template for references."""
        prefix = f"{name}{len(self.definitions) or ''}_"
        try:
            found = create(_PREFIX + prefix + "{model}")
        except RuntimeError as problem:  # pydantic.PydanticUserError
            raise TypeError(str(problem).splitlines()[0]) from problem
        self.definitions |= {prefix + each: part for each, part in found.pop("$defs", {}).items()}
        return found


def inline_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the schema without titles and, unless it is recursive, without references to `definitions`."""
    walk = _Inliner(definitions)
    inlined = walk.copy({k: v for k, v in schema.items() if k != "$defs"}, ())
    pending = list(walk.referenced)
    inlined_definitions: dict[str, Any] = {}
    while pending:
        name = pending.pop()
        if name not in inlined_definitions:
            inlined_definitions[name] = walk.copy(definitions[name], (name,))
            pending += walk.referenced
    root = inlined_definitions.get(str(inlined.get("$ref", "")).removeprefix(_PREFIX))
    if (
        root is not None
    ):  # The outermost type is recursive: a schema of arguments needs its properties at the top level.
        inlined = {**root, **{k: v for k, v in inlined.items() if k != "$ref"}}
    if inlined_definitions:
        inlined["$defs"] = inlined_definitions
    return inlined


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.referenced: set[str] = set()

    def copy(self, node: Any, open_refs: tuple[str, ...]) -> Any:
        """Copy a schema; `open_refs` names the definitions that surround it."""
        if not isinstance(node, dict):
            return node
        entries = cast("dict[str, Any]", node)
        reference = entries.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            return self._followed(entries, reference.removeprefix(_PREFIX), open_refs)
        copied: dict[str, Any] = {}
        for key, value in entries.items():
            if key in _LEFT_OUT and (key == "discriminator" or isinstance(value, str)):
                continue
            copied["title" if key == TITLE else key] = self._part(key, value, open_refs)
        return _with_type(copied)

    def _followed(self, entries: dict[str, Any], name: str, open_refs: tuple[str, ...]) -> dict[str, Any]:
        beside = {
            "title" if k == TITLE else k: self._part(k, v, open_refs)
            for k, v in entries.items()
            if k not in {"$ref", "title"}
        }
        if name not in self._definitions:
            return {"$ref": _PREFIX + name, **beside}
        if name in open_refs or self._is_recursive(name):
            self.referenced.add(name)
            return {"$ref": _PREFIX + name, **beside}
        return {**self.copy(self._definitions[name], (*open_refs, name)), **beside}

    def _part(self, key: str, value: Any, open_refs: tuple[str, ...]) -> Any:
        if key in _DICTS and is_dict(value):
            return {name: self.copy(each, open_refs) for name, each in value.items()}
        if is_list(value) and key in (*_LISTS, "items"):
            return [self.copy(each, open_refs) for each in value]
        return self.copy(value, open_refs) if key in _SINGLE else value

    def _is_recursive(self, name: str) -> bool:
        """Return True if a definition refers to itself."""
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
    """Add the type of its values to an enum: some providers reject enums without a type."""
    values = schema.get("enum")
    if isinstance(values, list) and values and "type" not in schema:
        for kind, name in _KINDS:
            if all(type(each) is kind for each in cast("list[Any]", values)):
                return {"type": name, **schema}
    return schema


def type_name(kind: Any) -> str:
    """Return the name of a type for an error."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind)
