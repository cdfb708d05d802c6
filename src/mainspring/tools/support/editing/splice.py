"""Insert new text into a file, and preserve all unchanged text byte for byte.

After a fuzzy match, the new text gets the indentation of the file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from mainspring.tools.support.editing.diffs import count_common_lines
from mainspring.tools.support.editing.match import Match, fold_lookalikes
from mainspring.tools.support.editing.text_view import NormalizedText, split_endings

Reindent = Callable[[str], str | None]
"""Function from the indentation of new text to the indentation in the file; ``None`` if ambiguous."""


def leading_whitespace(line: str) -> str:
    """Return the white space at the start of a line."""
    return line[: len(line) - len(line.lstrip())]


def make_reindent(
    found: Sequence[str], old: Sequence[str], new: Sequence[str], matching_lines: Sequence[tuple[int, int]]
) -> Reindent | None:
    """Return the function that indents new lines.

    New text is either indented like the file, while only the old text was not, or in the same wrong way as the old text.
    Lines in both texts decide; if they disagree or do not exist, the shallowest line decides.

    Args:
        found: Lines in the file.
        old: Lines that the caller provided for them.
        new: Lines that replace them.
        matching_lines: Pairs of equal lines of old and new.

    Returns:
        The function; ``None`` if the indentation is ambiguous.
    """
    as_file = as_old = 0
    for i, j in matching_lines:
        if old[i].strip() and leading_whitespace(old[i]) != leading_whitespace(found[i]):
            as_file += leading_whitespace(new[j]) == leading_whitespace(found[i])
            as_old += leading_whitespace(new[j]) == leading_whitespace(old[i])
    pairs = [(leading_whitespace(o), leading_whitespace(f)) for o, f in zip(old, found, strict=True) if o.strip()]
    if bool(as_file) != bool(as_old):
        is_as_file: bool | None = bool(as_file)
    else:
        is_as_file = _is_indented_as_file(pairs, new, None if as_file else False)
    if is_as_file is None:
        return None
    return (lambda indent: indent) if is_as_file else _shift_rule(pairs)


def _is_indented_as_file(pairs: Sequence[tuple[str, str]], new: Sequence[str], otherwise: bool | None) -> bool | None:
    """Return True if the shallowest new line shows that the new text is indented like the file."""
    depths = [_width(leading_whitespace(line)) for line in new if line.strip()]
    old, found = min(_width(o) for o, _ in pairs), min(_width(f) for _, f in pairs)
    if not depths:
        return True
    if found > old:
        return min(depths) >= found
    if found < old:
        return min(depths) < old
    return otherwise


def _width(indent: str) -> int:
    return len(indent.expandtabs(4))


def _shift_rule(pairs: Sequence[tuple[str, str]]) -> Reindent | None:
    """Return the single rule from every old indentation to the file's, if one exists."""
    rules: list[Reindent] = []
    old, found = min(pairs, key=lambda p: _width(p[0]))
    if found.endswith(old):
        deeper = found[: len(found) - len(old)]
        rules.append(lambda indent: deeper + indent)
    if old.endswith(found):
        shallower = old[: len(old) - len(found)]
        rules.append(lambda indent: indent.removeprefix(shallower) if indent.startswith(shallower) else None)
    rules += [_spaces_for_tabs(n) for n in (4, 2, 8, 3)] + [_tabs_for_spaces(n) for n in (4, 2, 8, 3)]
    known = dict(pairs)
    if len(set(pairs)) == len(known):
        fitting = [rule for rule in rules if all(rule(o) == f for o, f in pairs)]
        if fitting:
            return fitting[0]
        return known.get
    return None


def _spaces_for_tabs(n: int) -> Reindent:
    return lambda indent: indent.replace("\t", " " * n)


def _tabs_for_spaces(n: int) -> Reindent:
    return lambda indent: indent.replace(" " * n, "\t")


_MAX_COMPARED = 4_000_000
_MAX_LINE_CHARS = 2000


class UnclearIndentationError(Exception):
    """The old text's indentation differs from the file's, and the indentation of the new text is ambiguous."""


def splice(view: NormalizedText, located: Match, new: str) -> str:
    """Return the file's text with ``new`` (line feeds only) at every match.

    Raises:
        UnclearIndentationError: The indentation is ambiguous after a match that ignored it.
    """
    is_near = located.fuzz in ("trailing spaces", "look-alikes", "indentation")
    merges = is_near or (view.has_cr and "\n" in located.old + new)
    pieces: list[str] = []
    done = 0
    for start, end in located.spans:
        begin, stop = view.to_raw_index(start), view.to_raw_index(end)
        pieces.append(view.raw[done:begin])
        if merges:
            pieces.append(_LineMerge(view, start, view.raw[begin:stop], located, new).text())
        else:
            pieces.append(new)
        done = stop
    pieces.append(view.raw[done:])
    return "".join(pieces)


class _LineMerge:
    """A match: the lines in the file, the old lines of the edit, and the new lines."""

    def __init__(self, view: NormalizedText, start: int, raw: str, located: Match, new: str) -> None:
        self._found, self._endings = split_endings(raw)
        self._ending = self._endings[0] if self._endings else view.ending_around(start)
        self._old = located.old.split("\n")
        self._new = new.split("\n")
        self._fuzz = located.fuzz
        self._reindent: Reindent | None = None

    def text(self) -> str:
        """Return the replacement of the match."""
        ignores_indent = self._fuzz == "indentation"
        old, new = self._old, self._new
        if ignores_indent:
            old, new = [line.strip() for line in old], [line.strip() for line in new]
        blocks = _matching_blocks(old, new)
        if ignores_indent:
            same = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
            self._reindent = make_reindent(self._found, self._old, self._new, same)
        out: list[str] = []
        i = j = 0
        for next_i, next_j, size in [*blocks, (len(old), len(new), 0)]:
            for k in range(next_j - j):
                self._add(out, self._new_line(i + k if i + k < next_i else None, j + k), i + k, next_i)
            for k in range(size):
                self._add(out, self._unchanged_line(next_i + k, next_j + k), next_i + k, next_i + size)
            i, j = next_i + size, next_j + size
        return "".join(out[:-1])

    def _add(self, out: list[str], line: str, i: int, end: int) -> None:
        """Add a line with the line ending of the line at this position, or of the previous line."""
        if i < end and i < len(self._endings):
            self._ending = self._endings[i]
        out += (line, self._ending)

    def _unchanged_line(self, i: int, j: int) -> str:
        """Add an unchanged line from the file, unless the new text moves it."""
        if self._new[j] == self._old[i]:
            return self._found[i]
        line = self._indented(self._new[j])
        return self._found[i] if leading_whitespace(line) == leading_whitespace(self._found[i]) else line

    def _new_line(self, i: int | None, j: int) -> str:
        """Add a new line, which may replace line ``i``."""
        if self._fuzz == "indentation":
            return self._indented(self._new[j])
        if self._fuzz == "look-alikes" and i is not None:
            return _keep_file_characters(self._found[i], self._old[i], self._new[j])
        return self._new[j]

    def _indented(self, line: str) -> str:
        if not line.strip():
            return line
        indent = self._reindent(leading_whitespace(line)) if self._reindent else None
        if indent is None:
            raise UnclearIndentationError
        return indent + line.lstrip()


def _matching_blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return blocks of equal lines: the start in each text, and the length."""
    head, tail = count_common_lines(old, new)
    blocks = [(0, 0, head)]
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old) * len(new) <= _MAX_COMPARED:
        found = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        blocks += [(head + i, head + j, size) for i, j, size in found if size]
    if tail:
        blocks.append((head + len(old), head + len(new), tail))
    return blocks


def _keep_file_characters(found: str, old: str, new: str) -> str:
    """Return ``new`` with the file's characters where it repeats ``old``."""
    if max(len(old), len(new)) > _MAX_LINE_CHARS:
        return new
    _, old_origin = fold_lookalikes(old)
    _, found_origin = fold_lookalikes(found)

    def place(i: int) -> int:
        at = bisect_left(old_origin, i)
        return found_origin[at] if at < len(found_origin) else len(found)

    pieces: list[str] = []
    for what, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pieces.append(found[place(i) : place(i_end)] if what == "equal" else new[j:j_end])
    return "".join(pieces)
