"""Wildcards inside one word or path component, matched against text that may hold unknown pieces.

A pattern marks its wildcards with characters that no command and no rule can hold, so that a quoted ``*`` stays a star.
"""

from __future__ import annotations

import re
from functools import lru_cache

ANY_TEXT = "\x00"
"""In a pattern: any number of characters. In a text: an unknown piece, such as the value of a variable."""

ANY_CHAR = "\x01"
"""In a pattern: one character. In a text: an unknown piece without a slash, such as what a ``*`` of the shell stands for."""

HOME = "\x02"
"""The user's home folder: a piece that is known, but not here."""

CWD = "\x03"
"""In a text: the folder that a command runs in; known, but not here."""

WILDCARDS = frozenset((ANY_TEXT, ANY_CHAR))
"""What makes a text other than literal."""

_STAND_INS = frozenset((ANY_TEXT, ANY_CHAR, HOME, CWD))


def encode_wildcards(pattern: str) -> str:
    """A pattern with its ``*`` and ``?`` as wildcards."""
    return pattern.replace("*", ANY_TEXT).replace("?", ANY_CHAR)


def is_literal(text: str) -> bool:
    """Whether nothing in it is a wildcard or unknown."""
    return WILDCARDS.isdisjoint(text)


def fullmatch(pattern: str, text: str) -> bool:
    """Whether a marked pattern matches all of a text."""
    return _regex(pattern).fullmatch(text) is not None


def to_regex(pattern: str) -> str:
    """A marked pattern as a regular expression."""
    return "".join(".*" if c == ANY_TEXT else "." if c == ANY_CHAR else re.escape(c) for c in pattern)


@lru_cache(4096)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(to_regex(pattern), re.DOTALL)


def may_match(pattern: str, text: str) -> bool:
    """Whether a text with unknown pieces can be something that a marked pattern matches."""
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


def _next_states(wanted: str, text: str, i: int, j: int) -> list[tuple[int, int]]:
    many, unknown = wanted == ANY_TEXT, text in _STAND_INS if text else False
    following: list[tuple[int, int]] = []
    if many:
        following.append((i + 1, j))
        if text:
            following.append((i, j + 1))
    if unknown:
        following.append((i, j + 1))
        if wanted:
            following.append((i + 1, j))
    if wanted and text and not many and not unknown and wanted in (ANY_CHAR, text):
        following.append((i + 1, j + 1))
    return following
