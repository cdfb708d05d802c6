"""Typed structs out of JSON that is not quite as promised: what fits is taken, the rest is left out."""

from __future__ import annotations

from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from mainspring.models.json_values import as_list, as_object

_S = TypeVar("_S", bound=Struct)


def fitted(value: object, kind: type[_S]) -> _S:
    """A struct out of an object. A field whose value has another type is as if it were not there; numbers may be texts.

    Args:
        value: Anything that JSON can hold.
        kind: A struct all of whose fields have defaults.
    """
    given = as_object(value) or {}
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        raw = given.get(field.encode_name)
        found = UNSET if raw is None else _fit(raw, field.type)
        if found is not UNSET:
            kept[field.name] = found
    return kind(**kept)


def _fit(raw: object, kind: Any) -> Any:
    """The value as this type; ``UNSET`` if it cannot be."""
    if get_origin(kind) in (Union, UnionType):
        found = (_fit(raw, option) for option in get_args(kind) if option is not type(None))
        return next((value for value in found if value is not UNSET), UNSET)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return UNSET if as_object(raw) is None else fitted(raw, kind)
    if get_origin(kind) is list:
        [item] = get_args(kind)
        fitting = [_fit(part, item) for part in as_list(raw)]
        return [part for part in fitting if part is not UNSET] if isinstance(raw, list) else UNSET
    try:
        return msgspec.convert(raw, cast("type[Any]", kind), strict=False)
    except (msgspec.ValidationError, OverflowError):
        return UNSET
