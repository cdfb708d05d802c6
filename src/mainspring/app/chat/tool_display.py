"""How tool calls are shown: the diffs of a call, one-line summaries, and shortened output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from mainspring.events import (
    EditOutcome,
    FileDiff,
    Hunk,
    ToolDisplay,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.messages import ImageBlock, ToolResultBlock, ToolUseBlock
from mainspring.tools import ToolErrorCode
from mainspring.tools.builtin.shell import TERMINAL
from mainspring.tools.support.editing.diffs import parse_diff
from mainspring.tools.support.editing.preview import FileChange, Preview
from mainspring.tools.support.editing.review import parse_edit_outcomes


def diffs_from_preview(preview: Preview) -> tuple[FileDiff, ...]:
    """Return the changes that a call would make; several edits of one file have one hunk each."""
    if len(preview.steps) > 1 and len(preview.changes) == 1:
        change = preview.changes[0]
        file_diff = _diff_from_change(change, 0)
        hunks = tuple([_edit_hunk(step, number, len(preview.steps)) for number, step in enumerate(preview.steps)])
        return (replace(file_diff, hunks=hunks),)
    diffs: list[FileDiff] = []
    number = 0
    for change in preview.changes:
        diff = _diff_from_change(change, number)
        number += len(diff.hunks)
        diffs.append(diff)
    return tuple(diffs)


def _diff_from_change(change: FileChange, number: int) -> FileDiff:
    parsed = parse_diff(change.diff, number)
    diff = parsed[0] if parsed else FileDiff(path=change.path)
    kind = "create" if change.before is None else "delete" if change.after is None else "edit"
    note = "; ".join(filter(None, (diff.note, change.note)))
    return replace(diff, path=change.path, change=kind, note=note)


def _edit_hunk(text: str, number: int, total: int) -> Hunk:
    parts = [hunk for diff in parse_diff(text) for hunk in diff.hunks]
    lines = tuple([line for hunk in parts for line in hunk.lines])
    where = parts[0].header if parts else "no change"
    return Hunk(number, f"edit {number + 1} of {total} {where}", lines)


ToolLabeler = Callable[[str], str]
"""Returns the display name of a tool."""


MAX_LINES = 60
"""Maximum number of lines of a result in an event; longer ones lose their middle."""


MAX_CHARACTERS = 16_000
"""Maximum number of characters of a result in an event."""


_KEY_ARGUMENTS = ("command", "path", "pattern", "url", "query", "question", "title", "task", "action", "name")
"""Arguments that summarize a call, in order of preference."""


def summarize_arguments(arguments: Mapping[str, Any]) -> str:
    """Summarize a call in one line."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value.strip()}
    key = next((key for key in _KEY_ARGUMENTS if key in texts), next(iter(texts), None))
    return one_line(texts[key]) if key is not None else ""


def format_call(call: ToolUseBlock) -> str:
    """Return the title of a call whose result has none, for example, because a session does not contain it."""
    sign = "$ " if call.name == "shell" else ""
    return sign + summary if (summary := summarize_arguments(call.input)) else ""


def one_line(text: str, max_length: int = 160) -> str:
    """Put text on one line and truncate it."""
    line = " ".join(text[: max_length * 4].split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def truncate_middle(text: str, lines: int = MAX_LINES, characters: int = MAX_CHARACTERS) -> tuple[str, int]:
    """Replace the middle of a long text with the number of removed lines. Return the text and that number."""
    shown_lines = text.split("\n")
    hidden = 0
    if len(shown_lines) > lines:
        head = lines * 2 // 3
        tail = lines - head - 1
        hidden = len(shown_lines) - head - tail
        shown_lines = [*shown_lines[:head], f"[... {hidden} lines not shown ...]", *shown_lines[-tail:]]
    limit = max(80, characters // max(1, len(shown_lines)))
    shown = [
        line if len(line) <= limit else f"{line[:limit]}… ({len(line) - limit} characters more)" for line in shown_lines
    ]
    return "\n".join(shown), hidden


def is_denied(event: ToolExecutionEnd) -> bool:
    """Return True if a call was denied."""
    return event.status == "denied" or _details(event).get("code") == ToolErrorCode.PERMISSION_DENIED


def _details(event: ToolExecutionEnd) -> dict[str, Any]:
    details: Any = event.result.details
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def display_start(event: ToolExecutionStart, name: str) -> ToolExecutionStart:
    """Return the start of a call with its display, which contains the label, and without the source of the tool.

    A session does not contain the source, and a replay publishes the same events.

    Args:
        event: The event of the agent.
        name: Display name of the tool.
    """
    call = event.call
    if call.raw_input is not None:
        call = ToolUseBlock(call.id, call.name, {"(not readable)": one_line(call.raw_input)})
    display = ToolDisplay(name=name, summary=summarize_arguments(call.input))
    return replace(event, call=call, label="", source="", display=display)


def display_update(event: ToolExecutionUpdate) -> ToolExecutionUpdate:
    """Return the progress of a call without data that is only for applications."""
    metadata = {TERMINAL: event.metadata[TERMINAL]} if TERMINAL in event.metadata else {}
    return replace(event, title=one_line(event.title), metadata=metadata)


OutputLoader = Callable[[str], str | None]
"""Returns a stored output by its name, or None if it does not exist anymore."""

SPOOL = "spool"
"""Key of the details of a result: the file with the whole output of a command."""


def display_end(
    event: ToolExecutionEnd, name: str, image_count: int = 0, *, load_output: OutputLoader | None = None
) -> ToolExecutionEnd:
    """Return the end of a call with its display, and its result shortened and without images and details.

    Args:
        event: The event of the agent.
        name: Display name of the tool.
        image_count: Number of images that the result does not contain.
        load_output: Loads a stored output by its name. The result is then complete, and its details name the file with the whole
            output of a command. Without it, the result is shortened.
    """
    result, content = event.result, event.result.content
    facts = _details(event)
    if not isinstance(content, str):
        image_count += sum(isinstance(block, ImageBlock) for block in content)
    spool = None
    if load_output is None:
        shown, hidden = truncate_middle(result.text)
    else:
        stored = facts.get("context_output")
        shown, hidden = (load_output(stored) if isinstance(stored, str) else None) or result.text, 0
        spool = facts.get("persisted") or (facts.get(SPOOL) if facts.get("truncated") else None)
    status = event.status
    if status == "ok" and result.is_error:
        status = "denied" if is_denied(event) else "error"
    return replace(
        event,
        result=ToolResultBlock(
            result.tool_use_id, result.name, shown, result.is_error, {SPOOL: spool} if spool else None
        ),
        seconds=round(event.seconds, 3),
        status=status,
        display=ToolDisplay(
            name=name,
            summary=one_line(event.title) or one_line(result.text.split("\n", 1)[0]),
            hidden_lines=hidden,
            diffs=_diffs(facts),
            edits=parse_edit_results(result.text) if event.call.name == "multi_edit" else (),
            images=image_count,
        ),
    )


def parse_edit_results(output: str) -> tuple[EditOutcome, ...]:
    """Parse the result of an edit: how many of its changes were applied, denied, and failed."""
    outcomes = parse_edit_outcomes(output)
    if outcomes is None:
        return ()
    fates = [hunk.fate for hunk in outcomes.hunks]
    reason = next((hunk.note for hunk in outcomes.hunks if hunk.fate == "denied" and hunk.note), "")
    return (
        EditOutcome(
            path=outcomes.path,
            applied=outcomes.applied,
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
    diffs: list[FileDiff] = []
    for entry in cast("list[Any]", files) if isinstance(files, list) else ():
        if isinstance(entry, dict) and isinstance(text := cast("dict[str, Any]", entry).get("diff"), str):
            kind = _KINDS.get(str(cast("dict[str, Any]", entry).get("action")), "edit")
            diffs += [replace(each, change=kind) for each in parse_diff(text, sum(len(d.hunks) for d in diffs))]
    return tuple(diffs)


_KINDS: dict[str, Any] = {"A": "create", "D": "delete", "R": "rename", "M": "edit"}
