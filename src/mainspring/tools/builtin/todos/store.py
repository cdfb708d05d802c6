"""Where lists are kept."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv
from mainspring.lazy import lazy_re
from mainspring.tools.tool import ToolContext

TODOS = "todos"
"""Key in `ToolContext.extra` of a `TodoStore`; without one a list lives as long as the environment."""

Status = Literal["pending", "in_progress", "completed", "cancelled"]

_PLAIN = lazy_re(r"[A-Za-z0-9_-]{1,80}")


class Todo(Struct, frozen=True):
    """One thing to do."""

    content: str
    status: Status = "pending"


class TodoStore(Protocol):
    """Keeps a list for each session."""

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        """The list of a session; empty if there is none."""
        ...

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        """Replace the list of a session."""
        ...


class EnvTodos:
    """Lists in files of an environment, one for each session. A `TodoStore`.

    Args:
        env: Where the files are.
        folder: The folder that holds them.
    """

    def __init__(self, env: ExecutionEnv, folder: str = "todos") -> None:
        self._env = env
        self._folder = folder

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        """The list of a session. A file that is damaged counts as none."""
        try:
            return msgspec.json.decode(await self._env.read_bytes(self._path(session_id)), type=tuple[Todo, ...])
        except (FileNotFoundError, msgspec.MsgspecError):
            return ()

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        """Replace the list of a session, whole or not at all."""
        await self._env.write_bytes(self._path(session_id), msgspec.json.encode(todos))

    def _path(self, session_id: str) -> str:
        name = session_id or "default"
        if not _PLAIN.fullmatch(name):
            name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return f"{self._folder}/{name}.json"


class _Kept:
    """Lists that live as long as the environment."""

    def __init__(self, scratch: dict[str, Any]) -> None:
        self._lists: dict[str, tuple[Todo, ...]] = scratch.setdefault(TODOS, {})

    async def load(self, session_id: str) -> tuple[Todo, ...]:
        return self._lists.get(session_id, ())

    async def save(self, session_id: str, todos: tuple[Todo, ...]) -> None:
        self._lists[session_id] = todos


def store_of(ctx: ToolContext) -> TodoStore:
    """Where the list of a call is kept."""
    return ctx.extra.get(TODOS) or _Kept(ctx.env.scratch)
