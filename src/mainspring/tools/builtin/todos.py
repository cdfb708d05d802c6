"""`todo_write` and `todo_read`, and the stores of their lists."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, explain
from mainspring.lazy import lazy_re
from mainspring.tools.support.text_files import replace_surrogates
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolResult, no_access

TODO_STORE_KEY = "todos"
"""Key in `ToolContext.extra` of a `TodoStore`; without a store, a list exists as long as its environment."""


Status = Literal["pending", "in_progress", "completed", "cancelled"]


_PLAIN = lazy_re(r"[A-Za-z0-9_-]{1,80}")


class Todo(Struct, frozen=True):
    """A todo."""

    content: str
    status: Status = "pending"


class TodoStore(Protocol):
    """Store of a todo list for each session."""

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        """Return the list of a session; empty if the session has no list."""
        ...

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        """Replace the list of a session."""
        ...


class EnvTodoStore:
    """A `TodoStore` in files of an environment, one file for each session.

    Args:
        env: Environment of the files.
        folder: Folder of the files.
    """

    def __init__(self, env: ExecutionEnv, folder: str = "todos") -> None:
        self._env = env
        self._folder = folder

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        """Return the list of a session. A damaged file is treated as missing."""
        try:
            return msgspec.json.decode(await self._env.read_bytes(self._path(session_id)), type=tuple[Todo, ...])
        except (FileNotFoundError, msgspec.MsgspecError):
            return ()

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        """Replace the list of a session atomically."""
        await self._env.write_bytes(self._path(session_id), msgspec.json.encode(todos))

    def _path(self, session_id: str) -> str:
        name = session_id or "default"
        if not _PLAIN.fullmatch(name):
            name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return f"{self._folder}/{name}.json"


class _MemoryTodoStore:
    """Lists in memory, as long as the environment exists."""

    def __init__(self, scratch: dict[str, Any]) -> None:
        self._lists: dict[str, tuple[Todo, ...]] = scratch.setdefault(TODO_STORE_KEY, {})

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        return self._lists.get(session_id, ())

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        self._lists[session_id] = todos


def get_todo_store(ctx: ToolContext) -> TodoStore:
    """Return the store for the list of a call."""
    return ctx.extra.get(TODO_STORE_KEY) or _MemoryTodoStore(ctx.env.scratch)


MAX_TODOS = 100
_MARKS: dict[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


async def _write(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    todos = tuple(
        [Todo(replace_surrogates(t["content"].strip()), t.get("status", "pending")) for t in arguments["todos"]]
    )
    if any(not todo.content for todo in todos):
        text = "A todo has no content. Describe the task in a few words."
        return ToolResult(output=text, is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
    try:
        await get_todo_store(ctx).save(ctx.session_id, todos)
    except OSError as e:
        return _error("saved", e)
    return _report(todos)


async def _read(_: dict[str, Any], ctx: ToolContext) -> ToolResult:
    try:
        return _report(await get_todo_store(ctx).load(ctx.session_id))
    except OSError as e:
        return _error("read", e)


def _error(subject: str, error: OSError) -> ToolResult:
    text = f"The list could not be {subject}: {explain(error)}. Continue without it."
    return ToolResult(output=text, is_error=True, code=ToolErrorCode.IO_ERROR)


def _report(todos: Sequence[Todo]) -> ToolResult:
    counts = Counter(todo.status for todo in todos)
    summary = (
        ", ".join([f"{counts[s]} {s.replace('_', ' ')}" for s in get_args(Status) if counts[s]]) or "nothing to do"
    )
    lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in todos]
    listed = [{"content": todo.content, "status": todo.status} for todo in todos]
    return ToolResult(output="\n".join([*lines, f"({summary})"]), title=summary, metadata={"todos": listed})


todo_write = Tool(
    name="todo_write",
    description=(
        "Keep a list of tasks, for work of three steps or more. Each call replaces the whole list. Mark one as "
        "in_progress before you begin it, and as completed as soon as it is done."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": MAX_TODOS,
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
    access=no_access,
)
"""Replace the todo list."""


todo_read = Tool(
    name="todo_read",
    description="Show the list of tasks that todo_write stored.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    execute=_read,
    label="Todos",
    source="builtin",
    idempotent=True,
    access=no_access,
)
"""Return the todo list."""
