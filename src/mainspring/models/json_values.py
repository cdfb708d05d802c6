"""Values out of JSON whose shape nobody promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast


def as_object(value: object) -> dict[str, Any] | None:
    """The value if it is an object."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
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
