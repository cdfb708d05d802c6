"""Apply edits to a file: read it, compute the new text, write it, and report the changes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from msgspec import Struct

from mainspring.tools.support.editing.diffs import Diff, compute_diff
from mainspring.tools.support.editing.replacement import Edit, EditChange, EditError, compute_edit
from mainspring.tools.support.paths import ResolvedFile, failure, os_error_result, resolve_file
from mainspring.tools.support.text_files import DecodedText, decode_text, replace_surrogates
from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

MAX_FILE_BYTES = 16 << 20
"""Maximum size of a file to edit, in bytes: an edit needs several copies in memory."""


class _EditResult(Struct, frozen=True):
    """Computed edits of a call."""

    data: bytes
    changes: tuple[EditChange, ...]
    diff: Diff


async def apply_edits(ctx: ToolContext, path: str, edits: Sequence[Edit]) -> ToolResult:
    """Make all edits in one file, or none."""
    found = await resolve_file(ctx, path, "edit")
    if isinstance(found, ToolResult):
        return found
    try:
        async with ctx.env.lock(found.path):
            return await _apply_locked(ctx, found, edits)
    except OSError as e:
        return os_error_result("edit", found.name, e)


async def _apply_locked(ctx: ToolContext, file: ResolvedFile, edits: Sequence[Edit]) -> ToolResult:
    stat = await ctx.env.stat(file.path)
    if stat.size > MAX_FILE_BYTES:
        text = f"Cannot edit {file.name}: it has {stat.size} bytes, and the limit is {MAX_FILE_BYTES}. Use a program in the shell."
        return failure(ToolErrorCode.VALIDATION_ERROR, text)
    before = await ctx.env.read_bytes(file.path)
    outcome = await asyncio.to_thread(_compute, before, edits, file.name)
    if isinstance(outcome, ToolResult):
        return outcome
    if outcome.data != before:
        await ctx.env.write_bytes(file.path, outcome.data)
    return _result(file, edits, outcome, stat.links)


def _compute(before: bytes, edits: Sequence[Edit], name: str) -> _EditResult | ToolResult:
    document = decode_text(before)
    if document is None:
        text = f"Cannot edit {name}: it is binary, or in an encoding that cannot be restored."
        return failure(ToolErrorCode.VALIDATION_ERROR, text)
    text = document.text
    changes: list[EditChange] = []
    if any(replace_surrogates(edit.new) != edit.new for edit in edits):
        return failure(
            ToolErrorCode.VALIDATION_ERROR,
            "new_string has half a surrogate pair, which no file can contain. Remove it.",
        )
    for i, edit in enumerate(edits):
        change = compute_edit(text, _without_bom(edit, document))
        if isinstance(change, EditError):
            which = f"Edit {i + 1} of {len(edits)} failed and none was applied. " if len(edits) > 1 else ""
            return failure(ToolErrorCode.VALIDATION_ERROR, replace_surrogates(which + change.text), failed_edit=i)
        changes.append(change)
        text = change.text
    try:
        data = document.encode(text)
    except UnicodeEncodeError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, _unencodable(name, e, document))
    return _EditResult(data, tuple(changes), compute_diff(document.text, text, name))


def _without_bom(edit: Edit, document: DecodedText) -> Edit:
    if not document.mark:
        return edit
    return Edit(edit.old.removeprefix("\ufeff"), edit.new.removeprefix("\ufeff"), edit.every)


def _unencodable(name: str, error: UnicodeEncodeError, document: DecodedText) -> str:
    return f"{name} is in {document.encoding_note or 'UTF-8'}, which has no {error.object[error.start]!r}. Nothing was changed; write it without."


def _result(file: ResolvedFile, edits: Sequence[Edit], outcome: _EditResult, links: int) -> ToolResult:
    changes = outcome.changes
    failed = [c for c in changes if not c.is_done]
    count = sum(len(c.lines) for c in failed)
    added, removed = outcome.diff.added, outcome.diff.removed
    if not failed:
        head = f"No change needed in {file.name}: already applied at line {changes[0].lines[0][0]}."
    else:
        places = f"{count} replacement{'' if count == 1 else 's'}"
        which = f"{len(edits)} edits, {places}" if len(edits) > 1 else f"{places} at {_lines(failed[0])}"
        head = f"Edited {file.name}: {which} (+{added} -{removed} lines)."
    notes = [
        f"Edit {i + 1}: {_describe_change(c)}." if len(edits) > 1 else _describe_change(c).capitalize() + "."
        for i, c in enumerate(changes)
        if c.note and failed
    ]
    if links > 1 and failed:
        notes.append(f"The file has {links} names (hard links); all show the change.")
    return ToolResult(
        output="\n".join([head, *notes]),
        title=f"{file.name}: +{added} -{removed} lines",
        metadata={
            "path": str(file.path),
            "replacements": count,
            "lines": [list(span) for c in changes for span in c.lines],
            "notes": [c.note for c in changes],
            "edits": [{"lines": [list(span) for span in c.lines], "note": c.note, "done": c.is_done} for c in changes],
            **outcome.diff.metadata,
            "hash": hashlib.sha256(outcome.data).hexdigest(),
            "changed": bool(failed),
        },
    )


def _describe_change(change: EditChange) -> str:
    if change.is_done:
        return f"already applied at line {change.lines[0][0]}: {change.note}"
    return f"matched {_lines(change)} {change.note}"


def _lines(change: EditChange) -> str:
    first, last = change.lines[0]
    if len(change.lines) > 1:
        shown = ", ".join(str(a) for a, _ in change.lines[:10])
        return f"lines {shown}" + (", …" if len(change.lines) > 10 else "")
    return f"line {first}" if first == last else f"lines {first}-{last}"
