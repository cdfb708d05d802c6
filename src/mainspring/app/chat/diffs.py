"""Unified diffs as data."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mainspring.app.chat.types import FileDiff, Hunk
from mainspring.lazy import lazy_re
from mainspring.tools.support.editing.preview import FileChange, Preview

_HEADER = lazy_re(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def parse_diff(text: str, number: int = 0) -> tuple[FileDiff, ...]:
    """The files of a unified diff; ``number`` is that of the first hunk."""
    found: list[FileDiff] = []
    lines = iter(text.removesuffix("\n").split("\n") if text else ())
    for line in lines:
        if line.startswith("--- "):
            target = next(lines, "")
            old, new = _name(line), _name(target)
            found.append(FileDiff(path=old if new == "/dev/null" else new))
        elif found:
            header = _HEADER.match(line)
            if header is None:
                if line.startswith("\\"):  # no newline at the end of the file: of no interest to people
                    continue
                found[-1] = replace(found[-1], note="; ".join(filter(None, (found[-1].note, line.strip("()")))))
                continue
            body = tuple(_body(lines, int(header[1] or 1), int(header[2] or 1)))
            found[-1] = replace(
                found[-1],
                hunks=(*found[-1].hunks, Hunk(number, line, body)),
                added=found[-1].added + sum(each.startswith("+") for each in body),
                removed=found[-1].removed + sum(each.startswith("-") for each in body),
            )
            number += 1
    return tuple(found)


def _body(lines: Iterator[str], old: int, new: int) -> Iterator[str]:
    """The lines of a hunk, as many as its header says: a removed line may look like anything."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        if line.startswith("\\"):
            continue
        old -= line[:1] != "+"
        new -= line[:1] != "-"
        yield line.removesuffix("\r") or " "


def _name(line: str) -> str:
    name = line[4:]
    return name[2:] if name[:2] in ("a/", "b/") else name


def diffs_of(preview: Preview) -> tuple[FileDiff, ...]:
    """What a call would do, for people; for several edits of one file a hunk for each."""
    if len(preview.steps) > 1 and len(preview.changes) == 1:
        change = preview.changes[0]
        whole = _of_change(change, 0)
        hunks = tuple([_step(step, number, len(preview.steps)) for number, step in enumerate(preview.steps)])
        return (replace(whole, hunks=hunks),)
    made: list[FileDiff] = []
    number = 0
    for change in preview.changes:
        diff = _of_change(change, number)
        number += len(diff.hunks)
        made.append(diff)
    return tuple(made)


def _of_change(change: FileChange, number: int) -> FileDiff:
    found = parse_diff(change.diff, number)
    diff = found[0] if found else FileDiff(path=change.path)
    kind = "create" if change.before is None else "delete" if change.after is None else "edit"
    note = "; ".join(filter(None, (diff.note, change.note)))
    return replace(diff, path=change.path, change=kind, note=note)


def _step(text: str, number: int, total: int) -> Hunk:
    parts = [hunk for diff in parse_diff(text) for hunk in diff.hunks]
    lines = tuple([line for hunk in parts for line in hunk.lines])
    where = parts[0].header if parts else "no change"
    return Hunk(number, f"edit {number + 1} of {total} {where}", lines)
