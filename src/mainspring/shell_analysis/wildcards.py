"""Wildcards inside one word or path component, matched against text that may contain unknown pieces.

A pattern marks its wildcards with characters that no command and no rule can contain, so that a quoted ``*`` is literal.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mainspring.globs import Dialect, translate_name

ANY_TEXT = "\x00"
"""In a pattern: any number of characters. In a text: an unknown piece, such as the value of a variable."""

ANY_CHAR = "\x01"
"""In a pattern: one character. In a text: an unknown piece without a slash, such as the match of a shell ``*``."""

VISIBLE = "\x04"
"""In a text: the same for a wildcard that matches no dot at the beginning of a name, the default of shells."""

HOME = "\x02"
"""The user's home folder: a piece that is known, but not here."""

CWD = "\x03"
"""In a text: the folder in which a command runs; known, but not here."""

WILDCARDS = frozenset((ANY_TEXT, ANY_CHAR, VISIBLE))
"""The marks that make a text non-literal."""

MARKED = Dialect(ANY_TEXT, ANY_CHAR, ".", special=False)
"""The syntax of a marked pattern."""

_STAND_INS = frozenset((*WILDCARDS, HOME, CWD))


def encode_wildcards(pattern: str) -> str:
    """Encode the ``*`` and ``?`` of a pattern as wildcards."""
    return pattern.replace("*", ANY_TEXT).replace("?", ANY_CHAR)


def hide_dotfiles(text: str) -> str:
    """Return a text whose wildcards match no name that begins with a dot."""
    return text.replace(ANY_CHAR, VISIBLE)


def is_glob(text: str) -> bool:
    """Return True if a text contains a wildcard that a shell expands."""
    return ANY_CHAR in text or VISIBLE in text


def has_unknown(text: str) -> bool:
    """Return True if a text contains a wildcard, an unknown piece, or a folder that is not known here."""
    return not _STAND_INS.isdisjoint(text)


def is_literal(text: str) -> bool:
    """Return True if a text contains no wildcard and no unknown piece."""
    return WILDCARDS.isdisjoint(text)


def fullmatch(pattern: str, text: str) -> bool:
    """Return True if a marked pattern matches the whole text."""
    if ANY_CHAR not in pattern and pattern.count(ANY_TEXT) < 2:  # compiling an expression takes longer
        start, many, end = pattern.partition(ANY_TEXT)
        fits = len(text) >= len(start) + len(end) and text.startswith(start) and text.endswith(end)
        return fits if many else pattern == text
    return _regex(pattern).fullmatch(text) is not None


@lru_cache(4096)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(translate_name(pattern, MARKED), re.DOTALL)


def may_match(pattern: str, text: str) -> bool:
    """Return True if a text with unknown pieces may match a marked pattern."""
    if not has_unknown(text):
        return fullmatch(pattern, text)
    if text.startswith(VISIBLE) and pattern.startswith("."):
        return False
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        i, j = state
        if i == len(pattern) and j == len(text):
            return True
        todo += _next_states(pattern[i : i + 1], text[j : j + 1], i, j)
    return False


def _next_states(pattern: str, text: str, i: int, j: int) -> list[tuple[int, int]]:
    many, unknown = pattern == ANY_TEXT, text in _STAND_INS if text else False
    following: list[tuple[int, int]] = []
    if many:
        following.append((i + 1, j))
        if text:
            following.append((i, j + 1))
    if unknown:
        following.append((i, j + 1))
        if pattern:
            following.append((i + 1, j))
    if pattern and text and not many and not unknown and pattern in (ANY_CHAR, text):
        following.append((i + 1, j + 1))
    return following
