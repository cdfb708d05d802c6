"""`EditorEnv`: an environment whose text files are those of an editor, with what is typed there and not saved yet."""

from __future__ import annotations

import codecs
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import resolve
from mainspring.env.editor_terminal import OUTPUT_BYTE_LIMIT, TerminalProvider, run_to_exit
from mainspring.env.jobs import JobManager
from mainspring.env.local import LocalEnv, find_shell
from mainspring.env.local_files import LocalFiles
from mainspring.env.paths import is_inside
from mainspring.env.protocol import PathNaming, ProcessConnection
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

T = TypeVar("T")

MAX_FILE_BYTES = 1 << 20
"""Bytes of a file above which the editor is not asked: nobody types in such a file while an agent works on it."""

_MAX_ARGUMENT_CHARS = 100_000
"""Characters of a script that still fits into an argument."""


class EditorBuffers(Protocol):
    """The files that an editor has open."""

    async def read(self, path: str) -> str | None:
        """The text as it stands in the editor; ``None`` where it has nothing to say."""
        ...

    async def write(self, path: str, text: str) -> bool:
        """Put a text in place of a file's. Says whether the editor has done it."""
        ...


class EditorEnv:
    """The environment of a machine, seen through an editor. An `ExecutionEnv`.

    Only text files of the project that are on disk are asked about; who may not read or write one there does not do it through the
    editor either. Programs, and with them searches, see what is saved.

    Args:
        env: The environment; it is closed with this one.
        buffers: The editor.
        terminals: Its terminals, if scripts may run there; nothing holds them there that holds them here.
    """

    def __init__(self, env: LocalEnv, buffers: EditorBuffers, terminals: TerminalProvider | None = None) -> None:
        self._env = env
        self._buffers = buffers
        self._terminals = terminals
        self._unsaved: dict[str, int] = {}
        self.jobs: JobManager = env.jobs
        self.guard: Any = env.guard
        self.search_path = env.search_path
        self.scratch: dict[str, Any] = env.scratch
        self.name_of: Callable[[str], str] = env.name_of if isinstance(env, PathNaming) else str

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._env.cwd

    async def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`."""
        return await self._env.realpath(path)

    async def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`; the size is that of what was read last."""
        found = await self._env.stat(path)
        size = self._unsaved.get(found.path)
        return found if size is None else replace(found, size=size)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        real = await resolve(self._env, path)
        if not is_inside(real, self.cwd) or (await self._env.stat(real)).size > MAX_FILE_BYTES:
            return await self._env.read_bytes(real, offset=offset, limit=limit)
        data = await self._seen(real, await self._env.read_bytes(real))
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def _seen(self, real: str, disk: bytes) -> bytes:
        """The content of a file, by what is on disk and what the editor says."""
        self._unsaved.pop(real, None)
        text = _text(disk)
        told = None if text is None else await self._buffers.read(str(real))
        if text is None or told is None or _is_same_text(text, told):
            return disk
        if "\r\n" in text and "\r" not in told:  # editors tell lines, not how they end
            told = told.replace("\n", "\r\n")
        mark = codecs.BOM_UTF8 if disk.startswith(codecs.BOM_UTF8) and not told.startswith("\ufeff") else b""
        data = mark + told.encode("utf-8", "surrogatepass")
        self._unsaved[real] = len(data)
        return data

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """See `ExecutionEnv.write_bytes`."""
        real = await resolve(self._env, path)
        text = None if len(data) > MAX_FILE_BYTES or data.startswith(codecs.BOM_UTF8) else _text(data)
        if text is None or not is_inside(real, self.cwd) or not await self._exists_on_disk(real):
            await self._env.write_bytes(real, data, parents=parents)
            return
        self._unsaved.pop(real, None)
        if not await self._buffers.write(str(real), text) or not await self._exists_on_disk(real):
            await self._env.write_bytes(real, data, parents=parents)

    async def _exists_on_disk(self, real: str) -> bool:
        """Whether a file can be read on disk; whoever may not do that gets the error of the disk."""
        try:
            await self._env.read_bytes(real, limit=1)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def list_dir(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return await self._env.list_dir(path)

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
        return await self._env.walk(path, depth=depth, include_ignored=include_ignored, limit=limit, signal=signal)

    async def is_ignored(self, path: str) -> bool:
        """See `ExecutionEnv.is_ignored`."""
        return await self._env.is_ignored(path)

    async def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        await self._env.remove(path)
        self._unsaved.clear()

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """See `ExecutionEnv.rename`; what is not saved stays in the editor, so the content is written there first."""
        real = await self._env.realpath(source)
        folder, name = posixpath.split(real)
        if self._unsaved and posixpath.join(folder, name) in self._unsaved:
            await self._env.write_bytes(real, await self.read_bytes(real))
        await self._env.rename(source, target, parents=parents)
        self._unsaved.clear()

    async def on_files(self, work: Callable[[LocalFiles], T]) -> T:
        """See `LocalEnv.on_files`: the files on disk, which are what programs see."""
        return await self._env.on_files(work)

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
        """See `ExecutionEnv.run`."""
        return await self._env.run(
            command,
            cwd=cwd,
            env=env,
            timeout=timeout,
            stdin=stdin,
            on_output=on_output,
            signal=signal,
            limits=limits,
        )

    async def run_in_terminal(
        self,
        script: str,
        *,
        env: Mapping[str, str],
        timeout: float | None,
        signal: CancelToken | None,
        limits: OutputLimits,
        on_terminal: Callable[[str], object],
    ) -> ProcessResult | None:
        """Run a script in a terminal of the editor, where it has one. Both streams are one there, and come at the end.

        Args:
            script: The script.
            env: Variables to add.
            timeout: Seconds it may take.
            signal: Ends it when set.
            limits: What does not fit into their tail is written to a file, if they say so.
            on_terminal: Called with the id of the terminal.

        Returns:
            How it ended; ``None`` if it was not run, since there is no terminal for it.

        Raises:
            OSError: If the editor does not tell what became of it.
        """
        if self._terminals is None or "\0" in script or len(script) > _MAX_ARGUMENT_CHARS:
            return None
        shell = await find_shell(self._env.find_program)
        terminal = shell and await self._terminals.open(
            [shell, "-c", script],
            cwd=self.cwd,
            variables=self._env.variable_overrides(env),
            keep=max(OUTPUT_BYTE_LIMIT, limits.tail),
        )
        if not terminal:
            return None
        on_terminal(terminal.id)
        result = await run_to_exit(terminal, timeout=timeout, signal=signal)
        data = result.stdout.data
        if limits.spool and len(data) > limits.tail:
            return replace(result, spool=await self._env.spool(data))
        return result

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

    def kill_all(self) -> None:
        """See `LocalEnv.kill_all`."""
        self._env.kill_all()

    async def aclose(self) -> None:
        """See `ExecutionEnv.aclose`."""
        await self._env.aclose()


def _text(data: bytes) -> str | None:
    """Bytes as text; ``None`` for what an editor would not open as one."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _is_same_text(disk: str, told: str) -> bool:
    """Whether an editor says what is on disk, but for how lines end and whether the last one does."""
    return _normalize_newlines(disk) == _normalize_newlines(told)


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff").removesuffix("\n")
