"""The keywords of JSON Schema that look at one value alone: enums, limits, sizes, patterns, formats."""

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.tools.formats import SUPPORTED_FORMATS
from mainspring.tools.patterns import BadPatternError, compile_pattern
from mainspring.tools.problems import Problem, canonical, format_value, is_list

Check = Callable[[Any], list[Problem] | None]
"""Says what is wrong with a value, seen from the value; `None` or nothing if all is well."""

Schema = Mapping[str, Any]


class NotPlainError(Exception):
    """The schema needs the full validator."""


def is_integer(value: Any) -> bool:
    """Whether it is an integer to JSON Schema: `5` and `5.0` are, `true` is not."""
    return (isinstance(value, int) and value is not True and value is not False) or (
        isinstance(value, float) and value.is_integer()
    )


def is_number(value: Any) -> bool:
    """Whether it is a number to JSON Schema; `true` is not."""
    return isinstance(value, (int, float)) and value is not True and value is not False


TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": is_integer,
    "number": is_number,
    "boolean": lambda value: value is True or value is False,
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
"""Name of a type to its test."""


def accept(value: Any) -> None:
    """A check that nothing fails."""
    return None


def as_list(value: Any, at_least: int = 0) -> list[Any]:
    """The value, if it is a list of that length.

    Raises:
        NotPlainError: If not: the schema is not valid.
    """
    if not is_list(value) or len(value) < at_least:
        raise NotPlainError(value)
    return value


Maker = Callable[[Any, Schema], Check]


def _asserting(
    applies: Callable[[Any], bool], holds: Callable[[Any], bool], keyword: str, says: Callable[[Any], str]
) -> Check:
    def check(value: Any) -> list[Problem] | None:
        if not applies(value) or holds(value):
            return None
        return [Problem((), keyword, says(value))]

    return check


def _always(value: Any) -> bool:
    return True


def _make_enum(allowed: Any, schema: Schema) -> Check:
    values = as_list(allowed)
    if schema.get("nullable") is True:
        values = [*values, None]
    words = ", ".join(format_value(each) for each in values[:20]) + (", …" if len(values) > 20 else "")
    if all(isinstance(each, str) for each in values):
        strings = frozenset(values)
        return _asserting(
            _always,
            lambda v: isinstance(v, str) and v in strings,
            "enum",
            lambda v: f"{format_value(v)} is not one of {words}",
        )
    known = frozenset(canonical(each) for each in values)
    return _asserting(
        _always, lambda v: canonical(v) in known, "enum", lambda v: f"{format_value(v)} is not one of {words}"
    )


def _make_const(only: Any, schema: Schema) -> Check:
    wanted = canonical(only)
    return _asserting(
        _always, lambda v: canonical(v) == wanted, "const", lambda v: f"{format_value(v)} is not {format_value(only)}"
    )


def _make_limit(keyword: str, holds: Callable[[Any, Any], bool], says: str) -> Maker:
    def make(limit: Any, schema: Schema) -> Check:
        if not is_number(limit):
            raise NotPlainError(limit)
        return _asserting(
            is_number,
            lambda v: holds(v, limit),
            keyword,
            lambda v: f"{format_value(v)} is {says} {format_value(limit)}",
        )

    return make


def _make_size(keyword: str, kind: str, holds: Callable[[int, int], bool], says: str) -> Maker:
    applies = TYPE_CHECKS[kind]

    def make(limit: Any, schema: Schema) -> Check:
        if not is_integer(limit) or limit < 0:
            raise NotPlainError(limit)
        return _asserting(
            applies,
            lambda v: holds(len(v), limit),
            keyword,
            lambda v: f"{format_value(v)} {says.format(int(limit))}, not {len(v)}",
        )

    return make


def _make_multiple(step: Any, schema: Schema) -> Check:
    if not isinstance(step, int) or step <= 0 or isinstance(step, bool):
        raise NotPlainError(step)
    return _asserting(
        is_number, lambda v: v % step == 0, "multipleOf", lambda v: f"{format_value(v)} is not a multiple of {step}"
    )


def _make_unique(wanted: Any, schema: Schema) -> Check:
    def holds(value: list[Any]) -> bool:
        return len({canonical(each) for each in value}) == len(value)

    if wanted is not True:
        return accept
    return _asserting(
        TYPE_CHECKS["array"], holds, "uniqueItems", lambda v: f"{format_value(v)} has the same item twice"
    )


def _make_pattern(pattern: Any, schema: Schema) -> Check:
    try:
        search = compile_pattern(pattern)
    except (BadPatternError, TypeError) as problem:
        raise NotPlainError(pattern) from problem
    return _asserting(
        TYPE_CHECKS["string"],
        search,
        "pattern",
        lambda v: f"{format_value(v)} does not match the pattern {format_value(pattern)}",
    )


def _make_format(name: Any, schema: Schema) -> Check:
    test = SUPPORTED_FORMATS.get(name) if isinstance(name, str) else None
    if test is None:
        return accept
    return _asserting(TYPE_CHECKS["string"], test, "format", lambda v: f"{format_value(v)} is not a valid {name}")


ASSERTIONS: dict[str, Maker] = {
    "enum": _make_enum,
    "const": _make_const,
    "minimum": _make_limit("minimum", lambda v, limit: v >= limit, "less than the minimum of"),
    "maximum": _make_limit("maximum", lambda v, limit: v <= limit, "greater than the maximum of"),
    "exclusiveMinimum": _make_limit("exclusiveMinimum", lambda v, limit: v > limit, "not greater than"),
    "exclusiveMaximum": _make_limit("exclusiveMaximum", lambda v, limit: v < limit, "not less than"),
    "minLength": _make_size("minLength", "string", lambda n, limit: n >= limit, "must have at least {} characters"),
    "maxLength": _make_size("maxLength", "string", lambda n, limit: n <= limit, "must have at most {} characters"),
    "minItems": _make_size("minItems", "array", lambda n, limit: n >= limit, "must have at least {} items"),
    "maxItems": _make_size("maxItems", "array", lambda n, limit: n <= limit, "must have at most {} items"),
    "minProperties": _make_size(
        "minProperties", "object", lambda n, limit: n >= limit, "must have at least {} properties"
    ),
    "maxProperties": _make_size(
        "maxProperties", "object", lambda n, limit: n <= limit, "must have at most {} properties"
    ),
    "multipleOf": _make_multiple,
    "uniqueItems": _make_unique,
    "pattern": _make_pattern,
    "format": _make_format,
}
"""Keyword to the function that makes its check from its value and its schema."""
