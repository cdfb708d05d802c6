"""`todo_write` and `todo_read`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from mainspring.env import explain
from mainspring.tools.builtin.todos.store import Status, Todo, store_of
from mainspring.tools.support.text_files import displayable
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

MOST = 100
_MARKS: dict[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


async def _write(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    todos = tuple([Todo(displayable(t["content"].strip()), t.get("status", "pending")) for t in arguments["todos"]])
    if any(not todo.content for todo in todos):
        text = "A todo has no content. Say in a few words what is to be done."
        return ToolResult(output=text, is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
    try:
        await store_of(ctx).save(ctx.session_id, todos)
    except OSError as e:
        return _failed("saved", e)
    return _report(todos)


async def _read(_: dict[str, Any], ctx: ToolContext) -> ToolResult:
    try:
        return _report(await store_of(ctx).load(ctx.session_id))
    except OSError as e:
        return _failed("read", e)


def _failed(what: str, error: OSError) -> ToolResult:
    text = f"The list could not be {what}: {explain(error)}. Go on without it."
    return ToolResult(output=text, is_error=True, code=ToolErrorCode.IO_ERROR)


def _report(todos: Sequence[Todo]) -> ToolResult:
    counts = Counter(todo.status for todo in todos)
    summary = (
        ", ".join([f"{counts[s]} {s.replace('_', ' ')}" for s in get_args(Status) if counts[s]]) or "nothing to do"
    )
    lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in todos]
    listed = [{"content": todo.content, "status": todo.status} for todo in todos]
    return ToolResult(output="\n".join([*lines, f"({summary})"]), title=f"Todos: {summary}", metadata={"todos": listed})


def _nothing(_: Mapping[str, Any]) -> list[Access]:
    return []


todo_write = Tool(
    name="todo_write",
    description=(
        "Keep a list of what is to be done, for work of three steps or more. Each call replaces the whole list. Mark one as "
        "in_progress before you begin it, and as completed as soon as it is done."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": MOST,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string"},
                        "status": {"type": "string", "enum": list(get_args(Status)), "default": "pending"},
                    },
                    "required": ["content"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    },
    execute=_write,
    label="Todos",
    source="builtin",
    concurrency_safe=False,
    idempotent=True,
    access=_nothing,
)
"""Replace the list of what is to be done."""

todo_read = Tool(
    name="todo_read",
    description="Show the list of what is to be done, as todo_write left it.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    execute=_read,
    label="Todos",
    source="builtin",
    idempotent=True,
    access=_nothing,
)
"""Show the list of what is to be done."""
