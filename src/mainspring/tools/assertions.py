"""JSON JsonSchema keywords that apply to a single value: enums, limits, sizes, patterns, and formats."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mainspring.tools.patterns import BadPatternError, compile_pattern
from mainspring.tools.problems import Problem, canonical_arguments, format_value, is_list

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_URI_TEXT = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_AUTHORITY = r"(?:[^@\[\]]*@)?(?:\[(?P<ip>[^\[\]]*)\]|[^@:\[\]]*)(?::[0-9]*)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_IPV4 = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}"


def _is_email(text: str) -> bool:
    local, at, domain = text.rpartition("@")
    if not at or len(local) > 64 or len(domain) > 255 or not re.fullmatch(_LOCAL, local):
        return False
    if domain.startswith("[") and domain.endswith("]"):
        inner = domain[1:-1]
        return _is_ipv6(inner[5:]) if inner.lower().startswith("ipv6:") else _is_ipv4(inner)
    return re.fullmatch(_DOMAIN, domain) is not None


def _is_uri(text: str) -> bool:
    scheme = re.match(_SCHEME, text)
    if not scheme or not re.fullmatch(_URI_TEXT, text):
        return False
    rest, _, fragment = text[scheme.end() :].partition("#")
    if "#" in fragment:
        return False
    if not rest.startswith("//"):
        return "[" not in rest and "]" not in rest
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    tail = rest[2 + len(authority) :]
    found = re.fullmatch(_AUTHORITY, authority)
    if not found or "[" in tail or "]" in tail:
        return False
    host = found["ip"]
    return (
        host is None or _is_ipv6(host) or re.fullmatch(r"v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+", host) is not None
    )


def _is_date(text: str) -> bool:
    if not re.fullmatch(_DATE, text):
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return 1 <= day <= days


def _is_time(text: str) -> bool:
    found = re.fullmatch(_TIME, text)
    if not found:
        return False
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    away_hour, away_minute = int(found[5] or 0), int(found[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or away_hour > 23 or away_minute > 59:
        return False
    if second < 60:
        return True
    away = (away_hour * 60 + away_minute) * (-1 if found[4] == "-" else 1)
    return (hour * 60 + minute - away) % (24 * 60) == 23 * 60 + 59  # a leap second ends a UTC day


def _is_date_time(text: str) -> bool:
    return len(text) > 11 and text[10] in "Tt" and _is_date(text[:10]) and _is_time(text[11:])


def _is_uuid(text: str) -> bool:
    return re.fullmatch(_UUID, text) is not None


def _is_ipv4(text: str) -> bool:
    return re.fullmatch(_IPV4, text) is not None


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(text)
    except (AddressValueError, ValueError):
        return False
    return "%" not in text


SUPPORTED_FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "email": _is_email,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "time": _is_time,
    "uri": _is_uri,
    "uuid": _is_uuid,
}
"""Test for strings of each format."""


Check = Callable[[Any], list[Problem] | None]
"""Function that returns the problems of a value; `None` or empty if the value is valid.

Paths are relative to the value.
"""


JsonSchema = Mapping[str, Any]


class NotPlainError(Exception):
    """The schema requires the full validator."""


def is_integer(value: Any) -> bool:
    """Return True if a value is an integer in JSON JsonSchema: `5` and `5.0` are, `true` is not."""
    return (isinstance(value, int) and value is not True and value is not False) or (
        isinstance(value, float) and value.is_integer()
    )


def is_number(value: Any) -> bool:
    """Return True if a value is a number in JSON JsonSchema; `true` is not."""
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
"""Test for each type name."""


def accept(value: Any) -> None:
    """Accept every value."""
    return None


def require_list(value: Any, at_least: int = 0) -> list[Any]:
    """Return the value if it is a list with an allowed length.

    Raises:
        NotPlainError: The value is not such a list, so the schema is not valid.
    """
    if not is_list(value) or len(value) < at_least:
        raise NotPlainError(value)
    return value


Maker = Callable[[Any, JsonSchema], Check]


def _asserting(
    applies: Callable[[Any], bool], is_valid: Callable[[Any], bool], keyword: str, says: Callable[[Any], str]
) -> Check:
    def check(value: Any) -> list[Problem] | None:
        if not applies(value) or is_valid(value):
            return None
        return [Problem((), keyword, says(value))]

    return check


def _always(value: Any) -> bool:
    return True


def _make_enum(allowed: Any, schema: JsonSchema) -> Check:
    values = require_list(allowed)
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
    known = frozenset(canonical_arguments(each) for each in values)
    return _asserting(
        _always, lambda v: canonical_arguments(v) in known, "enum", lambda v: f"{format_value(v)} is not one of {words}"
    )


def _make_const(only: Any, schema: JsonSchema) -> Check:
    requested = canonical_arguments(only)
    return _asserting(
        _always,
        lambda v: canonical_arguments(v) == requested,
        "const",
        lambda v: f"{format_value(v)} is not {format_value(only)}",
    )


def _make_limit(keyword: str, is_valid: Callable[[Any, Any], bool], says: str) -> Maker:
    def make(limit: Any, schema: JsonSchema) -> Check:
        if not is_number(limit):
            raise NotPlainError(limit)
        return _asserting(
            is_number,
            lambda v: is_valid(v, limit),
            keyword,
            lambda v: f"{format_value(v)} is {says} {format_value(limit)}",
        )

    return make


def _make_size(keyword: str, kind: str, is_valid: Callable[[int, int], bool], says: str) -> Maker:
    applies = TYPE_CHECKS[kind]

    def make(limit: Any, schema: JsonSchema) -> Check:
        if not is_integer(limit) or limit < 0:
            raise NotPlainError(limit)
        return _asserting(
            applies,
            lambda v: is_valid(len(v), limit),
            keyword,
            lambda v: f"{format_value(v)} {says.format(int(limit))}, not {len(v)}",
        )

    return make


def _make_multiple(step: Any, schema: JsonSchema) -> Check:
    if not isinstance(step, int) or step <= 0 or isinstance(step, bool):
        raise NotPlainError(step)
    return _asserting(
        is_number, lambda v: v % step == 0, "multipleOf", lambda v: f"{format_value(v)} is not a multiple of {step}"
    )


def _make_unique(expected: Any, schema: JsonSchema) -> Check:
    def has_unique_items(value: list[Any]) -> bool:
        return len({canonical_arguments(each) for each in value}) == len(value)

    if expected is not True:
        return accept
    return _asserting(
        TYPE_CHECKS["array"], has_unique_items, "uniqueItems", lambda v: f"{format_value(v)} has the same item twice"
    )


def _make_pattern(pattern: Any, schema: JsonSchema) -> Check:
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


def _make_format(name: Any, schema: JsonSchema) -> Check:
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
"""Function for each keyword that creates its check from the keyword's value and the schema."""
