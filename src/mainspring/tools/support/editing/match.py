"""Find the text to replace in a file: an exact match, or a fuzzy match if it is unique.

Attempts, in this order: the text itself; without pasted line numbers; without the final line feed at the end of the file;
ignoring spaces at line ends; ignoring look-alike characters; ignoring indentation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.tools.support.editing.text_view import NormalizedText

MatchTolerance = Literal["", "line numbers", "final newline", "trailing spaces", "look-alikes", "indentation"]
"""Difference that was ignored to find a text; empty for an exact match."""

TOLERANCE_LABELS: dict[MatchTolerance, str] = {
    "line numbers": "without the line numbers in old_string",
    "final newline": "without the newline that old_string has at the end of the file",
    "trailing spaces": "ignoring spaces at line ends",
    "look-alikes": "ignoring differences between characters that look alike (quotes, dashes, spaces, accents)",
    "indentation": "ignoring indentation",
}

_NUMBERED = (
    lazy_re(r"[ ]{0,8}(\d+)[\t→](.*)", re.DOTALL),
    lazy_re(r"[ ]{0,8}(\d+)[|:](.*)", re.DOTALL),
    lazy_re(r"[ ]{0,8}(\d+)[ ]?[|:][ ](.*)", re.DOTALL),
)
"""Formats of line numbers before lines; for a single line, only the first format applies."""
_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys(
            "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0f", ""),
    }
)


class Match(Struct, frozen=True):
    """Location of the text.

    Attributes:
        spans: Start and end in the view's text; several only if all occurrences are replaced.
        old: Text that was found, without pasted line numbers.
        fuzz: Ignored difference.
    """

    spans: tuple[tuple[int, int], ...]
    old: str
    fuzz: MatchTolerance = ""


class AmbiguousMatch(Struct, frozen=True):
    """The text has several matches; ``lines`` are the numbers of their first lines."""

    lines: tuple[int, ...]
    fuzz: MatchTolerance = ""


def find_match(view: NormalizedText, old: str, *, replace_all: bool) -> Match | AmbiguousMatch | None:
    """Find ``old`` (with line feeds only) in the view; ``None`` if not found.

    ``replace_all`` finds all matches.
    """
    spans = _exact(view.text, old, replace_all)
    if spans:
        return _to_match(view, spans, old, "", replace_all)
    for stripped in without_line_numbers(old):
        spans = _at_line_starts(view, _exact(view.text, stripped, replace_all))
        if spans:
            return _to_match(view, spans, stripped, "line numbers", replace_all)
    was_numbered = False
    for stripped in without_line_numbers(old)[:1]:
        old, was_numbered = stripped, True
    if not old.strip():
        return None
    if not was_numbered and old.endswith("\n") and view.text.endswith(old[:-1]):
        return Match(((len(view.text) - len(old) + 1, len(view.text)),), old[:-1], "final newline")
    for fuzz, find in _LEVELS:
        spans = find(view, old)
        if was_numbered:
            spans = _at_line_starts(view, spans)
        if spans:
            return _to_match(view, spans, old, fuzz, False)
    return None


def _at_line_starts(view: NormalizedText, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [s for s in spans if s[0] == 0 or view.text[s[0] - 1] == "\n"]


def without_line_numbers(text: str) -> list[str]:
    """Return possible texts without ``N<TAB>`` (or ``N:``, ``N|``) before each line, if the numbers are consecutive."""
    lines = text.split("\n")
    last_is_empty = lines[-1] == "" and len(lines) > 1
    if last_is_empty:
        lines.pop()
    found: list[str] = []
    for pattern in _NUMBERED if len(lines) > 1 else _NUMBERED[:1]:
        matches = [m for line in lines if (m := pattern.fullmatch(line))]
        if len(matches) == len(lines) and all(int(m[1]) == int(matches[0][1]) + i for i, m in enumerate(matches)):
            found.append("\n".join([m[2] for m in matches]) + ("\n" if last_is_empty else ""))
    return found


def fold_lookalikes(text: str) -> tuple[str, Sequence[int]]:
    """Replace look-alike characters, and return the index of the original character for each character."""
    if text.isascii():
        return text, range(len(text))
    folded: list[str] = []
    origin: list[int] = []
    for i, c in enumerate(text):
        piece = c.translate(_LOOKALIKES)
        if not piece.isascii():
            piece = unicodedata.normalize("NFKD", piece).translate(_LOOKALIKES)
        folded.append(piece)
        origin += [i] * len(piece)
    return "".join(folded), origin


def _exact(text: str, old: str, include_all: bool) -> list[tuple[int, int]]:
    """Return all spans of ``old``, including overlapping spans unless ``every`` is set."""
    if not old:
        return [] if text else [(0, 0)]
    spans: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + (len(old) if include_all else 1))
    return spans


def _to_match(
    view: NormalizedText, spans: list[tuple[int, int]], old: str, fuzz: MatchTolerance, include_all: bool
) -> Match | AmbiguousMatch:
    if len(spans) > 1 and not include_all:
        return AmbiguousMatch(tuple([view.line_at(start) for start, _ in spans]), fuzz)
    return Match(tuple(spans), old, fuzz)


Folding = Callable[[str], tuple[str, Sequence[int]]]


def _no_folding(text: str) -> tuple[str, Sequence[int]]:
    return text, range(len(text))


def _match_trailing_spaces(view: NormalizedText, old: str) -> list[tuple[int, int]]:
    return _by_lines(view, old, _no_folding)


def _match_lookalikes(view: NormalizedText, old: str) -> list[tuple[int, int]]:
    return _by_lines(view, old, fold_lookalikes)


def _by_lines(view: NormalizedText, old: str, folding: Folding) -> list[tuple[int, int]]:
    """Return spans whose lines match after folding and without spaces at line ends.

    The first and last line may be partial.
    """
    parts = [folding(part)[0] for part in old.split("\n")]
    folded = [folding(line) for line in view.lines]
    if len(parts) == 1:
        found = [(i, span) for i, line in enumerate(folded) for span in _find_partial(line[0], parts[0])]
        return [
            (_text_position(view, folded, i, a), _text_position(view, folded, i, b, is_end=True)) for i, (a, b) in found
        ]
    bare = [line.rstrip() for line, _ in folded]
    first, middle, last = parts[0].rstrip(), [p.rstrip() for p in parts[1:-1]], parts[-1]
    spans: list[tuple[int, int]] = []
    for i in range(len(bare) - len(parts) + 1):
        if not bare[i].endswith(first) or bare[i + 1 : i + 1 + len(middle)] != middle:
            continue
        j = i + len(parts) - 1
        if folded[j][0].startswith(last):
            end = len(last)
        elif bare[j] == last.rstrip():
            end = len(bare[j])
        else:
            continue
        begin = len(bare[i]) - len(first) if first else len(folded[i][0])
        spans.append((_text_position(view, folded, i, begin), _text_position(view, folded, j, end, is_end=True)))
    return spans


def _find_partial(line: str, part: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = line.find(part)
    while at >= 0:
        spans.append((at, at + len(part)))
        at = line.find(part, at + 1)
    bare, shorter = line.rstrip(), part.rstrip()
    if not spans and bare.endswith(shorter):
        spans.append((len(bare) - len(shorter), len(bare)))
    return spans


def _text_position(
    view: NormalizedText, folded: list[tuple[str, Sequence[int]]], i: int, at: int, *, is_end: bool = False
) -> int:
    """Convert a position in a folded line to a position in the view."""
    origin = folded[i][1]
    start = view.line_starts[i]
    if is_end:
        return start + (origin[at - 1] + 1 if at else 0)
    return start + (origin[at] if at < len(origin) else len(view.lines[i]))


def _match_indentation(view: NormalizedText, old: str) -> list[tuple[int, int]]:
    """Return spans of whole lines that match after folding and without surrounding spaces."""
    parts = old.split("\n")
    keys = [fold_lookalikes(part)[0].strip() for part in parts]
    lines = [fold_lookalikes(line)[0].strip() for line in view.lines]
    opens_at_end = len(parts) > 1 and parts[0] == ""
    closes_at_start = len(parts) > 1 and parts[-1] == ""
    skip = 1 if opens_at_end else 0
    inner = keys[skip : len(keys) - 1 if closes_at_start else len(keys)]
    spans: list[tuple[int, int]] = []
    for i in range(len(lines) - len(parts) + 1):
        if lines[i + skip : i + skip + len(inner)] != inner:
            continue
        j = i + len(parts) - 1
        begin = view.line_starts[i] + (len(view.lines[i]) if opens_at_end else 0)
        end = view.line_starts[j] + (0 if closes_at_start else len(view.lines[j].rstrip()))
        spans.append((begin, end))
    return spans


_LEVELS: tuple[tuple[MatchTolerance, Callable[[NormalizedText, str], list[tuple[int, int]]]], ...] = (
    ("trailing spaces", _match_trailing_spaces),
    ("look-alikes", _match_lookalikes),
    ("indentation", _match_indentation),
)
