"""Untrusted text made safe for a terminal: no control sequences, and only characters of a known width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from prompt_toolkit import utils
from prompt_toolkit.utils import get_cwidth

from mainspring.text import escape_invisible

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and other strings, where they end
    r"|\x1b[ -/]*[0-Z\\^-~]"  # short ones
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")
_RETURN = re.compile(r"\r(?!\n|$)")
_JOINED = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
_BLANKS = re.compile("[ \t\n]+")
_TAB = 4

_ASCII_REPLACEMENTS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u2500\u2501\u2504", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
        **dict.fromkeys("\u2022\u00b7\u25cf\u25e6\u2219", "*"),
        **dict.fromkeys("\u2502\u2503\u258c\u2590", "|"),
        **dict.fromkeys(
            "\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c\u2554\u2557\u255a\u255d\u256d\u256e\u256f\u2570\u253f\u2542\u257c\u257e",
            "+",
        ),
        "\u2588": "#",
        "\u2591": ".",
        "\u2026": "...",
        "\u2192": "->",
        "\u2190": "<-",
        "\u2713": "v",
        "\u2717": "x",
        "\u00a0": " ",
    }
)


_MEASURE: Callable[[str], int] = utils.__dict__["wcwidth"]


def _character_width(character: str) -> int:
    """Return the columns of a character, as the C libraries count them that tmux and most terminals use.

    Each half of a flag and each spacing mark takes one column. wcwidth counts two and none, which fits only terminals that measure
    whole clusters: in others, the cursor would be in the wrong place after such text.
    """
    if "\U0001f1e6" <= character <= "\U0001f1ff" or unicodedata.category(character) == "Mc":
        return 1
    return _MEASURE(character)


utils.__dict__["wcwidth"] = _character_width  # the screen and the input measure with it, too


def sanitize(text: str) -> str:
    """Remove terminal sequences, and spell out other control and invisible characters.

    A line that is overwritten after a carriage return is shown as a terminal would show it.
    """
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))
    return escape_invisible(text, prose=True)


def escape_all(text: str) -> str:
    """Spell out all invisible characters, for text that the user must approve: nothing is removed or overwritten."""
    return escape_invisible(_RETURN.sub(r"\\r", text) if "\r" in text else text, prose=True)


def strip_emoji_modifiers(text: str) -> str:
    """Remove joiners and variants of emoji, since terminals disagree about their width."""
    return text if text.isascii() else _JOINED.sub("", text)


def to_encoding(text: str, encoding: str = "ascii") -> str:
    """Convert a text to an encoding: ornaments become similar characters, others a question mark."""
    if text.isascii():
        return text
    return text.translate(_ASCII_REPLACEMENTS).encode(encoding, "replace").decode(encoding)


def expand_tabs(text: str) -> str:
    """Replace tabs with blanks."""
    return text.expandtabs(_TAB) if "\t" in text else text


def width(text: str) -> int:
    """Return the number of columns of a line."""
    return get_cwidth(text)


def truncate(text: str, columns: int, ellipsis: str = "...") -> str:
    """Truncate a line to a number of columns."""
    if width(text) <= columns:
        return text
    space = columns - width(ellipsis)
    if space <= 0:
        ellipsis, space = "", columns
    columns_used = 0
    for place, character in enumerate(text):
        columns_used += width(character)
        if columns_used > space:
            return text[:place] + ellipsis
    return text


def to_one_row(text: str, columns: int, make: Callable[[str], str] = sanitize) -> str:
    """Put untrusted text on one row."""
    return truncate(strip_emoji_modifiers(_BLANKS.sub(" ", make(text)).strip()), max(columns, 1))
