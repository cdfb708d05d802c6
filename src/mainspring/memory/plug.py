"""The memory plugin: adds notes to the system prompt, and gives the model the tool `remember`."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from mainspring.errors import MainspringError
from mainspring.loop.hooks import SessionStart, SystemTransform
from mainspring.memory.notes import (
    MAX_PROMPT_BYTES,
    SECTIONS,
    MemoryFile,
    MemoryFiles,
    NoteSection,
    add_note,
    find_memory_files,
    render_prompt,
    validate_note,
)
from mainspring.threads import run_in_thread
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult, define_tool

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

Where = Literal["user", "project"]
"""Scope of a note: the user in every folder, or this project."""


class Note(Struct, frozen=True):
    """A note to store.

    Attributes:
        text: The note, one line.
        section: Its section.
        where: Its scope.
        path: The file that stores it.
    """

    text: str
    section: NoteSection
    where: Where
    path: str


ConfirmNote = Callable[[Note], "bool | Awaitable[bool]"]
"""Asks the user whether to store a note. Sync or async; a sync function runs in a thread, so it may block."""

_DESCRIPTION = (
    "Keep a note for later conversations. Use it when the user asks to remember something, or says how they want things done "
    "in general. One short sentence of fact or preference; no secrets, nothing that only matters now. The user confirms it."
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "description": "What to remember, in one sentence."},
        "section": {
            "type": "string",
            "enum": list(SECTIONS),
            "description": "Preferences: how the user wants things. Context: how things are. Learned Patterns: what worked.",
        },
        "where": {
            "type": "string",
            "enum": ["user", "project"],
            "description": "project: about this project only (the default). user: holds everywhere.",
        },
    },
    "required": ["note"],
    "additionalProperties": False,
}


class Memory:
    """Remembers notes across conversations. The files are read once, when a conversation starts, so that the prompt stays the same.

    A note is stored only after the user confirms it: text from a file or page must not become part of every later conversation.

    Args:
        user: The user's own file. ``None`` for none.
        project: The project's file. ``None`` for none, for example, in a folder that the user does not trust.
        confirm: Asks the user about each note. Without it, nothing can be stored, and the model does not get the tool.
    """

    def __init__(
        self,
        user: MemoryFile | str | os.PathLike[str] | None = None,
        project: MemoryFile | str | os.PathLike[str] | None = None,
        *,
        confirm: ConfirmNote | None = None,
    ) -> None:
        self.files = MemoryFiles(_to_memory_file(user), _to_memory_file(project))
        self.confirm = confirm
        self.problems: list[str] = []
        self._part: str | None = None
        self._joined: tuple[str, str] = ("", "")

    @classmethod
    def for_folder(
        cls,
        cwd: str | os.PathLike[str],
        home: str | os.PathLike[str] | None,
        *,
        trusted: bool = True,
        confirm: ConfirmNote | None = None,
    ) -> Memory:
        """Return the memory of a folder: ``MEMORY.md`` in ``home``, and ``.agent/MEMORY.md`` in ``cwd`` if that is trusted."""
        found = find_memory_files(cwd, home)
        return cls(found.user, found.project if trusted else None, confirm=confirm)

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        agent.bus.on(SessionStart, self._on_session_start)
        agent.bus.on(SystemTransform, self._system)
        if self.confirm is not None and (self.files.user or self.files.project):
            agent.tools.add(self.tool())

    def for_child(self) -> Memory:
        """Return the memory for a subagent, which can read notes but not add any."""
        return Memory(self.files.user, self.files.project)

    def read(self) -> str:
        """Return the part of the system prompt with the memory, read now. Read errors are added to `problems`."""
        sources: list[tuple[str, str]] = []
        for name, file in (("user", self.files.user), ("project", self.files.project)):
            try:
                sources.append((name, "" if file is None else file.read()))
            except MainspringError as error:
                self.problems.append(str(error))
        return render_prompt(sources)

    async def remember(self, text: str, *, section: NoteSection = "Context", where: Where = "project") -> str:
        """Store a note, once it is confirmed.

        Returns:
            What was done, for the model and the user.

        Raises:
            ValueError: If the note is invalid.
            PermissionError: If the user did not confirm it.
            MainspringError: If the file cannot be written.
        """
        file = self.files.project if where == "project" else self.files.user
        file = file or self.files.user or self.files.project
        if file is None:
            raise MainspringError(
                "There is no place for memory: no home directory, and no trusted project. Set MAINSPRING_HOME."
            )
        note = validate_note(text)
        if not await self._confirm(
            Note(note, section, "user" if file is self.files.user else "project", str(file.path))
        ):
            raise PermissionError("the note was not confirmed, so it was not kept; do not try again")
        sizes: list[int] = []

        def edit(old: str) -> str:
            new = add_note(old, note, section)
            sizes.append(len(new.encode()))
            return new

        if not await asyncio.to_thread(file.change, edit):
            return f"It was remembered already, in {file.path}."
        full = (
            f" The file has {sizes[0]} bytes, of which {MAX_PROMPT_BYTES} are read: it needs tidying."
            if sizes[0] > MAX_PROMPT_BYTES
            else ""
        )
        return f"Remembered in {file.path}, under {section}.{full}"

    def tool(self) -> Tool:
        """The tool `remember`."""

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            del ctx
            section, where = arguments.get("section", "Context"), arguments.get("where", "project")
            try:
                said = await self.remember(arguments["note"], section=section, where=where)
            except ValueError as error:
                return ToolResult(output=f"Not remembered: {error}", is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
            except PermissionError as error:
                return ToolResult(
                    output=f"Not remembered: {error}", is_error=True, code=ToolErrorCode.PERMISSION_DENIED
                )
            except MainspringError as error:
                return ToolResult(output=f"Not remembered: {error}", is_error=True, code=ToolErrorCode.IO_ERROR)
            return ToolResult(output=said, title=arguments["note"][:80])

        return define_tool(
            "remember",
            description=_DESCRIPTION,
            parameters=_SCHEMA,
            execute=execute,
            source="builtin",
            concurrency_safe=False,
            access=self._access,
        )

    def _access(self, arguments: Mapping[str, Any]) -> Sequence[Access]:
        wanted = self.files.user if arguments.get("where") == "user" else self.files.project
        file = wanted or self.files.user or self.files.project
        return () if file is None else (Access("fs-write", str(file.path)),)

    async def _confirm(self, note: Note) -> bool:
        if self.confirm is None:
            return False
        if inspect.iscoroutinefunction(self.confirm):
            answer = self.confirm(note)
        else:
            answer = await run_in_thread(self.confirm, note)
        return (await answer if inspect.isawaitable(answer) else answer) is True

    async def _on_session_start(self, hook: SessionStart) -> None:
        if self._part is None or not hook.resumed:
            self._part = await asyncio.to_thread(self.read)

    def _system(self, hook: SystemTransform) -> None:
        if not self._part:
            return
        if self._joined[0] != hook.system or not self._joined[1]:
            self._joined = (hook.system, f"{hook.system}\n\n{self._part}" if hook.system else self._part)
        hook.system = self._joined[1]


def _to_memory_file(given: MemoryFile | str | os.PathLike[str] | None) -> MemoryFile | None:
    return given if isinstance(given, MemoryFile) or given is None else MemoryFile(given)
