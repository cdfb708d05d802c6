"""JSON out of an answer in text: all of it, in a code fence, or with words around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mainspring.lazy import lazy_re

_FENCE = lazy_re(r"```[ \t]*(?:json[c5]?|javascript|js)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder()
_MOST_STARTS = 200
"""Places tried in a long text of prose; each costs at most one pass over what looks like JSON there."""


def json_values(text: str) -> list[Any]:
    """The JSON values that a text holds, from the surest place: the whole text, else code fences, else what stands in prose.

    In prose only objects and lists count, and of nested ones the outermost.
    """
    whole = _value(text)
    if whole is not _NOTHING:
        return [whole]
    fenced = [value for body in _FENCE.findall(text) if (value := _value(body)) is not _NOTHING]
    return fenced or list(_scattered(text))


class _Nothing:
    """The mark of text that is no JSON; ``None`` is a value."""


_NOTHING = _Nothing()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _scattered(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_MOST_STARTS):
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value
