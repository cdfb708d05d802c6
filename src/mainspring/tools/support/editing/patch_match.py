"""Finding the places of a patch's changes in a file's text, and making them. Pure; meant for a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.tools.support.editing.closest_match import describe_closest_match
from mainspring.tools.support.editing.match import TOLERANCE_LABELS, Match, MatchTolerance, fold_lookalikes
from mainspring.tools.support.editing.patch_parser import PatchChunk
from mainspring.tools.support.editing.splice import UnclearIndentationError, splice
from mainspring.tools.support.editing.text_view import NormalizedText

Key = Callable[[str], str]

_LEVELS: tuple[tuple[MatchTolerance, Key], ...] = (
    ("", lambda line: line),
    ("trailing spaces", str.rstrip),
    ("look-alikes", lambda line: fold_lookalikes(line)[0].rstrip()),
    ("indentation", lambda line: fold_lookalikes(line)[0].strip()),
)
"""What is disregarded, least first."""


class PatchMatchError(ValueError):
    """A change has no place in the file; the text says why and what to do."""


def apply_chunks(raw: str, chunks: Sequence[PatchChunk]) -> tuple[str, tuple[str, ...]]:
    """The text after all changes, and a note on each that did not match to the letter.

    Raises:
        ChunkError: If one has no place, or several equally good ones.
    """
    cursor = 0
    notes: list[str] = []
    for chunk in chunks:
        raw, cursor, note = _apply_chunk(NormalizedText(raw), chunk, cursor)
        if note:
            notes.append(note)
    return raw, tuple(notes)


def _apply_chunk(view: NormalizedText, chunk: PatchChunk, cursor: int) -> tuple[str, int, str]:
    """The text after one change, the line after it, and a note."""
    lines = _lines(view)
    start = cursor
    for context in chunk.contexts:
        start = _find_context(lines, context, start) + 1
    if not chunk.old:
        at = start if chunk.contexts else len(lines)
        return _insert_lines(view, lines, at, chunk.new), at + len(chunk.new), ""
    old, new = chunk.old, chunk.new
    found = _find(lines, old, start, chunk)
    if found is None and len(old) > 1 and not old[-1] and new and not new[-1]:
        old, new = old[:-1], new[:-1]  # The empty line behind the last one, which is none in the file.
        found = _find(lines, old, start, chunk)
    if found is None:
        raise PatchMatchError(_not_found_message(view, chunk))
    at, fuzz = found
    if chunk.old == chunk.new:
        return view.raw, at + len(old), ""
    text = _replace_lines(view, lines, at, old, new, fuzz)
    note = f"lines {at + 1}-{at + len(old)} matched {TOLERANCE_LABELS[fuzz]}" if fuzz else ""
    return text, at + len(new), note


def _lines(view: NormalizedText) -> list[str]:
    return view.lines[:-1] if view.lines[-1] == "" else view.lines


def _find_context(lines: Sequence[str], context: str, start: int) -> int:
    for _, key in _LEVELS:
        wanted = key(context)
        for i in range(start, len(lines)):
            if key(lines[i]) == wanted:
                return i
    raise PatchMatchError(f"the line {context!r} that is named after @@ is not in the file behind line {start}")


def _find(lines: Sequence[str], old: Sequence[str], start: int, chunk: PatchChunk) -> tuple[int, MatchTolerance] | None:
    """Where the old lines begin: exactly at the first place, else nearly but then at one place only."""
    last = len(lines) - len(old)
    for fuzz, key in _LEVELS:
        wanted = [key(line) for line in old]
        keys = [key(line) for line in lines]
        places = [i for i in range(start, last + 1) if keys[i : i + len(old)] == wanted]
        if chunk.at_end:
            places = [i for i in places if i == last]
        if not places:
            continue
        if fuzz and len(places) > 1:
            shown = ", ".join([str(i + 1) for i in places[:10]])
            raise PatchMatchError(
                f"the change at line {chunk.line} of the patch matches at {len(places)} places ({TOLERANCE_LABELS[fuzz]}), "
                f"starting at lines {shown}; give more lines around it, or name the place after @@"
            )
        return places[0], fuzz
    return None


def _replace_lines(
    view: NormalizedText, lines: Sequence[str], at: int, old: Sequence[str], new: Sequence[str], fuzz: MatchTolerance
) -> str:
    begin = view.start_tool[at]
    after = at + len(old)
    end = view.start_tool[after] if after < len(view.start_tool) else len(view.text)
    ends_open = after == len(lines) and not view.text.endswith("\n")
    before = "\n".join(old) + ("" if ends_open else "\n")
    text = "".join([line + "\n" for line in new])
    try:
        return splice(view, Match(((begin, end),), before, fuzz), text)
    except UnclearIndentationError:
        raise PatchMatchError(
            f"line {at + 1} of the file is found, but with another indentation, and how to indent the new lines cannot "
            "be told from it; give the lines as they stand in the file"
        ) from None


def _insert_lines(view: NormalizedText, lines: Sequence[str], at: int, new: Sequence[str]) -> str:
    place = view.start_tool[at] if at < len(lines) else len(view.text)
    ending = view.ending_around(max(0, place - 1))
    text = "".join([line + ending for line in new])
    if at >= len(lines) and view.text and not view.text.endswith("\n"):
        text = ending + text
    here = view.to_raw_index(place)
    return view.raw[:here] + text + view.raw[here:]


def _not_found_message(view: NormalizedText, chunk: PatchChunk) -> str:
    where = " at the end of the file" if chunk.at_end else ""
    return (
        f"the old lines of the change at line {chunk.line} of the patch are not in the file{where}\n\n"
        f"{describe_closest_match(view, chr(10).join(chunk.old))}"
    )
