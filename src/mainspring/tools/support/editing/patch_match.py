"""Finding the places of a patch's changes in a file's text, and making them. Pure; meant for a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.tools.support.editing.closest_match import nearest
from mainspring.tools.support.editing.match import FUZZ_WORDS, Fuzz, Located, fold
from mainspring.tools.support.editing.patch_parser import Chunk
from mainspring.tools.support.editing.splice import UnclearIndentationError, splice
from mainspring.tools.support.editing.text_view import View

Key = Callable[[str], str]

_LEVELS: tuple[tuple[Fuzz, Key], ...] = (
    ("", lambda line: line),
    ("trailing spaces", str.rstrip),
    ("look-alikes", lambda line: fold(line)[0].rstrip()),
    ("indentation", lambda line: fold(line)[0].strip()),
)
"""What is disregarded, least first."""


class ChunkError(ValueError):
    """A change has no place in the file; the text says why and what to do."""


def patched(raw: str, chunks: Sequence[Chunk]) -> tuple[str, tuple[str, ...]]:
    """The text after all changes, and a note on each that did not match to the letter.

    Raises:
        ChunkError: If one has no place, or several equally good ones.
    """
    cursor = 0
    notes: list[str] = []
    for chunk in chunks:
        raw, cursor, note = _one(View(raw), chunk, cursor)
        if note:
            notes.append(note)
    return raw, tuple(notes)


def _one(view: View, chunk: Chunk, cursor: int) -> tuple[str, int, str]:
    """The text after one change, the line after it, and a note."""
    lines = _lines(view)
    start = cursor
    for context in chunk.contexts:
        start = _context(lines, context, start) + 1
    if not chunk.old:
        at = start if chunk.contexts else len(lines)
        return _inserted(view, lines, at, chunk.new), at + len(chunk.new), ""
    old, new = chunk.old, chunk.new
    found = _find(lines, old, start, chunk)
    if found is None and len(old) > 1 and not old[-1] and new and not new[-1]:
        old, new = old[:-1], new[:-1]  # The empty line behind the last one, which is none in the file.
        found = _find(lines, old, start, chunk)
    if found is None:
        raise ChunkError(_missing(view, chunk))
    at, fuzz = found
    if chunk.old == chunk.new:
        return view.raw, at + len(old), ""
    text = _replaced(view, lines, at, old, new, fuzz)
    note = f"lines {at + 1}-{at + len(old)} matched {FUZZ_WORDS[fuzz]}" if fuzz else ""
    return text, at + len(new), note


def _lines(view: View) -> list[str]:
    return view.lines[:-1] if view.lines[-1] == "" else view.lines


def _context(lines: Sequence[str], context: str, start: int) -> int:
    for _, key in _LEVELS:
        wanted = key(context)
        for i in range(start, len(lines)):
            if key(lines[i]) == wanted:
                return i
    raise ChunkError(f"the line {context!r} that is named after @@ is not in the file behind line {start}")


def _find(lines: Sequence[str], old: Sequence[str], start: int, chunk: Chunk) -> tuple[int, Fuzz] | None:
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
            raise ChunkError(
                f"the change at line {chunk.line} of the patch matches at {len(places)} places ({FUZZ_WORDS[fuzz]}), "
                f"starting at lines {shown}; give more lines around it, or name the place after @@"
            )
        return places[0], fuzz
    return None


def _replaced(view: View, lines: Sequence[str], at: int, old: Sequence[str], new: Sequence[str], fuzz: Fuzz) -> str:
    begin = view.starts[at]
    after = at + len(old)
    end = view.starts[after] if after < len(view.starts) else len(view.text)
    ends_open = after == len(lines) and not view.text.endswith("\n")
    before = "\n".join(old) + ("" if ends_open else "\n")
    text = "".join([line + "\n" for line in new])
    try:
        return splice(view, Located(((begin, end),), before, fuzz), text)
    except UnclearIndentationError:
        raise ChunkError(
            f"line {at + 1} of the file is found, but with another indentation, and how to indent the new lines cannot "
            "be told from it; give the lines as they stand in the file"
        ) from None


def _inserted(view: View, lines: Sequence[str], at: int, new: Sequence[str]) -> str:
    place = view.starts[at] if at < len(lines) else len(view.text)
    ending = view.ending_around(max(0, place - 1))
    text = "".join([line + ending for line in new])
    if at >= len(lines) and view.text and not view.text.endswith("\n"):
        text = ending + text
    here = view.raw_index(place)
    return view.raw[:here] + text + view.raw[here:]


def _missing(view: View, chunk: Chunk) -> str:
    where = " at the end of the file" if chunk.at_end else ""
    return (
        f"the old lines of the change at line {chunk.line} of the patch are not in the file{where}\n\n"
        f"{nearest(view, chr(10).join(chunk.old))}"
    )
