"""Which tools fit a few words best: BM25 over their names, servers, descriptions and parameters. The same words, the same order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from mainspring.lazy import lazy_re

if TYPE_CHECKING:
    from mainspring.tools import Tool

_WORD = lazy_re(r"[^\W\d_]+|\d+")
_CAMEL_BOUNDARY = lazy_re(r"(?<=[a-z])(?=[A-Z])")
_CJK_AND_THAI = lazy_re(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_NAME, _SERVER, _PARAMETER = 6, 2, 1  # how often a word of these counts, beside one of the description
_MAX_DESCRIPTION_CHARS = 2000
"""Characters of a description that are looked at: what a tool is for stands at the beginning."""
_PARAMETERS = 50
_K1, _B = 1.2, 0.75
_PREFIX = 0.5


class ToolIndex:
    """Ranks tools. What was read of a tool is kept for as long as it is the same tool."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, Counter[str]]] = {}

    def rank(self, tools: Sequence[Tool], query: str) -> list[Tool]:
        """The tools that have anything of the words, the best first; equally good ones in alphabetical order."""
        self._known = {t.name: self._read(t) for t in tools}
        wanted = sorted(set(tokenize(query)))
        documents = [self._known[t.name][1] for t in tools]
        lengths = [d.total() for d in documents]
        average = (sum(lengths) / len(lengths) if lengths else 0) or 1
        scores = [0.0] * len(tools)
        for word in wanted:
            counts = [_count(d, word) for d in documents]
            seen = sum(c > 0 for c in counts)
            rarity = math.log(1 + (len(tools) - seen + 0.5) / (seen + 0.5))
            for i, count in enumerate(counts):
                if count:
                    length = 1 - _B + _B * lengths[i] / average
                    scores[i] += rarity * count * (_K1 + 1) / (count + _K1 * length)
        found = [(-score, t.name, t) for score, t in zip(scores, tools, strict=True) if score > 0]
        return [t for _, _, t in sorted(found, key=lambda f: f[:2])]

    def _read(self, tool: Tool) -> tuple[Tool, Counter[str]]:
        known = self._known.get(tool.name)
        return known if known is not None and known[0] is tool else (tool, _tool_document(tool))


def _tool_document(tool: Tool) -> Counter[str]:
    server = tool.source.partition(":")[2]
    name = tool.name.removeprefix("mcp__")
    found: Counter[str] = Counter()
    for text, weight in (
        (name, _NAME),
        (tool.label, _NAME),
        (server, _SERVER),
        (tool.description[:_MAX_DESCRIPTION_CHARS], 1),
    ):
        for word in tokenize(text):
            found[word] += weight
    for key in _parameters(tool)[:_PARAMETERS]:
        for word in tokenize(str(key)):
            found[word] += _PARAMETER
    return found


def _parameters(tool: Tool) -> list[Any]:
    properties = tool.input_schema.get("properties")
    return list(cast("dict[Any, Any]", properties)) if isinstance(properties, dict) else []


def _count(document: Counter[str], word: str) -> float:
    """How often a word is there; one that only begins so counts half, once."""
    if word in document:
        return document[word]
    return _PREFIX if len(word) > 2 and any(other.startswith(word) for other in document) else 0


def tokenize(text: str) -> list[str]:
    """The words of a text: parts of names apart, without case and plural; of scripts without spaces, pairs of signs."""
    found: list[str] = []
    for word in _WORD.findall(_CAMEL_BOUNDARY.sub(" ", text)):
        word = word.casefold()
        if _CJK_AND_THAI.search(word) and len(word) > 2:
            found += [word[i : i + 2] for i in range(len(word) - 1)]
        else:
            found.append(_singularize(word))
    return found


def _singularize(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
