"""Text of skills on its way to a model: nothing hidden in it, and nothing that ends the envelope it stands in."""

from __future__ import annotations

import re

from mainspring.lazy import lazy_re

CONTENT, CATALOG = "skill_content", "available_skills"
"""The envelopes: of a skill's text, and of the list of skills."""

_HIDDEN = lazy_re(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    "|[\ufe00-\ufe0f]{2,}"
)
"""What nobody sees and a model reads: controls, marks that reorder text, tag characters, runs of variation selectors. Joiners stay:
scripts need them.
"""
_BREAKS = lazy_re("\r\n?|[\u2028\u2029\x85]")
_MARKS = lazy_re(rf"<(?=\s*[/\\]?\s*(?:{CONTENT}|{CATALOG}))", re.IGNORECASE)


def clean(text: str) -> str:
    """The text without hidden characters, its lines ended by line feeds alone."""
    return _HIDDEN.sub("", _BREAKS.sub("\n", text))


def inside(text: str) -> str:
    """The text as it may stand in an envelope: clean, and without a mark that would end or begin one."""
    return _MARKS.sub("&lt;", clean(text))


def line(text: str, limit: int = 1024) -> str:
    """The text on one line that can be read as nothing but text: clean, ``<`` and ``>`` escaped, cut to so many characters."""
    plain = " ".join(clean(text).split())
    if len(plain) > limit:
        plain = f"{plain[: limit - 1].rstrip()}…"
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def value(text: str) -> str:
    """The text as the value of an attribute."""
    return line(text).replace('"', "&quot;")
