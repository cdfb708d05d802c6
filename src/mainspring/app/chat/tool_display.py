"""Unified diffs as data.

Calls and their results in a few words and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from mainspring.app.chat.events import ToolFinished, ToolStarted
from mainspring.app.chat.types import EditOutcome, FileDiff, Hunk
from mainspring.lazy import lazy_re
from mainspring.messages import ToolUseBlock
from mainspring.sessions import TranscriptCall
from mainspring.tools import ToolErrorCode
from mainspring.tools.support.editing.preview import FileChange, Preview
from mainspring.tools.support.editing.review import parse_edit_outcomes

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


def diffs_from_preview(preview: Preview) -> tuple[FileDiff, ...]:
    """What a call would do, for people; for several edits of one file a hunk for each."""
    if len(preview.steps) > 1 and len(preview.changes) == 1:
        change = preview.changes[0]
        whole = _diff_from_change(change, 0)
        hunks = tuple([_edit_hunk(step, number, len(preview.steps)) for number, step in enumerate(preview.steps)])
        return (replace(whole, hunks=hunks),)
    made: list[FileDiff] = []
    number = 0
    for change in preview.changes:
        diff = _diff_from_change(change, number)
        number += len(diff.hunks)
        made.append(diff)
    return tuple(made)


def _diff_from_change(change: FileChange, number: int) -> FileDiff:
    found = parse_diff(change.diff, number)
    diff = found[0] if found else FileDiff(path=change.path)
    kind = "create" if change.before is None else "delete" if change.after is None else "edit"
    note = "; ".join(filter(None, (diff.note, change.note)))
    return replace(diff, path=change.path, change=kind, note=note)


def _edit_hunk(text: str, number: int, total: int) -> Hunk:
    parts = [hunk for diff in parse_diff(text) for hunk in diff.hunks]
    lines = tuple([line for hunk in parts for line in hunk.lines])
    where = parts[0].header if parts else "no change"
    return Hunk(number, f"edit {number + 1} of {total} {where}", lines)


ToolLabeler = Callable[[str], str]
"""The name for people of a tool."""


MAX_LINES = 60
"""Lines of a result that are told; the middle of a longer one is left out."""


MAX_CHARACTERS = 16_000
"""Characters of a result that are told."""


_KEY_ARGUMENTS = ("command", "path", "pattern", "url", "query", "question", "title", "task", "action", "name")
"""Arguments that say what a call is about, the most telling first."""


def summarize_arguments(arguments: Mapping[str, Any]) -> str:
    """What a call is about, in a line."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value.strip()}
    key = next((key for key in _KEY_ARGUMENTS if key in texts), next(iter(texts), None))
    return one_line(texts[key]) if key is not None else ""


def one_line(text: str, most: int = 160) -> str:
    """Text on one line, cut where it gets long."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def truncate_middle(text: str, lines: int = MAX_LINES, characters: int = MAX_CHARACTERS) -> tuple[str, int]:
    """Text without its middle, where it is long, and how many lines that are."""
    found = text.split("\n")
    hidden = 0
    if len(found) > lines:
        head, tail = lines * 2 // 3, lines - lines * 2 // 3
        hidden = len(found) - head - tail
        found = [*found[:head], *found[-tail:]]
    room = max(80, characters // max(1, len(found)))
    shown = [line if len(line) <= room else f"{line[:room]}… ({len(line) - room} characters more)" for line in found]
    return "\n".join(shown), hidden


def tool_started_event(call: TranscriptCall | ToolUseBlock, display: str) -> ToolStarted:
    """A call that is taken up."""
    raw = call.raw_input if isinstance(call, ToolUseBlock) else None
    given = call.input if raw is None else raw
    arguments = {"(not readable)": one_line(given)} if isinstance(given, str) else dict(given)
    return ToolStarted(call.id, call.name, display, summarize_arguments(arguments), arguments)


def tool_finished_event(call: TranscriptCall, display: str, title: str = "") -> ToolFinished:
    """A call that has its result."""
    details: Any = call.details
    facts = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    output = call.output or ""
    shown, hidden = truncate_middle(output)
    return ToolFinished(
        id=call.id,
        name=call.name,
        display=display,
        summary=one_line(title) or one_line(output.split("\n", 1)[0]),
        is_error=call.is_error,
        denied=facts.get("code") == ToolErrorCode.PERMISSION_DENIED,
        output=shown,
        hidden_lines=hidden,
        diffs=_diffs(facts),
        edits=parse_edit_results(output) if call.name == "multi_edit" else (),
        seconds=round(call.seconds, 3),
        images=len(call.images),
    )


def parse_edit_results(output: str) -> tuple[EditOutcome, ...]:
    """What became of the hunks of an edit, from the text of its result."""
    found = parse_edit_outcomes(output)
    if found is None:
        return ()
    fates = [hunk.fate for hunk in found.hunks]
    reason = next((hunk.note for hunk in found.hunks if hunk.fate == "denied" and hunk.note), "")
    return (
        EditOutcome(
            path=found.path,
            applied=found.applied,
            total=len(fates),
            denied=fates.count("denied"),
            failed=fates.count("failed"),
            reason=reason,
        ),
    )


def _diffs(facts: Mapping[str, Any]) -> tuple[FileDiff, ...]:
    diff = facts.get("diff")
    if isinstance(diff, str):
        kind = "create" if facts.get("created") is True else "edit"
        return tuple([replace(each, change=kind) for each in parse_diff(diff)])
    files = facts.get("files")
    made: list[FileDiff] = []
    for entry in cast("list[Any]", files) if isinstance(files, list) else ():
        if isinstance(entry, dict) and isinstance(text := cast("dict[str, Any]", entry).get("diff"), str):
            kind = _KINDS.get(str(cast("dict[str, Any]", entry).get("action")), "edit")
            made += [replace(each, change=kind) for each in parse_diff(text, sum(len(d.hunks) for d in made))]
    return tuple(made)


_KINDS: dict[str, Any] = {"A": "create", "D": "delete", "R": "rename", "M": "edit"}
