"""What names stand for that a line sets itself, so that ``x=private; cat $x/a`` is seen as what it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, product

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.words import Word

MOST = 24
"""How many readings of one command are looked at; one with more is not judged."""

_ROUNDS = 3
_REFERENCE = lazy_re(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|\{([A-Za-z_]\w*)[^}]*\}|.)", re.DOTALL)

Values = Mapping[str, tuple[str, ...]]


def resolved(assigned: Iterable[tuple[str, Word]]) -> Values:
    """The values that each name may have, as far as they are known.

    Args:
        assigned: What the line sets, wherever it stands in it.
    """
    given = list(assigned)
    values: dict[str, tuple[str, ...]] = {}
    for _ in range(_ROUNDS if given else 0):
        for name, word in given:
            found = (
                [word.text] if word.literal else [text for w in filled((word,), values) or () for text in (w[0].text,)]
            )
            known = (*values.get(name, ()), *(t for t in found if wildcards.is_literal(t) and t))
            values[name] = tuple(dict.fromkeys(known))[: MOST + 1]
    return {name: texts for name, texts in values.items() if texts}


def filled(words: tuple[Word, ...], values: Values) -> list[tuple[Word, ...]] | None:
    """The words with known values in place of names, for each combination of values.

    Returns:
        None of them if no name is known; ``None`` if there are too many.
    """
    used: dict[str, None] = {}
    for word in words:
        if wildcards.MANY in word.text:
            used.update(dict.fromkeys(n for n in _names(word) if n in values))
    if not used:
        return []
    combinations = list(islice(product(*(values[name] for name in used)), MOST + 1))
    if len(combinations) > MOST:
        return None
    return [tuple([_with(w, dict(zip(used, c, strict=True))) for w in words]) for c in combinations]


def _names(word: Word) -> list[str]:
    return ["".join(groups) for groups in _REFERENCE.findall(word.source)]


def _with(word: Word, values: Mapping[str, str]) -> Word:
    names = _names(word)
    pieces = word.text.split(wildcards.MANY)
    if len(pieces) == 1 or len(names) != len(pieces) - 1:
        return word
    text = pieces[0]
    for name, piece in zip(names, pieces[1:], strict=True):
        text += values.get(name, wildcards.MANY) + piece
    return Word(text, word.source, word.splits)
