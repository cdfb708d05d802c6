"""One value as its type asks: scalars are turned into each other, and what does not fit is said in plain words."""

from __future__ import annotations

import difflib
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from mainspring.lazy import lazy_re

_SUFFIX = lazy_re(r" - at `(?:key in )?\$(.*)`$")
_STEP = lazy_re(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_WORDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "an object",
}


class FitError(ValueError):
    """A value does not fit; the text goes on from the setting's name.

    Attributes:
        where: The part of the value that is meant, as keys and indices.
    """

    def __init__(self, text: str, where: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.where = tuple(where)


def fit(value: Any, kind: Any) -> Any:
    """A value as the type asks, numbers and texts turned into each other; ``None`` where it sets nothing.

    Raises:
        FitError: If it does not fit.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    choices = choices_of(kind)
    if get_origin(kind) is tuple:
        return _listed(value, choices, kind)
    if choices:
        return _chosen(value, choices)
    if isinstance(value, int | float) and not isinstance(value, bool) and kind == str | None:
        value = str(value)
    if get_origin(kind) is dict and isinstance(value, dict):
        return _named(cast("dict[str, Any]", value), kind)
    try:
        fitted = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise FitError(*_reason(str(error))) from None
    return fitted.strip() if isinstance(fitted, str) else fitted


def _named(value: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Things by name, one after the other, so that the one that is wrong is named."""
    inner = get_args(kind)[1]
    fitted: dict[str, Any] = {}
    for name, item in value.items():
        try:
            fitted[name] = msgspec.convert(item, inner, strict=False)
        except msgspec.ValidationError as error:
            text, where = _reason(str(error))
            raise FitError(f"{_dotted([name])} {text.removeprefix('in ')}", [name, *where]) from None
    return fitted


def choices_of(kind: Any) -> tuple[str, ...]:
    """The values that a type names one by one, itself or as those of its items; none if it does not."""
    origin = get_origin(kind)
    if origin is Literal:
        return tuple(str(value) for value in get_args(kind))
    if origin in {tuple, Union, types.UnionType}:
        return next((found for inner in get_args(kind) if (found := choices_of(inner))), ())
    return ()


def _listed(value: Any, choices: Sequence[str], kind: Any) -> tuple[Any, ...]:
    if float in get_args(kind):
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise FitError(*_reason(str(error))) from None
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise FitError(f"must be a list of texts, but {item!r} is none")
    texts = tuple([item.strip() for item in items if item.strip()])
    return tuple([_chosen(text, choices) for text in texts]) if choices else texts


def _chosen(value: Any, choices: Sequence[str]) -> str:
    if value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise FitError(f"must be one of {', '.join(choices)}, not {value!r}{hint}")


def _reason(text: str) -> tuple[str, list[str]]:
    """What msgspec says, as the rest of a sentence, and the part of the value that it means."""
    match = _SUFFIX.search(text)
    where = [name or index for name, index in _STEP.findall(match.group(1))] if match else []
    text = text[: match.start()] if match else text
    text = text.replace(" | null", "").replace("Expected ", "must be ").replace(", got ", ", not ")
    for word, plain in _WORDS.items():
        text = text.replace(word, plain)
    text = text.replace("`null`", "null").replace("`", "")
    if text.startswith("Object "):
        text = (
            text.removeprefix("Object ")
            .replace("missing required field", "needs")
            .replace("contains unknown field", "has no")
        )
    return (f"{_dotted(where)} {text}" if where else text), where


def _dotted(where: Sequence[str]) -> str:
    return (
        "in "
        + "".join(f"[{step}]" if step.isdecimal() or step == "..." else f".{step}" for step in where).lstrip(".")
        + ":"
    )
