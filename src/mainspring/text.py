"""Characters that a person cannot see, and how to show them."""

from __future__ import annotations

import unicodedata

_PLAIN = frozenset(" \n\t")


def odd_character(text: str) -> str | None:
    """The first character that may hide or reorder text, or that shells and people read differently; ``None`` if none.

    Control and format characters (the bidirectional ones among them), separators other than the plain space, lone
    surrogates, private and unassigned code points.
    """
    if text.isascii() and text.isprintable():
        return None
    for char in text:
        if char not in _PLAIN and unicodedata.category(char)[0] in "CZ":
            return char
    return None


def named(char: str) -> str:
    """A character as its code point, for messages: ``U+202E``."""
    return f"U+{ord(char):04X}"


def visible(text: str, *, limit: int | None = None) -> str:
    """``text`` with everything invisible written as an escape, on one line, so that nothing in it can pose as something else.

    Args:
        text: Anything that came from a model or a file.
        limit: Cut to so many characters, and say so.
    """
    shown = "".join(_escape(c) for c in text)
    if limit is not None and len(shown) > limit:
        return f"{shown[:limit]}… ({len(shown) - limit} more characters)"
    return shown


def _escape(char: str) -> str:
    if char == " " or (char.isprintable() and unicodedata.category(char)[0] not in "CZ"):
        return char
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def fold(part: str) -> str:
    """A component as rules that tighten see it."""
    return part.casefold() if part.isascii() else unicodedata.normalize("NFKC", part).casefold()
