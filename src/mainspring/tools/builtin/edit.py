"""`edit`: replace text in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainspring.lazy import later
from mainspring.tools.support.paths import accesses
from mainspring.tools.tool import Access, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.editing.apply import apply_edits
    from mainspring.tools.support.editing.replacement import Edit
else:  # loaded when an edit comes
    apply_edits = later("mainspring.tools.support.editing.apply", "apply_edits")
    Edit = later("mainspring.tools.support.editing.replacement", "Edit")

EDIT_PROPERTIES: dict[str, Any] = {
    "old_string": {"type": "string", "description": "Text as it stands in the file, enough of it to be unique."},
    "new_string": {"type": "string", "description": "What to put in its place."},
    "replace_all": {"type": "boolean", "default": False, "description": "Replace every place."},
}
"""JSON Schema of what an edit says, but for the file."""


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    return await apply_edits(ctx, arguments["path"], [edit_from(arguments)])


def edit_from(arguments: Mapping[str, Any]) -> Edit:
    """The edit that a call's arguments describe."""
    return Edit(arguments["old_string"], arguments["new_string"], bool(arguments.get("replace_all", False)))


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return accesses("fs-write", arguments)


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
    execute=_execute,
    label="Edit",
    source="builtin",
    concurrency_safe=False,
    access=_access,
    path_params=("path",),
)
"""Replace text in a file."""
