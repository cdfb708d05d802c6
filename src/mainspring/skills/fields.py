"""The fields of a skill's head as values, whatever form its author gave them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from mainspring.lazy import lazy_re
from mainspring.skills.envelope import clean

MOST_ITEMS = 200
"""Items of a list that are looked at."""

_LONGEST_ITEM = 1024
_SENTENCE = lazy_re(r"[.!?](?=\s|$)|[。！？]")
_SHORT = lazy_re(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|Dr|Mr|Ms|St|No|fig|ca|bzw|z\.B|u\.a)|(?:^|\s)\w)$", re.IGNORECASE
)
_BRIEF = 200
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def snake(key: str) -> str:
    """A key as ``snake_case``, whether it is written with hyphens or in camelCase."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip()).replace("-", "_").lower()


def text_of(value: Any) -> str:
    """Text on one line, without hidden characters; empty for anything but text."""
    return " ".join(clean(value).split()) if isinstance(value, str) else ""


def texts_of(value: Any) -> tuple[str, ...]:
    """A list of texts: a list, or one text with commas in it, in brackets or not. Each once."""
    return tuple(dict.fromkeys(t for each in _items(value) if (t := text_of(each)[:_LONGEST_ITEM])))


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)[:MOST_ITEMS]
    if not isinstance(value, str):
        return []
    return [
        part.strip().strip("\"'") for part in split_outside(value.strip().removeprefix("[").removesuffix("]"), ",")
    ][:MOST_ITEMS]


def rules_of(value: Any) -> tuple[str, ...]:
    """Names of tools, some with a pattern in parentheses: a list, or one text with blanks or commas between them."""
    if isinstance(value, list):
        texts = [each for each in cast("list[Any]", value)[:MOST_ITEMS] if isinstance(each, str)]
        return tuple(dict.fromkeys(t for each in texts for t in rules_of(each)))
    parts = split_outside(text_of(value).removeprefix("[").removesuffix("]"), ", ")
    return tuple(dict.fromkeys(p for part in parts if (p := part.strip().strip("\"'"))))


def split_outside(text: str, marks: str) -> Iterator[str]:
    """The pieces of a text between any of the marks, where these do not stand in parentheses or quotes."""
    start, depth, quote = 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and depth == 0 and not text[start:at].strip():
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth = max(depth - 1, 0)
        elif char in marks and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def flag_of(value: Any) -> bool | None:
    """Yes or no, in any of YAML's spellings; ``None`` for anything else."""
    word = text_of(value).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def map_of(value: Any) -> dict[str, Any]:
    """A map with its keys as text; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    pairs = list(cast("dict[Any, Any]", value).items())[:MOST_ITEMS]
    return {name: v for k, v in pairs if (name := text_of(str(k) if not isinstance(k, (list, dict, tuple)) else ""))}


def note_of(value: Any) -> str | None:
    """A value of ``metadata`` as text; a list is put on one line, and what is nested deeper is left out."""
    if isinstance(value, str):
        return text_of(value)[:_LONGEST_ITEM]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if all(isinstance(each, str) for each in items):
            return ", ".join(text_of(each)[:100] for each in items[:20])[:_LONGEST_ITEM]
    return None


def name_of(text: str) -> str:
    """What a skill of this name is called here: lower-case letters and digits, with single hyphens between them."""
    plain = unicodedata.normalize("NFKC", text).strip().lower()
    return "-".join(re.findall(r"[^\W_]+", plain))


def first_sentence(text: str) -> str:
    """The first sentence of a text, on one line and cut where it gets long."""
    line = " ".join(text.split())
    for end in _SENTENCE.finditer(line):
        if not _SHORT.search(line[: end.start()]):
            line = line[: end.end()]
            break
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1].rstrip()}…"
