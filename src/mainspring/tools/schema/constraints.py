"""Read the constraints and descriptions of `Annotated`: msgspec, pydantic, annotated_types, `Doc`, and plain text.

pydantic and annotated_types are recognized by the modules of their classes; neither is imported here.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from msgspec import UNSET, Meta

from mainspring.tools.problems import format_value
from mainspring.tools.schema.types import TITLE
from mainspring.tools.schema_dialect import explain_bad_pattern

_LOWER, _UPPER = ("ge", "gt", "min_length"), ("le", "lt", "max_length")
_NUMERIC = ("ge", "gt", "le", "lt", "multiple_of")
CHECKED = (*_NUMERIC, "min_length", "max_length", "pattern", "tz")
"""Constraints of msgspec that a value can violate."""

_DESCRIBING = ("title", "description", "examples", "extra_json_schema")
_META_FIELDS = (*CHECKED, *_DESCRIBING)
_IGNORED_FIELD_OPTIONS = frozenset({"annotation", "default", "default_factory", "discriminator", "repr", "frozen"})
"""Options of `pydantic.Field` that are read elsewhere, or that have no meaning for a value from a model."""


class Constraints:
    """Constraints of one annotation.

    Attributes:
        values: Arguments for `msgspec.Meta`.
        predicates: Functions that must return True for the value.
        field: The `pydantic.Field` with the default, if any.
        needs_pydantic: Whether only pydantic can enforce them.
    """

    def __init__(self, metadata: Iterable[Any] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.predicates: list[Callable[[Any], Any]] = []
        self.field: Any = None
        self.needs_pydantic = False
        for each in metadata:
            self._read(each)

    @property
    def checked(self) -> dict[str, Any]:
        """The constraints that a value can violate, without those that a stricter one implies."""
        found = {key: value for key, value in self.values.items() if key in CHECKED}
        for strict, loose, is_implied in (("gt", "ge", operator.ge), ("lt", "le", operator.le)):
            if strict in found and loose in found:
                found.pop(loose if is_implied(found[strict], found[loose]) else strict)
        return found

    @property
    def describing(self) -> dict[str, Any]:
        """The descriptions, as arguments for `msgspec.Meta`."""
        found = {key: value for key, value in self.values.items() if key in _DESCRIBING}
        if "title" in found:
            found["extra_json_schema"] = {**found.get("extra_json_schema", {}), TITLE: found.pop("title")}
        return found

    def _read(self, item: Any) -> None:
        if item is None:
            return
        if isinstance(item, str):
            self._add("description", item)
        elif isinstance(item, Meta):
            for key in _META_FIELDS:
                self._add(key, getattr(item, key))
        elif is_field_info(item):
            self._read_field(item)
        elif isinstance(documentation := getattr(item, "documentation", None), str):
            self._add("description", documentation)  # typing_extensions.Doc
        elif getattr(item, "__is_annotated_types_grouped_metadata__", False):
            for each in item:
                self._read(each)
        elif type(item).__name__ == "_PydanticGeneralMetadata":  # its base is a class of annotated_types
            self._read_pydantic(item)
        elif "annotated_types" in _packages(item):
            self._read_annotated_type(item)
        elif "pydantic" in _packages(item) or hasattr(item, "__get_pydantic_core_schema__"):
            self._read_pydantic(item)
        else:
            raise TypeError(
                f"{item!r} in Annotated is not a known constraint. Use msgspec.Meta, pydantic.Field, annotated_types, or a "
                "text that describes the value, and check everything else in the function"
            )

    def _read_annotated_type(self, item: Any) -> None:
        name = type(item).__name__
        if name == "Predicate":
            self.predicates.append(item.func)
        elif name == "Timezone" and item.tz in {None, ...}:
            self._add("tz", item.tz is ...)
        elif name != "Unit":
            keys = [key for key in CHECKED if key != "tz" and hasattr(item, key)]
            if not keys:
                raise TypeError(f"{item!r} in Annotated is not supported. Check the value in the function")
            for key in keys:
                self._add(key, getattr(item, key))

    def _read_pydantic(self, item: Any) -> None:
        options = {key: value for key, value in getattr(item, "__dict__", {}).items() if value is not None}
        if options.keys() == {"pattern"} and isinstance(options["pattern"], str):
            self._add("pattern", options["pattern"])
        elif options or type(item).__name__ != "_PydanticGeneralMetadata":
            self.needs_pydantic = True

    def _read_field(self, item: Any) -> None:
        if self.field is not None:
            raise TypeError("Annotated contains two pydantic Fields. Merge them")
        self.field = item
        for each in item.metadata:
            self._read(each)
        for key in ("title", "description", "examples"):
            self._add(key, getattr(item, key, None))
        extra = getattr(item, "json_schema_extra", None)
        if callable(extra):
            raise TypeError("Field(json_schema_extra=...) must be a dict, not a function")
        deprecated = {"deprecated": True} if getattr(item, "deprecated", None) else {}
        if extra or deprecated:
            self._add("extra_json_schema", {**deprecated, **(extra or {})})
        for option in ("alias", "validation_alias", "serialization_alias", "exclude", "init_var", "validate_default"):
            if getattr(item, option, None) is not None and option not in _IGNORED_FIELD_OPTIONS:
                raise TypeError(f"Field({option}=...) has no effect here. Remove it, or use a pydantic model")

    def _add(self, key: str, value: Any) -> None:
        if value is None or value is UNSET:
            return
        present = self.values.get(key)
        if key == "extra_json_schema":
            value = cast("dict[str, Any]", {**(present or {}), **value})
        elif present is not None and present != value:
            if key in _LOWER:
                value = max(present, value)
            elif key in _UPPER:
                value = min(present, value)
            elif key == "multiple_of" and isinstance(present, int) and isinstance(value, int):
                value = math.lcm(present, value)
            elif key in CHECKED:
                raise TypeError(f"Annotated contains two values for {key}: {present!r} and {value!r}. Keep one of them")
        if key == "pattern":
            value = _check_pattern(value)
        self.values[key] = value


def _check_pattern(pattern: Any) -> str:
    pattern = getattr(pattern, "pattern", pattern)
    try:
        re.compile(pattern)
        problem = explain_bad_pattern(pattern)
    except (re.error, TypeError) as error:
        problem = str(error)
    if problem:
        raise TypeError(f"The pattern {pattern!r} cannot be used: {problem}")
    return pattern


def _packages(item: Any) -> set[str]:
    return {base.__module__.partition(".")[0] for base in cast("type[Any]", type(item)).__mro__}


def is_field_info(item: Any) -> bool:
    """Return True for the result of `pydantic.Field`."""
    return type(item).__name__ == "FieldInfo" and "pydantic" in _packages(item)


def default_of_field(item: Any) -> tuple[bool, Any, Callable[[], Any] | None]:
    """Return whether a `pydantic.Field` has a default, the default, and its factory."""
    if item.default_factory is not None:
        return True, None, item.default_factory
    is_missing = item.default is ... or type(item.default).__name__ == "PydanticUndefinedType"
    return not is_missing, None if is_missing else item.default, None


def adapt_bounds(kind: Any, checked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constraints with bounds of the type of the numbers that they limit: `ge=1.0` of an int is `ge=1`."""
    if kind is not int:
        return dict(checked)
    found = dict(checked)
    for key in _NUMERIC:
        bound = found.get(key)
        if isinstance(bound, float) and bound.is_integer():
            found[key] = int(bound)
        elif isinstance(bound, float) and key != "multiple_of":
            found.pop(key)
            whole = math.ceil(bound) if key in _LOWER else math.floor(bound)
            found["ge" if key in _LOWER else "le"] = whole
    return found


def check_predicates(predicates: Iterable[Callable[[Any], Any]], value: Any) -> None:
    """Check that every predicate accepts a value.

    Raises:
        ValueError: A predicate does not accept it.
    """
    for predicate in predicates:
        try:
            is_accepted = bool(predicate(value))
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
            is_accepted = False
        if not is_accepted:
            name = getattr(predicate, "__qualname__", None) or repr(predicate)
            raise ValueError(f"{format_value(value)} does not satisfy the condition {name}")


def type_adapter(kind: Any) -> Any:
    """Return pydantic's adapter of a type.

    Raises:
        TypeError: pydantic does not support the type.
    """
    pydantic: Any = sys.modules["pydantic"]
    try:
        return pydantic.TypeAdapter(kind)
    except (pydantic.errors.PydanticUserError, ImportError) as problem:
        raise TypeError(f"pydantic does not support the type: {str(problem).splitlines()[0]}") from problem
