"""Read JSON whose shape is not guaranteed, and write JSON that hosts accept.

Typed structs are converted leniently: matching fields are used, the rest is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from mainspring.messages import strip_surrogates

_encode = msgspec.json.Encoder().encode


DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Exceptions of a typed decoder for JSON of another shape, for invalid UTF-8, and for excessive nesting."""


def to_json(value: Any) -> bytes:
    """Encode plain values as JSON; a lone surrogate, which has no UTF-8 form, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(strip_surrogates(value))


def parse_object_leniently(data: bytes) -> dict[str, Any]:
    """Return the JSON object of ``data``, even with control characters in strings, invalid UTF-8, or lone surrogates.

    Raises:
        ValueError: The data is not a JSON object, or it is nested too deeply.
    """
    try:
        import json

        value = as_dict(json.loads(data.decode("utf-8", "replace"), strict=False))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if value is None:
        raise ValueError("not a JSON object")
    return value


def as_dict(value: object) -> dict[str, Any] | None:
    """Return the value if it is an object."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if value is None or isinstance(value, str):  # The common case; an isinstance check for Mapping is slower.
        return None
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[Any]:
    """Return the value if it is an array, else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in an array; empty if the value is not an array."""
    return [item for item in map(as_dict, as_list(value)) if item is not None]


def as_number(value: object) -> float | None:
    """Return the value if it is a finite number (not a boolean)."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_int(value: object) -> int | None:
    """Return the value as an integer, also from a string."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


_S = TypeVar("_S", bound=Struct)


def convert_loosely(value: object, kind: type[_S]) -> _S:
    """Convert an object to a struct. A field whose value has another type is ignored; numbers may be strings.

    Args:
        value: Any JSON value.
        kind: Struct type with defaults for all fields.
    """
    given = as_dict(value) or {}
    converted: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        raw = given.get(field.encode_name)
        found = UNSET if raw is None else _convert_value(raw, field.type)
        if found is not UNSET:
            converted[field.name] = found
    return kind(**converted)


def _convert_value(raw: object, kind: Any) -> Any:
    """Return the value as this type, or ``UNSET`` if that is impossible."""
    if get_origin(kind) in (Union, UnionType):
        found = (_convert_value(raw, option) for option in get_args(kind) if option is not type(None))
        return next((value for value in found if value is not UNSET), UNSET)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return UNSET if as_dict(raw) is None else convert_loosely(raw, kind)
    if get_origin(kind) is list:
        [item] = get_args(kind)
        fitting = [_convert_value(part, item) for part in as_list(raw)]
        return [part for part in fitting if part is not UNSET] if isinstance(raw, list) else UNSET
    try:
        return msgspec.convert(raw, cast("type[Any]", kind), strict=False)
    except (msgspec.ValidationError, OverflowError):
        return UNSET
