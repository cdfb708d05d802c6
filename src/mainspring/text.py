"""Text utilities: escapes of invisible characters for terminals, dialogs, and lists, lengths, plural forms, similar names, and snake_case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache

MAX_MARKS = 4
"""Maximum combining marks of a character; more of them cover the lines around it."""


_PLAIN = frozenset(" \n\t")
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_IGNORABLE = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF, 0xFFA0),
    *(*range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070)),
    *(*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFFC), *range(0x1BCA0, 0x1BCA4), *range(0x1D159, 0x1D15A)),
    *range(0x1D173, 0x1D17B),
)
"""Characters that Unicode allows to render as nothing, and characters that look blank but are not spaces; see `_SUPPLEMENT`."""
_SUPPLEMENT = ("\U000e0000", "\U000e0fff")
"""First and last of 4096 more: tags and variation selectors. As a set they would take half a megabyte of every process."""
_HIDDEN = frozenset([chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), *_IGNORABLE)])
_DRAWN = frozenset(
    [
        *map(chr, (0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)),
        *map(chr, (*range(0x600, 0x606), *range(0x13430, 0x13440))),
    ]
)
"""Format characters that are visible: signs around Arabic numbers, and hieroglyph arrangement."""
_JOINED_SCRIPTS = (
    *((0x600, 0xDFF), (0xF00, 0x109F), (0x1780, 0x18AF), (0x1A20, 0x1BFF), (0xA800, 0xABFF)),
    *((0xFB50, 0xFDFF), (0xFE70, 0xFEFE), (0x10A00, 0x11FFF)),
)
"""First and last code points of the scripts that spell words with joiners: Arabic, Indic scripts, and others."""
_EMOJI_AMONG_LETTERS = "\u203c\u2049\u2139\u3030\u303d"
_KEYCAP = "\u20e3"
_SUSPECT = (
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u0300-\u036f\u0483-\u0489\u0590-\u1dff\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u20d0-\u20ff\u2800\u2ce0-\u2dff\u302a-\u302f\u3099\u309a\u3164\ua66f-\uabff\ud800-\udfff\ufb1e\ufe00-\ufe2f\ufeff"
    "\uffa0\ufff0-\ufffb\U00010000-\U0001efff\U0001fb00-\U0010ffff]"
)
"""Ranges that contain all invisible characters and marks: most text has none of them."""


def find_invisible(text: str) -> str | None:
    """Return the first character that may hide or reorder text, or that shells and users read differently; ``None`` if none.

    Control and format characters (including bidirectional ones), separators other than the plain space, lone surrogates, private
    and unassigned code points, and characters that render as nothing or as a blank.
    """
    if text.isascii() and text.isprintable():
        return None
    for char in dict.fromkeys(text):
        if (
            char not in _PLAIN
            and char not in _SELECTORS
            and (_is_ignorable(char) or unicodedata.category(char)[0] in "CZ")
        ):
            return char
    return None


def code_point(char: str) -> str:
    """Return a character as its code point, for messages: ``U+202E``."""
    return f"U+{ord(char):04X}"


def escape_invisible(text: str, *, limit: int | None = None, prose: bool = False, before: str = "") -> str:
    """Return ``text`` with all invisible characters escaped, so that nothing in it can look like something else.

    Names, commands, and rules become one line of printable characters and plain spaces. In prose, lines and tabs stay, and so do
    characters that writing needs: spaces of all widths, joiners in the scripts that spell words with them and in emoji, and the
    variation selectors of emoji. Marks that change the direction of text are escaped in both: a terminal orders mixed text
    without them.

    Args:
        text: Any text from a model, a file, or a program.
        limit: Maximum number of characters; a note replaces the rest.
        prose: Whether it is running text.
        before: The end of the previous text, if this continues it.
    """
    shown = text
    if not text.isascii() or not text.isprintable():
        if not prose:
            shown = _name(text)
        elif _suspects().search(text):
            shown = _prose(text, before[-1 - MAX_MARKS :])
    return shown if limit is None else truncate_end(shown, limit, "… ({more} more characters)")


def visible_json(text: str) -> str:
    """Return JSON text with the same value in which invisible characters in strings are escaped."""
    if text.isascii() or not _suspects().search(text):
        return text
    out: list[str] = []
    marks = 0
    for char in text:
        kind = _kind(char)
        marks = _marks_after(kind, char, marks)
        is_shown = char <= "\x7e" or (kind != "hidden" and (kind != "mark" or marks <= MAX_MARKS))
        out.append(char if is_shown else escape_as_json(char))
    return "".join(out)


@cache
def _suspects() -> re.Pattern[str]:
    return re.compile(_SUSPECT)


def _name(text: str) -> str:
    kinds = {char: _kind(char) for char in set(text)}
    if "mark" not in kinds.values():  # No character depends on those before it.
        hidden = {ord(c): _escape(c) for c, kind in kinds.items() if c != " " and (kind or not c.isprintable())}
        return text.translate(hidden) if hidden else text
    out: list[str] = []
    marks = 0
    for char in text:
        kind = _kind(char)
        marks = _marks_after(kind, char, marks)
        is_shown = char == " " or (char.isprintable() and kind in ("", "mark") and marks <= MAX_MARKS)
        out.append(char if is_shown else _escape(char))
    return "".join(out)


def _prose(text: str, before: str) -> str:
    text = text.replace("\r\n", "\n").removesuffix("\r")  # its line feed may be in the next piece
    out: list[str] = []
    marks = 0
    for char in before:
        marks = _marks_after(_kind(char), char, marks)
    previous = before[-1:]
    for at, char in enumerate(text):
        kind = _kind(char)
        if not kind:
            marks = 0
            out.append(char)
            previous = char
            continue
        marks = _marks_after(kind, char, marks)
        if char in "\n\t" or kind == "space" or (kind == "mark" and marks <= MAX_MARKS):
            out.append(char)
        elif kind == "hidden" and _is_writing(char, previous, text[at + 1 : at + 2]):
            out.append(char)
        else:
            out.append(_escape(char))
        previous = char
    return "".join(out)


def _marks_after(kind: str, char: str, marks: int) -> int:
    return marks + 1 if kind == "mark" else marks if kind == "hidden" and char not in "\n\t" else 0


def _is_writing(char: str, previous: str, following: str) -> bool:
    """Return True if an invisible character has its proper function at this position."""
    if not previous:
        return False
    if char in _SELECTORS:
        return _is_emoji(previous) or (previous in "#*0123456789" and following == _KEYCAP)
    if char in _JOINERS:
        if char == "\u200d" and (_is_emoji(previous) or previous == "\ufe0f"):
            return not following or _is_emoji(following)
        return _is_joined(previous)
    return "\u180b" <= char <= "\u180f" and char != "\u180e" and "\u1820" <= previous <= "\u18aa"


def _is_emoji(char: str) -> bool:
    return char > "\x7f" and (unicodedata.category(char)[0] == "S" or char in _EMOJI_AMONG_LETTERS)


def _is_joined(char: str) -> bool:
    code = ord(char)
    return unicodedata.category(char)[0] in "LM" and any(first <= code <= last for first, last in _JOINED_SCRIPTS)


@lru_cache(4096)
def _kind(char: str) -> str:
    if char == " ":
        return ""
    if _is_hidden(char):
        return "hidden"
    category = unicodedata.category(char)
    return {"Z": "space"}.get(category[0], "mark" if category in ("Mn", "Me") else "")


def _is_ignorable(char: str) -> bool:
    return char in _HIDDEN or _SUPPLEMENT[0] <= char <= _SUPPLEMENT[1]


def _is_hidden(char: str) -> bool:
    category = unicodedata.category(char)
    return _is_ignorable(char) or category == "Cs" or (category == "Cf" and char not in _DRAWN)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def escape_as_json(char: str) -> str:
    """Return the escape sequence of a character in JSON: two of them for one that UTF-16 writes as a pair."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2)])


def fold(part: str) -> str:
    """Return a component in the form that restrictive rules compare."""
    return part.casefold() if part.isascii() else unicodedata.normalize("NFKC", part).casefold()


def truncate_end(text: str, limit: int, mark: str = "…") -> str:
    """Return at most ``limit`` characters of a text; a mark follows the start of a longer one.

    In the mark, ``{size}`` is the number of characters of the text, and ``{more}`` the number of removed ones.
    """
    return text if len(text) <= limit else text[:limit] + mark.format(size=len(text), more=len(text) - limit)


def truncate_to_fit(text: str, limit: int, mark: str = "…", *, strip: bool = False) -> str:
    """Return a text of at most ``limit`` characters, including the mark; ``strip`` removes blanks before the mark."""
    if len(text) <= limit:
        return text
    start = text[: max(limit - len(mark), 0)]
    return ((start.rstrip() if strip else start) + mark)[:limit]


def truncate_middle(text: str, head: int, tail: int, mark: str) -> str:
    """Return the start and the end of a text that is longer than both, and between them a mark; see `truncate_end`."""
    more = len(text) - head - tail
    return text if more <= 0 else text[:head] + mark.format(size=len(text), more=more) + text[len(text) - tail :]


def truncate_bytes(text: str, limit: int, *, whole_lines: bool = False) -> str:
    """Return the start of a text that fits in a number of bytes in UTF-8.

    Args:
        text: The text.
        limit: Maximum number of bytes; no character is cut.
        whole_lines: Whether to end after a line, unless the first one is too long.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    start = data[:limit].decode("utf-8", "ignore")
    return (start[: start.rfind("\n") + 1] or start) if whole_lines else start


def suggest_name(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return the question whether the closest known name was meant, or another text if none is close.

    Args:
        name: The unknown name.
        known: The known names.
        otherwise: The text if no name is close.
        cutoff: Minimum similarity, from 0 to 1.
    """
    near = find_closest(name, known, cutoff=cutoff)
    return f"Did you mean {near!r}?" if near else otherwise


def find_closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that is closest to an unknown one, or an empty string if none is close.

    Args:
        name: The unknown name.
        known: The known names.
        cutoff: Minimum similarity, from 0 to 1.
    """
    import difflib  # slow to import, and needed only for errors

    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), "")


def to_camel_case(key: str) -> str:
    """Convert a key to camelCase; a key in camelCase is unchanged."""
    head, *rest = key.split("_")
    return head + "".join([part[:1].upper() + part[1:] for part in rest])


def to_snake_case(name: str) -> str:
    """Convert a name with hyphens or in camelCase to ``snake_case``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()).replace("-", "_").lower()


def pluralize(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 message``, ``2 messages``.

    Args:
        number: The number.
        singular: The text after 1; may include more of the sentence.
        plural: The text after other numbers; ``singular`` with an s by default.
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def has_period(text: str) -> bool:
    """Return True if a text repeats a part of itself from its start to its end, at least twice, for example ``abcabca``."""
    return any(text.startswith(text[period:]) for period in range(1, len(text) // 2 + 1))
