"""JSON as hosts send it, whose shape nobody promised, and as they take it.

Typed structs out of JSON that is not quite as promised: what fits is taken, the rest is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from mainspring.messages import strip_surrogates

_encode = msgspec.json.Encoder().encode


DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a typed decoder raises for JSON of another shape, for bytes that are no text, and for what is nested without end."""


def to_json(value: Any) -> bytes:
    """JSON of plain values; a lone surrogate, which has no UTF-8 form, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(strip_surrogates(value))


def parse_object_leniently(data: bytes) -> dict[str, Any]:
    """The JSON object of ``data``, also with control characters in strings, bad UTF-8 or half surrogates in it.

    Raises:
        ValueError: If it is no JSON object, or one that is nested without end.
    """
    try:
        value = as_dict(json.loads(data.decode("utf-8", "replace"), strict=False))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if value is None:
        raise ValueError("no JSON object")
    return value


def as_dict(value: object) -> dict[str, Any] | None:
    """The value if it is an object."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if value is None or isinstance(value, str):  # what it mostly is else; asking for a Mapping costs more
        return None
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_dicts(value: object) -> list[dict[str, Any]]:
    """The objects in an array; empty if it is none."""
    return [item for item in map(as_dict, as_list(value)) if item is not None]


def as_number(value: object) -> float | None:
    """The value if it is a finite number (true and false are none)."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_int(value: object) -> int | None:
    """The value as a whole number, also out of a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


_S = TypeVar("_S", bound=Struct)


def convert_loosely(value: object, kind: type[_S]) -> _S:
    """A struct out of an object. A field whose value has another type is as if it were not there; numbers may be texts.

    Args:
        value: Anything that JSON can hold.
        kind: A struct all of whose fields have defaults.
    """
    given = as_dict(value) or {}
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        raw = given.get(field.encode_name)
        found = UNSET if raw is None else _convert_value(raw, field.type)
        if found is not UNSET:
            kept[field.name] = found
    return kind(**kept)


def _convert_value(raw: object, kind: Any) -> Any:
    """The value as this type; ``UNSET`` if it cannot be."""
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
