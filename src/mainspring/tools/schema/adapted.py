"""Adapt types that msgspec does not support, or whose constraints it does not check.

`adapt_type` replaces such parts of a type with placeholder classes, which msgspec treats as custom types: a union of object
types, a record with pydantic constraints, a type of pydantic. Each placeholder knows its JSON Schema and creates its values.
"""

import copy
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import repeat
from typing import Annotated, Any, NamedTuple, Protocol, cast

import msgspec
from msgspec import Meta, Struct

from mainspring.lazy import lazy_re
from mainspring.tools.problems import format_issues, is_dict, is_list
from mainspring.tools.schema.constraints import (
    Constraints,
    adapt_bounds,
    check_predicates,
    default_of_field,
    is_field_info,
    type_adapter,
)
from mainspring.tools.schema.types import (
    MISSING,
    convert,
    is_plain_type,
    is_pydantic_model,
    is_struct_type,
    pydantic_error,
    schemas_for_types,
    type_name,
)
from mainspring.tools.schema_dialect import resolve_local_ref
from mainspring.tools.validation import get_validator

_UNIONS = (typing.Union, types.UnionType)
_QUALIFIERS = frozenset({"Required", "NotRequired", "ReadOnly"})
_JSON_TYPES = (dict, list, str, int, float, type(None))
_FACTORIES = (list, dict, set, bytearray)
_NOT_IN_NAMES = lazy_re(r"\W+")


class _Schemas(Protocol):
    """What a part needs to create its schema."""

    def part(self, kind: Any) -> dict[str, Any]: ...
    def include(self, name: str, create: Callable[[str], dict[str, Any]]) -> dict[str, Any]: ...


class _Part(Protocol):
    def schema(self, schemas: _Schemas, /) -> dict[str, Any]: ...
    def decode(self, value: Any, strict: bool, /) -> Any: ...


class _PlaceholderType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        """Accept every value: msgspec checks that a decoded value is an instance of its custom type."""
        return True


def _create_placeholder(name: str, part: _Part) -> Any:
    return _PlaceholderType(_NOT_IN_NAMES.sub("_", name), (), {"__adapted__": part})


class Adapted(NamedTuple):
    """A parameter or field that is prepared for msgspec.

    Attributes:
        kind: The adapted type.
        default: The default, or `MISSING`.
        factory: Function that creates the default, if any.
        is_filled: Whether the default comes from a `pydantic.Field`, so that Python does not know it.
    """

    kind: Any
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    is_filled: bool = False

    def create_default(self) -> Any:
        """Return the default; each call gets its own copy of a mutable value."""
        if self.factory is not None:
            return self.factory()
        return copy.deepcopy(self.default)


def adapt_type(kind: Any) -> Any:
    """Return a type that msgspec supports, and that checks all constraints.

    Raises:
        TypeError: A constraint is unknown, or does not apply to its type.
    """
    return _Walk().adapt(kind)


def adapt_parameter(kind: Any, default: Any = MISSING) -> Adapted:
    """Return the adapted type and default of a parameter; both can contain a `pydantic.Field`.

    Raises:
        TypeError: A constraint is unknown, or does not apply to its type.
    """
    kind, found = _split_field(kind, default)
    return found._replace(kind=adapt_type(kind))


def _split_field(kind: Any, default: Any, factory: Callable[[], Any] | None = None) -> tuple[Any, Adapted]:
    if is_field_info(default):
        kind = Annotated[kind, default]
        default = MISSING
    if default is MISSING and factory is None:
        for each in getattr(kind, "__metadata__", ()):
            if is_field_info(each):
                has_default, value, factory = default_of_field(each)
                if getattr(each, "default_factory_takes_validated_data", False):
                    raise TypeError("Field(default_factory=...) must be a function without parameters here")
                if has_default:
                    return kind, Adapted(kind, MISSING if factory else value, factory, True)
    return kind, Adapted(kind, default, factory)


class _Walk:
    """One pass over a type."""

    def __init__(self) -> None:
        self._records: dict[Any, Any] = {}

    def adapt(self, kind: Any) -> Any:
        origin = typing.get_origin(kind)
        if origin is Annotated:
            return self._adapt_annotated(kind)
        if origin in _UNIONS:
            return self._adapt_union(kind)
        if origin is typing.Literal:
            return kind if is_plain_type(kind) else _create_placeholder("literal", _LiteralPart(typing.get_args(kind)))
        if is_pydantic_model(kind):
            return kind
        cls: Any = origin or kind
        if isinstance(cls, type):
            if hasattr(cls, "__get_pydantic_core_schema__") or hasattr(cls, "__pydantic_validator__"):
                return self._use_pydantic(kind)
            if is_struct_type(cls):
                return self._adapt_record(kind)
            if issubclass(cls, tuple) and hasattr(cast("Any", cls), "_fields"):
                return self._check_named_tuple(kind)
        return self._adapt_other(kind, origin)

    def _adapt_other(self, kind: Any, origin: Any) -> Any:
        """Adapt an alias, or a collection with its arguments."""
        target = getattr(kind, "__supertype__", None) or getattr(kind, "__value__", None)
        if target is not None:
            return self._adapt_alias(kind, target)
        arguments = typing.get_args(kind)
        if not arguments or not isinstance(origin, type):
            return kind
        adapted = tuple([self.adapt(each) for each in arguments])
        return kind if all(map(_is_same, adapted, arguments)) else cast("Any", origin)[adapted]

    def _adapt_alias(self, kind: Any, target: Any) -> Any:
        if _refers_to(target, kind, set()):
            return self._use_pydantic(kind)  # msgspec supports no recursive alias
        adapted = self.adapt(target)
        return kind if adapted is target else adapted

    def _adapt_annotated(self, kind: Any) -> Any:
        inner: Any = kind.__origin__
        found = Constraints(kind.__metadata__)
        if found.needs_pydantic:
            return self._use_pydantic(kind)
        adapted = self.adapt(inner)
        if adapted is inner and is_plain_type(kind):
            return kind
        if found.checked:
            try:
                adapted = self._constrain(inner, adapted, found.checked)
            except TypeError:
                if found.field is None:
                    raise
                return self._use_pydantic(kind)
        if found.predicates:
            adapted = _create_placeholder(type_name(inner), _CheckedPart(adapted, found.predicates))
        return Annotated[adapted, Meta(**found.describing)] if found.describing else adapted

    def _constrain(self, inner: Any, adapted: Any, checked: dict[str, Any]) -> Any:
        if typing.get_origin(inner) in _UNIONS:
            members = [
                each if each is type(None) else self._constrain(each, self.adapt(each), checked)
                for each in typing.get_args(inner)
            ]
            return self._join(members)
        try:
            constrained = Annotated[adapted, Meta(**adapt_bounds(inner, checked))]
            msgspec.json.schema_components([constrained], schema_hook=_no_schema)
        except (TypeError, ValueError) as problem:
            listed = ", ".join(f"{key}={value!r}" for key, value in checked.items())
            raise TypeError(
                f"{listed} does not apply to {type_name(inner)}. Constrain a number, text, or a collection (in a union: the "
                "member), or check the value in the function"
            ) from problem
        return constrained

    def _adapt_union(self, kind: Any) -> Any:
        members = typing.get_args(kind)
        adapted = [self.adapt(each) for each in members]
        return kind if all(map(_is_same, adapted, members)) and _is_supported(kind) else self._join(adapted)

    def _join(self, members: list[Any]) -> Any:
        try:
            joined = cast("Any", typing.Union).__getitem__(tuple(members))
        except TypeError:
            joined = None
        if joined is not None and _is_supported(joined):
            return joined
        return _create_placeholder("union", _UnionPart(members))

    def _use_pydantic(self, kind: Any) -> Any:
        if "pydantic" not in sys.modules:
            raise TypeError(f"{type_name(kind)} is a type for pydantic, which is not imported")
        return _create_placeholder(type_name(kind), _PydanticPart(type_name(kind), type_adapter(kind)))

    def _check_named_tuple(self, kind: Any) -> Any:
        for name, each in _read_hints(kind).items():
            if self.adapt(each) is not each:
                raise TypeError(f"Field {name!r} of {type_name(kind)}: use a dataclass instead of a named tuple")
        return kind

    def _adapt_record(self, kind: Any) -> Any:
        """Return a record unchanged if msgspec checks all its fields; a recursive record is checked as if it were."""
        if kind in self._records:
            return self._records[kind]
        before = dict(self._records)
        self._records[kind] = kind
        fields = _read_fields(kind)
        if all(self._adapt_field(kind, each).kind is each.kind for each in fields):
            return kind
        self._records = before  # what was found in the meantime assumed that this record is unchanged
        part = _RecordPart(kind)
        placeholder = self._records[kind] = _create_placeholder(type_name(kind), part)
        part.fields = [each._replace(adapted=self._adapt_field(kind, each)) for each in fields]
        return placeholder

    def _adapt_field(self, owner: Any, field: "_Field") -> Adapted:
        try:
            kind, found = _split_field(field.kind, field.default, field.factory)
            return found._replace(kind=self.adapt(kind))
        except TypeError as problem:
            text = str(problem)
            if not text.startswith("Field "):
                text = f"Field {field.name!r} of {type_name(owner)}: {text}"
            raise TypeError(text) from problem


def _refers_to(kind: Any, alias: Any, seen: set[Any]) -> bool:
    """Return True if a type contains an alias, or its name in quotes."""
    if kind is alias or getattr(kind, "__forward_arg__", kind) == alias.__name__:
        return True
    parts = [*typing.get_args(kind), getattr(kind, "__value__", None)]
    if not any(parts) or kind in seen:
        return False
    seen.add(kind)
    return any(_refers_to(each, alias, seen) for each in parts)


def _is_same(one: Any, other: Any) -> bool:
    return one is other


def _no_schema(kind: Any) -> dict[str, Any]:
    return {"type": "object"}  # msgspec rejects an empty schema


def _is_supported(kind: Any) -> bool:
    try:
        msgspec.json.schema_components([kind], schema_hook=_no_schema)
    except TypeError:
        return False
    return True


class _Field(NamedTuple):
    """A field of a record: its name in JSON, its name in Python, and its type and default."""

    name: str
    attribute: str
    kind: Any
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    is_required: bool = True
    adapted: Adapted = Adapted(None)


def _read_hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a class, with the arguments of a generic class in place of its type variables."""
    cls = typing.get_origin(kind) or kind
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as problem:
        raise TypeError(
            f"The fields of {type_name(cls)} cannot be resolved ({problem}). Import their types outside `if TYPE_CHECKING`"
        ) from problem
    variables = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(kind), strict=False))
    return {name: _substitute(each, variables) for name, each in hints.items()} if variables else hints


def _substitute(kind: Any, variables: Mapping[Any, Any]) -> Any:
    if kind in variables:
        return variables[kind]
    used = getattr(kind, "__parameters__", ())
    return kind[tuple([variables.get(each, each) for each in used])] if used and not isinstance(kind, type) else kind


def _read_fields(kind: Any) -> list[_Field]:
    cls = typing.get_origin(kind) or kind
    if issubclass(cls, Struct):
        return _read_struct(kind, cls)
    hints = _read_hints(kind)
    if hasattr(cls, "__required_keys__"):
        return [_read_key(name, each, name in cls.__required_keys__) for name, each in hints.items()]
    if dataclasses.is_dataclass(cls):
        return [
            _Field(
                f.name,
                f.name,
                hints[f.name],
                MISSING if f.default is dataclasses.MISSING else f.default,
                None if f.default_factory is dataclasses.MISSING else f.default_factory,
                f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            )
            for f in dataclasses.fields(cls)
            if f.init
        ]
    return [_read_attribute(each, hints) for each in cls.__attrs_attrs__ if each.init]


def _read_struct(kind: Any, cls: type[Struct]) -> list[_Field]:
    if cls.__struct_config__.array_like:
        hints = _read_hints(kind)
        if not all(is_plain_type(each) for each in hints.values()):
            raise TypeError(f"{type_name(cls)} is array_like, which does not support these fields. Use a plain struct")
        return []
    return [
        _Field(
            f.encode_name,
            f.name,
            f.type,
            MISSING if f.default is msgspec.NODEFAULT else f.default,
            None if f.default_factory is msgspec.NODEFAULT else f.default_factory,
            f.required,
        )
        for f in msgspec.structs.fields(kind)
    ]


def _read_key(name: str, kind: Any, is_required: bool) -> _Field:
    while (qualifier := getattr(typing.get_origin(kind), "_name", "")) in _QUALIFIERS:
        is_required = is_required if qualifier == "ReadOnly" else qualifier == "Required"
        kind = typing.get_args(kind)[0]
    return _Field(name, name, kind, is_required=is_required)


def _read_attribute(attribute: Any, hints: Mapping[str, Any]) -> _Field:
    default, factory = attribute.default, getattr(attribute.default, "factory", None)
    is_required = type(default).__name__ == "_Nothing"
    return _Field(
        attribute.name,
        attribute.alias,
        hints[attribute.name],
        MISSING if is_required or factory else default,
        factory,
        is_required,
    )


class _RecordPart:
    """A struct, dataclass, attrs class, or `TypedDict` with fields that msgspec does not check itself."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.cls: Any = typing.get_origin(kind) or kind
        self.fields: list[_Field] = []
        config: Any = getattr(self.cls, "__struct_config__", None)
        self.tag: tuple[str, Any] | None = (config.tag_field, config.tag) if config and config.tag is not None else None
        self.is_closed = bool(config and config.forbid_unknown_fields)

    def schema(self, schemas: _Schemas) -> dict[str, Any]:
        properties: dict[str, Any] = {self.tag[0]: {"enum": [self.tag[1]]}} if self.tag else {}
        required = list(properties)
        for field in self.fields:
            adapted = field.adapted
            part = properties[field.name] = schemas.part(adapted.kind)
            if field.is_required and not adapted.is_filled:
                required.append(field.name)
            default = cast("Any", adapted.factory)() if adapted.factory in _FACTORIES else adapted.default
            if default is not MISSING and "default" not in part:
                try:
                    part["default"] = msgspec.to_builtins(default)
                except (TypeError, ValueError):
                    pass  # a default that only Python can represent
        found: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            found["required"] = required
        if self.is_closed:
            found["additionalProperties"] = False
        doc = self.cls.__doc__
        if doc and not doc.startswith(f"{self.cls.__name__}("):
            found["description"] = inspect.cleandoc(doc)
        return found

    @cached_property
    def _mirror(self) -> Any:
        keys: dict[str, Any] = {}
        for field in self.fields:
            is_required = field.is_required and not field.adapted.is_filled
            keys[field.name] = field.adapted.kind if is_required else typing.NotRequired[field.adapted.kind]
        return cast("Any", typing.TypedDict)(type_name(self.kind), keys)

    def decode(self, value: Any, strict: bool) -> Any:
        is_typed_dict = hasattr(self.cls, "__required_keys__")
        if not is_typed_dict and isinstance(value, self.cls):
            return value
        decoded = convert(value, self._mirror, strict)
        if self.tag and value.get(self.tag[0]) != self.tag[1]:
            raise ValueError(f"{self.tag[0]!r} must be {self.tag[1]!r}")
        if self.is_closed:
            unknown = [each for each in value if each not in decoded and not (self.tag and each == self.tag[0])]
            if unknown:
                raise ValueError(f"unknown property {unknown[0]!r}")
        for field in self.fields:
            if field.adapted.is_filled and field.name not in decoded:
                decoded[field.name] = field.adapted.create_default()
        if is_typed_dict:
            return decoded
        return self.cls(**{f.attribute: decoded[f.name] for f in self.fields if f.name in decoded})


class _UnionPart:
    """A union that msgspec does not support: of several object types or collections."""

    def __init__(self, members: Iterable[Any]) -> None:
        self._members = list(members)

    def schema(self, schemas: _Schemas) -> dict[str, Any]:
        return {"anyOf": [schemas.part(each) for each in self._members]}

    @cached_property
    def _schemas(self) -> list[dict[str, Any]]:
        return [schemas_for_types([each])[0] for each in self._members]  # classes of the same name do not clash

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return schemas_for_types([_create_placeholder("union", self)])[0]

    def decode(self, value: Any, strict: bool) -> Any:
        """Create a value of the member that fits best: with the most of the given properties, then the first."""
        is_json = isinstance(value, _JSON_TYPES)
        fitting = [
            (member, count_matches(schema, schema, value))
            for member, schema in zip(self._members, self._schemas, strict=True)
            if not is_json or not get_validator(schema).problems(value)
        ]
        if not fitting:
            raise ValueError(format_issues(get_validator(self._whole)(value)))
        best: tuple[tuple[int, bool], Any] | None = None
        failed: ValueError | None = None
        for member, matches in sorted(fitting, key=lambda each: -each[1]):
            if best is not None and best[0][0] > matches:
                break
            try:
                decoded = _convert_whole(value, member, strict)
            except ValueError as problem:
                failed = failed or problem
                continue
            rank = (matches, type(decoded) is type(value))
            if best is None or rank > best[0]:
                best = (rank, decoded)
        if best is None:
            raise failed or ValueError("no member of the union accepts the value")
        return best[1]


def _convert_whole(value: Any, kind: Any, strict: bool) -> Any:
    """Convert a value that fits its schema: `5.0` is an integer there."""
    try:
        return convert(value, kind)
    except ValueError:
        if strict and not isinstance(value, _JSON_TYPES):
            raise
        return convert(value, kind, strict=False)


def count_matches(root: Any, schema: Any, value: Any) -> int:
    """Return how many of the properties and fixed values of a schema a value has."""
    if not is_dict(schema):
        return 0
    if "$ref" in schema:
        try:
            return count_matches(root, resolve_local_ref(root, schema["$ref"]), value)
        except LookupError:
            return 0
    found = int(value in schema.get("enum", [schema["const"]] if "const" in schema else ()))
    found += max([count_matches(root, each, value) for each in schema.get("anyOf", ())], default=0)
    if is_dict(value):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, item in value.items():
            found += 1 + count_matches(root, properties[key], item) if key in properties else 0
            found += count_matches(root, others, item) if key not in properties else 0
    elif is_list(value):
        first = schema.get("prefixItems", ())
        parts = [*first, *repeat(schema.get("items"), len(value) - len(first))]
        found += sum(count_matches(root, part, each) for part, each in zip(parts, value, strict=False))
    return found


class _CheckedPart:
    """A type with predicates, which are functions, so that a schema cannot express them."""

    def __init__(self, kind: Any, predicates: list[Callable[[Any], Any]]) -> None:
        self._kind, self._predicates = kind, predicates

    def schema(self, schemas: _Schemas) -> dict[str, Any]:
        return schemas.part(self._kind)

    def decode(self, value: Any, strict: bool) -> Any:
        decoded = convert(value, self._kind, strict)
        check_predicates(self._predicates, decoded)
        return decoded


class _LiteralPart:
    """A `Literal` with members of an enum, which msgspec does not support."""

    def __init__(self, members: Iterable[Any]) -> None:
        self._members = {getattr(each, "value", each): each for each in members}

    def schema(self, schemas: _Schemas) -> dict[str, Any]:
        return {"enum": list(self._members)}

    def decode(self, value: Any, strict: bool) -> Any:
        return self._members[value]


class _PydanticPart:
    """A type that only pydantic can check."""

    def __init__(self, name: str, adapter: Any) -> None:
        self._name, self._adapter = name, adapter

    def schema(self, schemas: _Schemas) -> dict[str, Any]:
        return schemas.include(self._name, lambda template: self._adapter.json_schema(ref_template=template))

    def decode(self, value: Any, strict: bool) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValueError as problem:
            raise pydantic_error(problem) from problem
