"""Compute one or several edits on a file's text.

Pure, and slow for large files: run it in a thread.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from msgspec import Struct

from mainspring.tools.support.editing.closest_match import describe_closest_match
from mainspring.tools.support.editing.match import (
    TOLERANCE_LABELS,
    AmbiguousMatch,
    Match,
    find_match,
    without_line_numbers,
)
from mainspring.tools.support.editing.splice import UnclearIndentationError, splice
from mainspring.tools.support.editing.text_view import NormalizedText, normalize_newlines

_MAX_LISTED = 20
_MIN_EVIDENCE_CHARS = 8
_CLEAR_EVIDENCE = 20
_MAX_COMPARED = 4000
_ALIKE = 0.6


class Edit(Struct, frozen=True):
    """A requested replacement."""

    old: str
    new: str
    every: bool = False


class EditChange(Struct, frozen=True):
    """Effect of an edit.

    Attributes:
        text: Whole text after the edit.
        lines: First and last line of each match, in the text before the edit.
        note: How the text was matched, if not exactly; or why nothing changes.
        is_done: Whether the text already contained the result of the edit.
    """

    text: str
    lines: tuple[tuple[int, int], ...] = ()
    note: str = ""
    is_done: bool = False


class EditError(Struct, frozen=True):
    """An edit is not possible: the message contains the reason and the fix."""

    text: str


def compute_edit(raw: str, edit: Edit) -> EditChange | EditError:
    """Compute the effect of an edit on a text."""
    if edit.old == edit.new:
        return EditError("old_string and new_string are identical.")
    view = NormalizedText(raw)
    old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
    if "\r" in old and view.has_single_cr:
        old, new = normalize_newlines(old), normalize_newlines(new)
    if "\r" in edit.old or old == new:
        change = _match_exact_line_endings(view, edit)
        if change or old == new:
            return change or EditError("old_string with these line endings is not in the file; it has other ones.")
    if not old and view.text:
        return EditError(
            "old_string is empty. Give the text to replace, with a line or two around it; to insert, repeat an "
            "existing line in new_string; to replace the whole file use write_file."
        )
    located = find_match(view, old, replace_all=edit.every)
    if not old.strip() and isinstance(located, Match) and len(located.spans) > 1:
        return EditError(
            f"old_string is only white space and occurs {len(located.spans)} times; replacing them all is denied. "
            "Give the text around one of them."
        )
    if isinstance(located, AmbiguousMatch):
        return _ambiguous(located)
    if located is None:
        return _missing(view, old, new)
    return _apply_match(view, located, new)


def _apply_match(view: NormalizedText, located: Match, new: str) -> EditChange | EditError:
    if located.fuzz == "final newline":
        new = new.removesuffix("\n")
    elif located.fuzz:
        new = next(iter(without_line_numbers(new)), new)
    try:
        text = splice(view, located, new)
    except UnclearIndentationError:
        line = view.line_at(located.spans[0][0])
        return EditError(
            f"old_string is found at line {line}, but with another indentation, so the indentation of new_string is "
            f"unknown. Repeat the call with the file's indentation in both:\n\n{describe_closest_match(view, located.old)}"
        )
    lines = tuple([(view.line_at(a), view.line_at(max(a, b - 1))) for a, b in located.spans])
    if text == view.raw:
        return EditChange(text, lines, "the file already reads as new_string there", True)
    return EditChange(text, lines, TOLERANCE_LABELS[located.fuzz] if located.fuzz else "")


def _match_exact_line_endings(view: NormalizedText, edit: Edit) -> EditChange | EditError | None:
    """Apply an edit with explicit line endings: if the file has exactly these, the new text is inserted unchanged."""
    places: list[int] = []
    at = view.raw.find(edit.old)
    while at >= 0:
        places.append(at)
        at = view.raw.find(edit.old, at + len(edit.old))
    if not places:
        return None
    starts = [view.raw.count("\n", 0, at) + 1 for at in places]
    if len(places) > 1 and not edit.every:
        return _ambiguous(AmbiguousMatch(tuple(starts)))
    ends = edit.old.count("\n", 0, len(edit.old) - 1)
    return EditChange(view.raw.replace(edit.old, edit.new), tuple([(line, line + ends) for line in starts]))


def _ambiguous(match: AmbiguousMatch) -> EditError:
    shown = ", ".join(map(str, match.lines[:_MAX_LISTED]))
    if len(match.lines) > _MAX_LISTED:
        shown += f" and {len(match.lines) - _MAX_LISTED} more"
    how = f" ({TOLERANCE_LABELS[match.fuzz]})" if match.fuzz else ""
    advice = "Add lines around the one you mean" + ("" if match.fuzz else ", or set replace_all to change them all")
    return EditError(
        f"old_string is not unique: it matches at {len(match.lines)} places{how}, starting at lines {shown}. {advice}."
    )


def _missing(view: NormalizedText, old: str, new: str) -> EditChange | EditError:
    done = _find_already_applied(view, old, new)
    if done is not None and done[1]:
        return EditChange(view.raw, ((done[0], done[0] + new.count("\n")),), "it was applied before", True)
    hint = ""
    if done is not None:
        hint = f" new_string is in the file already, at line {done[0]}: the edit may have been made before."
    if not old.strip():
        return EditError("old_string is only white space and is not in the file. Give the text to replace.")
    return EditError(f"old_string is not in the file.{hint}\n\n{describe_closest_match(view, old)}")


def _find_already_applied(view: NormalizedText, old: str, new: str) -> tuple[int, bool] | None:
    """Return the lines of the new text if the old text is missing, and whether the edit was certainly made before."""
    if not new.strip():
        return None
    at = view.text.find(new)
    if at < 0 or view.text.find(new, at + 1) >= 0:
        return None
    return view.line_at(at), _is_distinctive(old.strip(), new.strip())


def _is_distinctive(old: str, new: str) -> bool:
    """Return True if the new text is so distinctive, and so similar to the old text, that only the edit explains it."""
    if len(new) < _MIN_EVIDENCE_CHARS:
        return False
    shared = {line.strip() for line in old.split("\n")} & {line.strip() for line in new.split("\n")} - {""}
    if shared or ("\n" not in old and len(new) >= _CLEAR_EVIDENCE):
        return True
    return len(old) + len(new) <= _MAX_COMPARED and SequenceMatcher(None, old, new, autojunk=False).ratio() >= _ALIKE
