"""Preview the effect of a file tool's call: the tool runs on a copy in memory, and nothing is written."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mainspring.env import ExecutionEnv, FileStat
from mainspring.env.beneath import RealPath, resolve
from mainspring.env.paths import display_path
from mainspring.lazy import lazy_function
from mainspring.threads import run_in_thread
from mainspring.tools.support.text_files import decode_text
from mainspring.tools.tool import Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.editing.diffs import compute_diff
else:  # loaded for the first preview
    compute_diff = lazy_function("mainspring.tools.support.editing.diffs", "compute_diff")

PREVIEWABLE_TOOLS = frozenset({"write_file", "edit", "multi_edit", "apply_patch"})
"""Tools whose calls can be previewed."""


_MAX_BYTES = 16 << 20
_MAX_SHOWN_BYTES = 256 << 10
"""Maximum size of the diff of a call with its own preview, which users must see whole."""


class FileChange(Struct, frozen=True, kw_only=True):
    """Change to a file.

    Attributes:
        path: Name of the file, relative to the project folder if inside it.
        before: Current content; ``None`` if the file does not exist or is too large to read.
        after: Exact new content; ``None`` if the file would be removed.
        diff: Difference as a unified diff, cut if it is long.
        note: Change that the diff does not show, for example, of all line endings.
    """

    path: str
    before: bytes | None
    after: bytes | None
    diff: str = ""
    note: str = ""

    @property
    def change_key(self) -> tuple[str, tuple[str, ...]]:
        """Changed lines without their position in the file: the change that the user approved."""
        lines = self.diff.splitlines()[2:]
        if not lines:
            return self.path, (repr(self.after),)
        return self.path, tuple([line for line in lines if line[:1] in "+-("])


class Preview(Struct, frozen=True):
    """Effect of a call.

    Attributes:
        changes: Changes to files, in order.
        steps: Diff of each edit of a ``multi_edit``.
        problem: Result of the tool if the call would fail.
        is_tool_error: Whether the tool itself reports the problem, so that the call certainly fails as long as the files stay the same.
    """

    changes: tuple[FileChange, ...] = ()
    steps: tuple[str, ...] = ()
    problem: str = ""
    is_tool_error: bool = False

    def has_same_changes(self, other: Preview) -> bool:
        """Return True if another preview makes the same changes, possibly at other lines."""
        return not (self.problem or other.problem) and [c.change_key for c in self.changes] == [
            c.change_key for c in other.changes
        ]


async def preview_changes(
    tool: Tool, arguments: Mapping[str, Any], env: ExecutionEnv, paths: Mapping[str, str] | None = None
) -> Preview | None:
    """Preview a call.

    Args:
        tool: Tool of the call.
        arguments: Final arguments.
        env: Environment of the call; it is only read.
        paths: Approved real paths by the paths of the call.

    Returns:
        The effect; ``None`` for a tool that has no preview and is not in `PREVIEWABLE_TOOLS`.
    """
    if tool.preview is not None:
        return await run_in_thread(_preview_contents, tool.preview, arguments, env.cwd)
    if tool.name not in PREVIEWABLE_TOOLS or tool.source != "builtin":
        return None
    overlay = _OverlayEnv(env)
    result = await _run_on_overlay(tool, arguments, overlay, paths)
    if result.is_error:
        return Preview(problem=result.text, is_tool_error=True)
    steps: list[str] = []
    edits: Sequence[Any] = arguments.get("edits", ()) if tool.name == "multi_edit" else ()
    if len(edits) > 1:
        apart = _OverlayEnv(env)
        for edit in edits:
            one = await _run_on_overlay(tool, {**arguments, "edits": [edit]}, apart, paths)
            steps.append(str(one.metadata.get("diff", "")))
    return Preview(await asyncio.to_thread(_changes, overlay), tuple(steps))


def _preview_contents(
    preview: Callable[[Mapping[str, Any]], Mapping[str, str]], arguments: Mapping[str, Any], cwd: str
) -> Preview:
    """Preview a call by the files that it would write on this machine."""
    try:
        contents = preview(arguments)
        changes = [(path, _read_file(path), text.encode("utf-8", "replace")) for path, text in contents.items()]
    except (OSError, ValueError) as error:
        return Preview(problem=str(error))
    return Preview(
        tuple(
            [_change(display_path(path, cwd), old, new, _MAX_SHOWN_BYTES) for path, old, new in changes if old != new]
        )
    )


def _read_file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as stream:
            return stream.read(_MAX_BYTES)
    except FileNotFoundError:
        return None


async def _run_on_overlay(
    tool: Tool, arguments: Mapping[str, Any], overlay: _OverlayEnv, paths: Mapping[str, str] | None
) -> ToolResult:
    return await tool(ToolContext(env=cast("ExecutionEnv", overlay), paths=paths), **arguments)


def _changes(overlay: _OverlayEnv) -> tuple[FileChange, ...]:
    changes: list[FileChange] = []
    for real, after in overlay.contents.items():
        before = overlay.was.get(real)
        if before != after and not (before is None and after is None):
            changes.append(_change(display_path(real, overlay.cwd), before, after))
    return tuple(changes)


def _change(path: str, before: bytes | None, after: bytes | None, max_diff_bytes: int | None = None) -> FileChange:
    old, new = (decode_text(data) if data is not None else None for data in (before, after))
    if (before is not None and old is None) or (after is not None and new is None):
        return FileChange(path=path, before=before, after=after, note="it is binary")
    a, b = old.text if old else "", new.text if new else ""
    notes: list[str] = []
    if old and new:
        if "\r\n" in a and "\r\n" not in b:
            notes.append("lines that ended in CRLF end in LF")
        if "\r\n" not in a and "\r\n" in b:
            notes.append("lines that ended in LF end in CRLF")
        if old.encoding_note != new.encoding_note:
            notes.append(f"the encoding becomes {new.encoding_note or 'UTF-8'}")
    diff = compute_diff(a, b, path) if max_diff_bytes is None else compute_diff(a, b, path, max_bytes=max_diff_bytes)
    return FileChange(path=path, before=before, after=after, diff=diff.text, note="; ".join(notes))


class _OverlayEnv:
    """An environment with an overlay of changed files in memory.

    It supports only the methods that file tools use.
    """

    def __init__(self, env: ExecutionEnv) -> None:
        self._env = env
        self.cwd = env.cwd
        self.guard = env.path_filter
        self.scratch: dict[str, Any] = {}
        self.was: dict[str, bytes | None] = {}
        self.contents: dict[str, bytes | None] = {}

    async def realpath(self, path: str) -> str:
        return await self._env.realpath(path)

    async def stat(self, path: str) -> FileStat:
        real = await resolve(self._env, path)
        if real not in self.contents:
            return await self._env.stat(real)
        data = self.contents[real]
        if data is None:
            raise FileNotFoundError(2, "No such file", path)
        return FileStat(str(real), "file", len(data))

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        real = await resolve(self._env, path)
        if real not in self.contents:
            return await self._env.read_bytes(real, offset=offset, limit=limit)
        data = self.contents[real]
        if data is None:
            raise FileNotFoundError(2, "No such file", path)
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        real = await resolve(self._env, path)
        await self._load_original(real)
        if not parents and self.was[real] is None:
            await self._env.stat(RealPath(posixpath.dirname(real)))  # outside the project, folders are not created
        self.contents[real] = data

    async def remove(self, path: str) -> None:
        real = await resolve(self._env, path)
        await self._load_original(real)
        self.contents[real] = None

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        data = await self.read_bytes(source)
        await self.write_bytes(target, data, parents=parents)
        await self.remove(source)

    async def list_dir(self, path: str) -> Any:
        return await self._env.list_dir(path)

    async def walk(self, path: str, **options: Any) -> Any:
        return await self._env.walk(path, **options)

    async def is_ignored(self, path: str) -> bool:
        return await self._env.is_ignored(path)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def _load_original(self, real_path: RealPath) -> None:
        if real_path in self.was:
            return
        try:
            stat = await self._env.stat(real_path)
            if stat.kind != "file":
                raise IsADirectoryError(21, f"it is a {stat.kind}", real_path)
            self.was[real_path] = await self._env.read_bytes(real_path) if stat.size <= _MAX_BYTES else None
        except FileNotFoundError:
            self.was[real_path] = None
