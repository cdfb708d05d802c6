"""`ConfinedEnv`: an environment that is limited to the files of the workspace, and can be made read-only."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, TypeVar

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import RealPath, resolve
from mainspring.env.jobs import JobManager
from mainspring.env.local_files import LocalFiles
from mainspring.env.paths import is_inside
from mainspring.env.protocol import ExecutionEnv, OnFiles, ProcessConnection
from mainspring.env.types import (
    DEFAULT_OUTPUT_LIMITS,
    DirEntry,
    FileStat,
    HttpResponse,
    OutputLimits,
    ProcessResult,
    StreamName,
    WalkResult,
)

_T = TypeVar("_T")

_ALLOWED_PROGRAMS = ("rg",)
"""Programs that only read, and only below the folder in which they are started."""


class ConfinedEnv:
    """A limited view of another environment. An `ExecutionEnv`.

    Every path is resolved through its links first, so that none leads out of the workspace. Scripts and programs are rejected, except
    ripgrep, since this class cannot confine them. To run confined commands, use an environment with a sandbox.

    Args:
        env: The environment; it is closed with this one.
        roots: Folders that may be used in addition to the project's folder.
        writable: Whether files may be changed.
    """

    def __init__(self, env: ExecutionEnv, *, roots: Sequence[str] = (), writable: bool = True) -> None:
        self._env = env
        self._roots = (env.cwd, *roots)
        self._real_roots: tuple[str, ...] | None = None
        self.writable = writable
        self.path_filter: Any = env.path_filter
        self.scratch: dict[str, Any] = env.scratch

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._env.cwd

    @property
    def jobs(self) -> JobManager:
        """See `ExecutionEnv`; always empty."""
        return self._env.jobs

    async def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`. Paths outside the workspace are resolved too; only their use is rejected."""
        return await self._env.realpath(path)

    async def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        return await self._env.stat(await self._resolve_inside(path))

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        return await self._env.read_bytes(await self._resolve_inside(path), offset=offset, limit=limit)

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """See `ExecutionEnv.write_bytes`."""
        self._check_writable(path)
        await self._env.write_bytes(await self._resolve_inside(path), data, parents=parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return await self._env.list_dir(await self._resolve_inside(path))

    async def walk(
        self,
        path: str,
        *,
        depth: int | None = None,
        include_ignored: bool = False,
        limit: int = 200_000,
        signal: CancelToken | None = None,
    ) -> WalkResult:
        """See `ExecutionEnv.walk`."""
        real = await self._resolve_inside(path)
        return await self._env.walk(real, depth=depth, include_ignored=include_ignored, limit=limit, signal=signal)

    async def is_ignored(self, path: str) -> bool:
        """See `ExecutionEnv.is_ignored`."""
        return await self._env.is_ignored(await self._resolve_inside(path))

    async def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        self._check_writable(path)
        await self._env.remove(await self._resolve_entry_inside(path))

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """See `ExecutionEnv.rename`."""
        self._check_writable(source)
        old, new = await self._resolve_entry_inside(source), await self._resolve_entry_inside(target)
        await self._env.rename(old, new, parents=parents)

    async def on_files(self, work: Callable[[LocalFiles], _T]) -> _T | None:
        """See `OnFiles`: the files of the wrapped environment, if it has any."""
        return await self._env.on_files(work) if isinstance(self._env, OnFiles) else None

    async def find_program(self, name: str) -> str | None:
        """See `ExecutionEnv.find_program`."""
        return await self._env.find_program(name)

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        on_output: Callable[[StreamName, bytes], object] | None = None,
        signal: CancelToken | None = None,
        limits: OutputLimits = DEFAULT_OUTPUT_LIMITS,
    ) -> ProcessResult:
        """See `ExecutionEnv.run`; only ripgrep may run."""
        if isinstance(command, str) or not await self._is_allowed_program(command[0]):
            self._refuse_programs()
        return await self._env.run(
            command,
            cwd=await self._resolve_inside(cwd or "."),
            env=env,
            timeout=timeout,
            stdin=stdin,
            on_output=on_output,
            signal=signal,
            limits=limits,
        )

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """See `ExecutionEnv.connect`; rejected."""
        self._refuse_programs()

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """See `ExecutionEnv.fetch`."""
        return await self._env.fetch(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """See `ExecutionEnv.lock`."""
        return self._env.lock(path)

    async def aclose(self) -> None:
        """See `ExecutionEnv.aclose`."""
        await self._env.aclose()

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
