"""`multi_edit`: several edits in one file, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.tools.builtin.files.apply import apply_edits
from mainspring.tools.builtin.files.edit import EDIT_PROPERTIES, edit_from
from mainspring.tools.builtin.files.names import accesses, failure
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    edits = [edit_from(e) for e in arguments["edits"]]
    if not edits:
        return failure(ToolErrorCode.VALIDATION_ERROR, "edits is empty. Give at least one edit.")
    return await apply_edits(ctx, arguments["path"], edits)


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return accesses("fs-write", arguments)


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
    execute=_execute,
    label="Edit",
    source="builtin",
    concurrency_safe=False,
    access=_access,
    path_params=("path",),
)
"""Make several edits in one file, all or none."""
