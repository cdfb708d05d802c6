"""JSON as hosts send it, whose shape nobody promised, and as they take it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from mainspring.messages import strip_surrogates

_encode = msgspec.json.Encoder().encode

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a typed decoder raises for JSON of another shape, for bytes that are no text, and for what is nested without end."""


def to_json(value: Any) -> bytes:
    """JSON of plain values; a lone surrogate, which has no UTF-8 form, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(strip_surrogates(value))


def loose_object(data: bytes) -> dict[str, Any]:
    """The JSON object of ``data``, also with control characters in strings, bad UTF-8 or half surrogates in it.

    Raises:
        ValueError: If it is no JSON object, or one that is nested without end.
    """
    try:
        value = as_object(json.loads(data.decode("utf-8", "replace"), strict=False))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if value is None:
        raise ValueError("no JSON object")
    return value


def as_object(value: object) -> dict[str, Any] | None:
    """The value if it is an object."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if value is None or isinstance(value, str):  # what it mostly is else; asking for a Mapping costs more
        return None
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_objects(value: object) -> list[dict[str, Any]]:
    """The objects in an array; empty if it is none."""
    return [item for item in map(as_object, as_list(value)) if item is not None]


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
