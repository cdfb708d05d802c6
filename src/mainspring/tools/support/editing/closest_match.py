"""Find the lines of a file that are closest to a text that is not in the file, and describe the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from mainspring.text import truncate_end
from mainspring.tools.support.editing.match import fold_lookalikes
from mainspring.tools.support.editing.splice import leading_whitespace
from mainspring.tools.support.editing.text_view import NormalizedText

_CANDIDATES = 8
_MAX_SHOWN = 12
_MAX_COMPARED = 30
_MAX_SHOWN_CHARS = 200
_MAX_LINES = 50_000
_CLOSE_ENOUGH = 0.5


def describe_closest_match(view: NormalizedText, old: str) -> str:
    """Return the closest lines with their numbers, and a description of how they differ from ``old``."""
    requested = old.strip("\n").split("\n")
    found = _find_closest(view.lines, requested)
    if found is None:
        return "Nothing in the file is close to it. Read the file, then repeat the call with text copied from it."
    start, ratio = found
    lines = view.lines[start : start + len(requested)]
    shown = [f"{start + 1 + i}\t{_short(line)}" for i, line in enumerate(lines[:_MAX_SHOWN])]
    if len(lines) > _MAX_SHOWN:
        shown.append(f"(lines {start + 1 + _MAX_SHOWN} to {start + len(lines)} left out)")
    differences = _describe_differences(lines, requested, start)
    return (
        f"Closest lines ({round(100 * ratio)}% alike):\n"
        + "\n".join(shown)
        + "\n\nHow they differ:\n"
        + "\n".join([f"- {d}" for d in differences])
        + "\n\nRepeat the call with the text copied exactly from the file."
    )


def _find_closest(lines: Sequence[str], expected_lines: Sequence[str]) -> tuple[int, float] | None:
    lines = lines[:_MAX_LINES]
    keys = [_key(line) for line in lines]
    wanted_keys = [_key(line) for line in expected_lines]
    starts = _candidate_starts(keys, wanted_keys) or _candidate_starts_by_words(keys, wanted_keys)
    best: tuple[int, float] | None = None
    text = "\n".join(wanted_keys[:_MAX_COMPARED])[:4000]
    matcher = SequenceMatcher(None, "", text, autojunk=False)
    for start in starts:
        matcher.set_seq1("\n".join(keys[start : start + min(len(expected_lines), _MAX_COMPARED)])[:4000])
        if best is None or matcher.real_quick_ratio() > best[1]:
            ratio = matcher.ratio()
            if best is None or ratio > best[1]:
                best = (start, ratio)
    return best if best and best[1] >= _CLOSE_ENOUGH else None


def _key(line: str) -> str:
    return " ".join(fold_lookalikes(line)[0].split())


def _candidate_starts(keys: Sequence[str], expected_lines: Sequence[str]) -> list[int]:
    """Return the starts for which the most lines match at their position, plus or minus two lines."""
    places: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        if len(key) > 1:
            places.setdefault(key, []).append(i)
    votes: Counter[int] = Counter()
    for offset, key in enumerate(expected_lines):
        found = places.get(key, ())
        for i in found[:50]:
            votes[max(0, i - offset)] += 1
    return [start for start, _ in votes.most_common(_CANDIDATES)]


def _candidate_starts_by_words(keys: Sequence[str], expected_lines: Sequence[str]) -> list[int]:
    """Return the starts whose line shares the most, and the rarest, words with the first lines."""
    places: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        for word in set(_words(key)):
            places.setdefault(word, []).append(i)
    votes: Counter[int] = Counter()
    for offset, key in enumerate(expected_lines[:3]):
        for word in set(_words(key)):
            found = places.get(word, ())
            if len(found) <= 200:
                for i in found:
                    votes[max(0, i - offset)] += 1 + len(word)
    return [start for start, _ in votes.most_common(_CANDIDATES)]


def _words(text: str) -> list[str]:
    return "".join([c if c.isalnum() or c == "_" else " " for c in text]).split()


def _describe_differences(lines: Sequence[str], expected_lines: Sequence[str], start: int) -> list[str]:
    kinds: dict[str, int] = {}
    texts: list[str] = []
    for i, want in enumerate(expected_lines):
        if i >= len(lines):
            texts.append(f"old_string has {len(expected_lines) - i} more lines than the file has left")
            break
        kind = _describe_difference(lines[i], want)
        if kind == "":
            continue
        if kind is None:
            texts.append(f"line {start + 1 + i} is {_quoted(lines[i])}, not {_quoted(want)}")
        else:
            kinds.setdefault(kind, start + 1 + i)
    differences = [f"{kind} (first at line {line})" for kind, line in kinds.items()]
    if len(texts) > 3:
        texts = [*texts[:3], f"and {len(texts) - 3} more lines with other text"]
    return differences + texts or ["only in blank lines at its start or end"]


def _describe_difference(line: str, want: str) -> str | None:
    """Return the kind of difference: none, a named kind, or ``None`` for different words."""
    if line == want:
        return ""
    if line.rstrip() == want.rstrip():
        return "spaces at line ends"
    if line.strip() == want.strip():
        return f"indentation: the file has {_indent(line)}, old_string has {_indent(want)}"
    if fold_lookalikes(line)[0].strip() == fold_lookalikes(want)[0].strip():
        return "characters that look alike: quotes, dashes, special spaces"
    if line.split() == want.split():
        return "the number of spaces within a line"
    if line.strip().lower() == want.strip().lower():
        return "upper and lower case"
    return None


def _indent(line: str) -> str:
    indent = leading_whitespace(line)
    if not indent:
        return "none"
    spaces, tabs = indent.count(" "), indent.count("\t")
    parts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((tabs, "tab"), (spaces, "space")) if n]
    return " and ".join(parts)


def _quoted(line: str) -> str:
    return f"`{_short(line.strip())}`"


def _short(line: str) -> str:
    return truncate_end(line, _MAX_SHOWN_CHARS, "… ({size} characters)")
