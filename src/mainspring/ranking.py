"""Rank texts by the words that they share with a query, with BM25: rare words have more weight, long texts less."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from mainspring.lazy import lazy_re

_WORD = lazy_re(r"[^\W\d_]+|\d+")
_CAMEL_BOUNDARY = lazy_re(r"(?<=[a-z])(?=[A-Z])")
_CJK_AND_THAI = lazy_re(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_K1, _B = 1.2, 0.75


def score_texts(query: Iterable[str], texts: Sequence[Counter[str]], prefix_weight: float = 0) -> list[float]:
    """Return the score of each text for a query; 0 if they share no words.

    Args:
        query: Words of the query.
        texts: Words of each text, with their counts or weights.
        prefix_weight: Weight of a word that only begins with a word of the query, at most once for each text.
    """
    lengths = [text.total() for text in texts]
    average = (sum(lengths) / len(lengths) if lengths else 0) or 1
    scores = [0.0] * len(texts)
    for word in sorted(set(query)):
        counts = [text[word] or (prefix_weight and _count_prefix(text, word, prefix_weight)) for text in texts]
        seen = sum(count > 0 for count in counts)
        rarity = math.log(1 + (len(texts) - seen + 0.5) / (seen + 0.5))
        for i, count in enumerate(counts):
            if count:
                length = 1 - _B + _B * lengths[i] / average
                scores[i] += rarity * count * (_K1 + 1) / (count + _K1 * length)
    return scores


def _count_prefix(text: Counter[str], word: str, weight: float) -> float:
    return weight if len(word) > 2 and any(other.startswith(word) for other in text) else 0


def tokenize(text: str) -> list[str]:
    """Split a text into words: parts of names, without case and plural; pairs of characters in scripts without spaces."""
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
