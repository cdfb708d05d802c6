"""`ConfinedEnv`: an environment that is limited to the files of the workspace, and can be made read-only."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar, Unpack

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import RealPath, resolve
from mainspring.env.local_files import FilesBelow
from mainspring.env.paths import is_inside
from mainspring.env.protocol import ExecutionEnv, ProcessConnection
from mainspring.env.types import (
    DirEntry,
    FileStat,
    ProcessResult,
    RunOptions,
    WalkOptions,
    WalkResult,
)
from mainspring.env.wrapper import EnvWrapper

_T = TypeVar("_T")

_ALLOWED_PROGRAMS = ("rg",)
"""Programs that only read, and only below the folder in which they are started."""


class ConfinedEnv(EnvWrapper[ExecutionEnv]):
    """A limited view of another environment. An `ExecutionEnv`.

    Every path is resolved through its links first, so that none leads out of the workspace. Scripts and programs are rejected, except
    ripgrep, since this class cannot confine them. To run confined commands, use an environment with a sandbox. `realpath`
    resolves paths outside the workspace too; only their use is rejected.

    Args:
        env: The environment; it is closed with this one.
        roots: Folders that may be used in addition to the project's folder.
        writable: Whether files may be changed.
    """

    def __init__(self, env: ExecutionEnv, *, roots: Sequence[str] = (), writable: bool = True) -> None:
        super().__init__(env)
        self._roots = (env.cwd, *roots)
        self._real_roots: tuple[str, ...] | None = None
        self.writable = writable

    async def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        return await super().stat(await self._resolve_inside(path))

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        return await super().read_bytes(await self._resolve_inside(path), offset=offset, limit=limit)

    async def read_files(
        self, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
    ) -> list[bytes | OSError]:
        """See `BatchReader`."""
        checked = [await self._resolve_or_error(path) for path in paths]
        inside = [path for path in checked if isinstance(path, str)]
        contents = iter(await super().read_files(inside, limit=limit, signal=signal))
        return [path if isinstance(path, OSError) else next(contents) for path in checked]

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """See `ExecutionEnv.write_bytes`."""
        self._check_writable(path)
        await super().write_bytes(await self._resolve_inside(path), data, parents=parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return await super().list_dir(await self._resolve_inside(path))

    async def walk(self, path: str, **options: Unpack[WalkOptions]) -> WalkResult:
        """See `ExecutionEnv.walk`."""
        return await super().walk(await self._resolve_inside(path), **options)

    async def is_ignored(self, path: str) -> bool:
        """See `ExecutionEnv.is_ignored`."""
        return await super().is_ignored(await self._resolve_inside(path))

    async def inspect_folder(self, root: RealPath, work: Callable[[FilesBelow], _T]) -> _T | None:
        """See `FolderInspector`."""
        return await super().inspect_folder(await self._resolve_inside(root), work)

    async def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        self._check_writable(path)
        await super().remove(await self._resolve_entry_inside(path))

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """See `ExecutionEnv.rename`."""
        self._check_writable(source)
        old, new = await self._resolve_entry_inside(source), await self._resolve_entry_inside(target)
        await super().rename(old, new, parents=parents)

    async def run(self, command: Sequence[str] | str, **options: Unpack[RunOptions]) -> ProcessResult:
        """See `ExecutionEnv.run`; only ripgrep may run."""
        if isinstance(command, str) or not await self._is_allowed_program(command[0]):
            self._refuse_programs()
        options["cwd"] = await self._resolve_inside(options.get("cwd") or ".")
        return await super().run(command, **options)

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """See `ExecutionEnv.connect`; rejected."""
        self._refuse_programs()

    async def _is_allowed_program(self, program: str) -> bool:
        return any([await self._env.find_program(name) == program for name in _ALLOWED_PROGRAMS])

    async def _resolve_inside(self, path: str) -> RealPath:
        """Return the resolved path if it is in the workspace."""
        real = await resolve(self._env, path)
        if self._real_roots is None:
            self._real_roots = tuple([await self._env.realpath(root) for root in self._roots])
        if not any(is_inside(real, root) for root in self._real_roots):
            raise PermissionError(errno.EPERM, f"it is outside the workspace ({', '.join(self._real_roots)})", path)
        return real

    async def _resolve_or_error(self, path: str) -> RealPath | OSError:
        try:
            return await self._resolve_inside(path)
        except OSError as e:
            return e

    async def _resolve_entry_inside(self, path: str) -> RealPath:
        """Return the path of a name itself, without following it, if its folder is in the workspace."""
        folder, name = posixpath.split(path.rstrip("/"))
        return await self._resolve_inside(RealPath(folder) if isinstance(path, RealPath) else folder or ".") / name

    def _check_writable(self, path: str) -> None:
        if not self.writable:
            raise PermissionError(errno.EPERM, "the workspace is read-only", path)

    def _refuse_programs(self) -> NoReturn:
        reason = "they could access files outside the workspace" if self.writable else "they could write"
        raise PermissionError(
            errno.EPERM, f"programs cannot run here, since {reason}; use an environment with a sandbox"
        )
