"""`edit` and `multi_edit`: replace text in a file.

`multi_edit` makes several edits in one file, all or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.env.paths import display_path
from mainspring.lazy import lazy_function
from mainspring.tools.support.editing.review import (
    APPROVE_HUNK,
    EditOutcomes,
    ReviewedEdit,
    format_edit_outcomes,
    request_decisions,
)
from mainspring.tools.support.paths import failure, file_accesses
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.editing.apply import apply_edits
    from mainspring.tools.support.editing.replacement import Edit
else:
    apply_edits = lazy_function("mainspring.tools.support.editing.apply", "apply_edits")
    Edit = lazy_function("mainspring.tools.support.editing.replacement", "Edit")


EDIT_PROPERTIES: dict[str, Any] = {
    "old_string": {"type": "string", "description": "Exact text of the file, enough of it to be unique."},
    "new_string": {"type": "string", "description": "What to put in its place."},
    "replace_all": {"type": "boolean", "default": False, "description": "Replace every place."},
}
"""JSON Schema properties of an edit, without the file."""


async def _execute_edit(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    return await apply_edits(ctx, arguments["path"], [parse_edit(arguments)])


def parse_edit(arguments: Mapping[str, Any]) -> Edit:
    """Return the edit that the arguments of a call describe."""
    return Edit(arguments["old_string"], arguments["new_string"], bool(arguments.get("replace_all", False)))


def _edit_access(arguments: Mapping[str, Any]) -> list[Access]:
    return file_accesses("fs-write", arguments)


edit = Tool(
    name="edit",
    description=(
        "Replace text in a file. old_string must occur exactly once, or set replace_all. White space counts; leave out the "
        "line numbers that read_file shows."
    ),
    input_schema={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "The file."}, **EDIT_PROPERTIES},
        "required": ["path", "old_string", "new_string"],
        "additionalProperties": False,
    },
    execute=_execute_edit,
    label="Edit",
    source="builtin",
    concurrency_safe=False,
    access=_edit_access,
    path_params=("path",),
)
"""Replace text in a file."""


async def _execute_multi_edit(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    edits = [parse_edit(e) for e in arguments["edits"]]
    if not edits:
        return failure(ToolErrorCode.VALIDATION_ERROR, "edits is empty. Give at least one edit.")
    if APPROVE_HUNK in ctx.extra:
        return await _execute_with_approval(ctx, arguments["path"], edits)
    return await apply_edits(ctx, arguments["path"], edits)


async def _execute_with_approval(ctx: ToolContext, path: str, edits: Sequence[Edit]) -> ToolResult:
    """Make the approved edits, all or none of them, and report the outcome of each."""
    answers = await request_decisions(ctx, path, edits)
    approved = [i for i, answer in enumerate(answers) if answer is True]
    denied = [ReviewedEdit("denied", answer if isinstance(answer, str) else "") for answer in answers]
    if not approved:
        body = format_edit_outcomes(EditOutcomes(display_path(path), tuple(denied)))
        return failure(ToolErrorCode.PERMISSION_DENIED, f"{body}\nNothing was changed: no edit was approved.")
    result = await apply_edits(ctx, path, [edits[i] for i in approved])
    failed = result.metadata.get("failed_edit")
    if result.is_error and failed is None:
        return result
    for place, i in enumerate(approved):
        denied[i] = _edit_outcome(result, place, failed)
    name = display_path(str(result.metadata.get("path", path)), ctx.env.cwd)
    body = format_edit_outcomes(EditOutcomes(name, tuple(denied)))
    text = f"{body}\nNothing was changed. {result.text}" if result.is_error else body
    return replace(result, output=text)


def _edit_outcome(result: ToolResult, place: int, failed: int | None) -> ReviewedEdit:
    """Return the outcome of the ``place``-th attempted edit."""
    if failed is not None:
        return ReviewedEdit("failed", result.text.split("\n")[0]) if place == failed else ReviewedEdit("skipped")
    change = result.metadata["edits"][place]
    first, last = change["lines"][0]
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return ReviewedEdit("unchanged" if change["done"] else "applied", f"{where} {change['note']}".strip())


def _multi_edit_access(arguments: Mapping[str, Any]) -> list[Access]:
    return file_accesses("fs-write", arguments)


multi_edit = Tool(
    name="multi_edit",
    description="Make several edits in one file, in order, each on the result of the one before. If one fails none is made.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": EDIT_PROPERTIES,
                    "required": ["old_string", "new_string"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    },
    execute=_execute_multi_edit,
    label="Edit",
    source="builtin",
    concurrency_safe=False,
    access=_multi_edit_access,
    path_params=("path",),
)
"""Make several edits in one file, all or none."""
