"""`EnvWrapper`: the base of environments that change some methods of another environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar, Unpack

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import RealPath
from mainspring.env.jobs import JobManager
from mainspring.env.local_files import FilesBelow
from mainspring.env.protocol import ExecutionEnv, FolderInspector, ProcessConnection, read_files
from mainspring.env.types import (
    DirEntry,
    FileStat,
    HttpResponse,
    PathFilter,
    ProcessResult,
    RunOptions,
    WalkOptions,
    WalkResult,
)

_T = TypeVar("_T")
EnvT = TypeVar("EnvT", bound=ExecutionEnv)


class EnvWrapper(Generic[EnvT]):
    """Forward every method to another environment. An `ExecutionEnv`.

    A method that a subclass does not override is not checked or changed by the subclass, so decide about each one. Methods that only
    some environments have belong in the subclasses, except `inspect_folder` and `read_files`, since code checks for them with `isinstance`.

    Args:
        env: The environment; it is closed with this one.
    """

    def __init__(self, env: EnvT) -> None:
        self._env = env
        self.path_filter: PathFilter | None = env.path_filter
        self.scratch: dict[str, Any] = env.scratch

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._env.cwd

    @property
    def jobs(self) -> JobManager:
        """The background commands. See `ExecutionEnv.jobs`."""
        return self._env.jobs

    async def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`."""
        return await self._env.realpath(path)

    async def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        return await self._env.stat(path)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        return await self._env.read_bytes(path, offset=offset, limit=limit)

    async def read_files(
        self, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
    ) -> list[bytes | OSError]:
        """See `BatchReader`; an environment that cannot read many files together reads them one by one."""
        return await read_files(self._env, paths, limit=limit, signal=signal)

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """See `ExecutionEnv.write_bytes`."""
        await self._env.write_bytes(path, data, parents=parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return await self._env.list_dir(path)

    async def walk(self, path: str, **options: Unpack[WalkOptions]) -> WalkResult:
        """See `ExecutionEnv.walk`."""
        return await self._env.walk(path, **options)

    async def is_ignored(self, path: str) -> bool:
        """See `ExecutionEnv.is_ignored`."""
        return await self._env.is_ignored(path)

    async def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        await self._env.remove(path)

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """See `ExecutionEnv.rename`."""
        await self._env.rename(source, target, parents=parents)

    async def inspect_folder(self, root: RealPath, work: Callable[[FilesBelow], _T]) -> _T | None:
        """See `FolderInspector`: the files of the wrapped environment, if it has any."""
        return await self._env.inspect_folder(root, work) if isinstance(self._env, FolderInspector) else None

    async def find_program(self, name: str) -> str | None:
        """See `ExecutionEnv.find_program`."""
        return await self._env.find_program(name)

    async def run(self, command: Sequence[str] | str, **options: Unpack[RunOptions]) -> ProcessResult:
        """See `ExecutionEnv.run`."""
        return await self._env.run(command, **options)

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """See `ExecutionEnv.connect`."""
        return await self._env.connect(command, cwd=cwd, env=env)

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """See `ExecutionEnv.fetch`."""
        return await self._env.fetch(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """See `ExecutionEnv.lock`."""
        return self._env.lock(path)

    async def aclose(self) -> None:
        """See `ExecutionEnv.aclose`."""
        await self._env.aclose()
