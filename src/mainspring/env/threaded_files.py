"""`ThreadedFiles`: the file methods of an environment on this machine, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import FolderCache, RealPath
from mainspring.env.local_files import FilesBelow, LocalFiles, LocalWalkSource
from mainspring.env.types import DirEntry, FileStat, WalkResult
from mainspring.env.walk import DirectoryWalker, is_ignored

_T = TypeVar("_T")

_is_in_check = ContextVar("is_in_check", default=False)
"""Whether the caller is a check that `check_in_thread` runs: its files are read in the same thread."""

_READING_METHODS = ("realpath", "stat", "read_bytes", "list_dir", "walk")


class ThreadedFiles:
    """The file methods of an `ExecutionEnv`, which do blocking work in threads.

    Args:
        files: The files, blocking.
    """

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    async def realpath(self, path: str) -> str:
        """Return the absolute path with every link resolved. See `ExecutionEnv.realpath`."""
        return await self._do(lambda: self._files.realpath(path))

    async def stat(self, path: str) -> FileStat:
        """Return facts about a file. See `ExecutionEnv.stat`."""
        return await self._with_realpath(self._files.stat, path)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Return the bytes of a regular file. See `ExecutionEnv.read_bytes`."""
        return await self._with_realpath(self._files.read, path, offset, limit)

    async def read_files(
        self, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
    ) -> list[bytes | OSError]:
        """Return the bytes of many files, read in one thread. See `BatchReader`."""
        stop = signal or CancelToken()

        def read(path: str, folders: FolderCache) -> bytes | OSError:
            try:
                if stop.cancelled:
                    raise InterruptedError
                return self._files.read(self._files.resolve(path), 0, limit, folders)
            except OSError as e:
                return e  # a list in this frame would be in a cycle with the traceback, and keep the environment alive

        def read_all() -> list[bytes | OSError]:
            with FolderCache() as folders:
                return [read(path, folders) for path in paths]

        return await self._do(read_all)

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """Replace a file's content. See `ExecutionEnv.write_bytes`."""
        await self._with_realpath(self._files.write, path, data, parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """Return the names in a folder. See `ExecutionEnv.list_dir`."""
        return await self._with_realpath(self._files.list, path)

    async def walk(
        self,
        path: str,
        *,
        depth: int | None = None,
        include_ignored: bool = False,
        limit: int = 200_000,
        signal: CancelToken | None = None,
    ) -> WalkResult:
        """Return everything below a folder. See `ExecutionEnv.walk`."""
        stop = signal or CancelToken()
        folders = LocalWalkSource(self._files)

        def walk(root: str) -> WalkResult:
            walker = DirectoryWalker(folders, root, depth=depth, limit=limit, is_cancelled=lambda: stop.cancelled)
            above = not include_ignored and not is_ignored(root, True, folders.read)
            return walker.walk(use_rules=not include_ignored, use_rules_above=above)

        return await self._with_realpath(walk, path)

    async def is_ignored(self, path: str) -> bool:
        """Return True if an ignore file excludes the path. See `ExecutionEnv.is_ignored`."""

        def check(real_path: str) -> bool:
            return is_ignored(real_path, self._files.is_folder(real_path), LocalWalkSource(self._files).read)

        return await self._with_realpath(check, path)

    async def remove(self, path: str) -> None:
        """Delete a file, a link, or an empty folder. See `ExecutionEnv.remove`."""
        await self._do(lambda: self._files.remove(self._files.resolve_entry(path)))

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """Rename a file. See `ExecutionEnv.rename`."""
        files = self._files
        await self._do(lambda: files.rename(files.resolve_entry(source), files.resolve_entry(target), parents))

    async def inspect_folder(self, root: RealPath, work: Callable[[FilesBelow], _T]) -> _T | None:
        """Do blocking work with the files below a folder. See `FolderInspector`."""

        def inspect() -> _T | None:
            return work(FilesBelow(self._files, root)) if self._files.is_local(root) else None

        return await self._do(inspect)

    async def _with_realpath(self, work: Callable[..., _T], path: str, *args: object) -> _T:
        """Do blocking work on the resolved path, in a thread."""
        return await self._do(lambda: work(self._files.resolve(path), *args))

    async def check_in_thread(self, check: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine function that only reads files in one thread. See `ChecksInThread`."""
        own = all(getattr(type(self), name) is getattr(ThreadedFiles, name) for name in _READING_METHODS)
        return await self._do(lambda: _run_now(check())) if own else await check()

    async def _do(self, work: Callable[[], _T]) -> _T:
        """Do blocking work with files in a thread: in this one, if `check_in_thread` started it."""
        return work() if _is_in_check.get() else await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Do blocking work with files in another thread."""
        return await asyncio.to_thread(work)


def _run_now(check: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end in this thread. It never suspends, since each method that it awaits works in this thread."""
    token = _is_in_check.set(True)
    try:
        check.send(None)
    except StopIteration as end:
        return end.value
    finally:
        _is_in_check.reset(token)
        check.close()
    raise RuntimeError("A check in a thread may wait only for methods that read files.")
