"""`EditorEnv`: an environment whose text files are those of an editor, including unsaved changes."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import posixpath
import signal as signals
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import resolve
from mainspring.env.local import LocalEnv, find_shell
from mainspring.env.paths import is_inside
from mainspring.env.protocol import PathNaming
from mainspring.env.types import (
    CapturedOutput,
    FileStat,
    OutputLimits,
    ProcessResult,
)
from mainspring.env.wrapper import EnvWrapper

EDITOR_TIMEOUT = 5.0
"""Seconds for an editor to report how a script ended, and to release its terminal."""


OUTPUT_BYTE_LIMIT = 1 << 20
"""Bytes of output that the editor should store."""


TerminalExit = tuple[int | None, str | None]
"""The end of a script: its exit code or signal; neither is known if the terminal was closed."""


class Terminal(Protocol):
    """A script that runs in a terminal. Every failure raises an `OSError`.

    Attributes:
        id: The editor's ID of the terminal.
    """

    @property
    def id(self) -> str:
        """The editor's ID of the terminal."""
        ...

    async def wait_exit(self) -> TerminalExit:
        """Wait for the end of the script."""
        ...

    async def output(self) -> tuple[str, bool]:
        """Return the output so far, and whether its beginning is lost."""
        ...

    async def kill(self) -> None:
        """Kill the script; the terminal stays open."""
        ...

    async def release(self) -> None:
        """Release the terminal; a running script is killed."""
        ...


class TerminalProvider(Protocol):
    """An editor that provides terminals."""

    async def open(
        self, command: Sequence[str], *, cwd: str, variables: Mapping[str, str], keep: int
    ) -> Terminal | None:
        """Run a program in a new terminal; return None if the editor cannot open one.

        Args:
            command: The program and its arguments.
            cwd: Folder in which it runs.
            variables: Variables in addition to the editor's own.
            keep: Bytes of output to store, from its end.
        """
        ...


async def run_to_exit(terminal: Terminal, *, timeout: float | None, signal: CancelToken | None) -> ProcessResult:
    """Wait until a script ends, or kill it; the terminal is released in any case.

    Args:
        terminal: The terminal in which it runs.
        timeout: Maximum seconds for the script.
        signal: Kills the script when set.

    Raises:
        OSError: If the editor stops reporting the state of the script.
    """
    began = time.monotonic()
    ending = asyncio.ensure_future(terminal.wait_exit())
    try:
        cause = await _wait(ending, timeout, signal)
        if cause != "ended":
            await asyncio.wait_for(terminal.kill(), EDITOR_TIMEOUT)
            await asyncio.wait((ending,), timeout=EDITOR_TIMEOUT)
        seconds = time.monotonic() - began
        text, cut = await asyncio.wait_for(terminal.output(), EDITOR_TIMEOUT)
        exit = ending.result() if ending.done() else (None, None)
        return _result(exit, cause, text, cut, seconds)
    finally:
        ending.cancel()
        await asyncio.wait((ending, asyncio.ensure_future(_end_broken_run(terminal))))


async def _wait(
    ending: asyncio.Future[TerminalExit], timeout: float | None, signal: CancelToken | None
) -> Literal["ended", "timed_out", "cancelled"]:
    stopped = asyncio.ensure_future(signal.wait()) if signal is not None else None
    try:
        requested = [ending] if stopped is None else [ending, stopped]
        await asyncio.wait(requested, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if stopped is not None:
            stopped.cancel()
    if ending.done():
        return "ended"
    return "cancelled" if signal is not None and signal.cancelled else "timed_out"


async def _end_broken_run(terminal: Terminal) -> None:
    try:
        await asyncio.wait_for(terminal.release(), EDITOR_TIMEOUT)
    except OSError:
        pass  # the terminal is closed, or the editor is


def _result(exit: TerminalExit, cause: str, text: str, is_truncated: bool, seconds: float) -> ProcessResult:
    code, signal = exit
    data = text.encode("utf-8", "replace")
    lost = b"[the editor stored only the following output]\n" if is_truncated else b""
    return ProcessResult(
        exit_code=_exit_code(code, signal),
        signal=signal,
        stdout=CapturedOutput(tail=lost + data, total=len(lost) + len(data)),
        seconds=seconds,
        timed_out=cause == "timed_out",
        cancelled=cause == "cancelled" or (cause == "ended" and code is None and signal is None),
    )


def _exit_code(code: int | None, signal: str | None) -> int:
    """Return the exit status as a shell reports it."""
    if code is not None:
        return code
    name = (signal or "SIGKILL").upper()
    try:
        return 128 + signals.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        return 128


_MAX_FILE_BYTES = 1 << 20
"""Maximum bytes of a file for which the editor is asked; larger files are rarely edited while an agent works on them."""


_MAX_ARGUMENT_CHARS = 100_000
"""Maximum characters of a script that is passed as an argument."""


class EditorBuffers(Protocol):
    """The files that an editor has open."""

    async def read(self, path: str) -> str | None:
        """Return the text in the editor; None if the editor does not have the file."""
        ...

    async def write(self, path: str, text: str) -> bool:
        """Replace the text of a file. Return True if the editor did it."""
        ...


class EditorEnv(EnvWrapper[LocalEnv]):
    """The environment of a machine, seen through an editor. An `ExecutionEnv`.

    The editor is asked only for text files of the project that exist on disk; a file that cannot be read or written on disk cannot be
    read or written through the editor either. Programs, and so searches, see the saved content. Text that the editor had in common with
    the disk is not unsaved: if only the disk has changed since, for example, by a command, the disk is read.

    Args:
        env: The environment; it is closed with this one.
        buffers: The editor.
        terminals: Its terminals, if scripts may run there; no sandbox of this environment applies to them.
    """

    def __init__(self, env: LocalEnv, buffers: EditorBuffers, terminals: TerminalProvider | None = None) -> None:
        super().__init__(env)
        self._buffers = buffers
        self._terminals = terminals
        self._unsaved: dict[str, int] = {}
        self._saved: dict[str, bytes] = {}
        self.search_path = env.search_path

    def display_name(self, path: str) -> str:
        """See `PathNaming.display_name`."""
        return self._env.display_name(path) if isinstance(self._env, PathNaming) else str(path)

    async def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`; the size is that of the content that was read last."""
        found = await self._env.stat(path)
        size = self._unsaved.get(found.path)
        return found if size is None else replace(found, size=size)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        real = await resolve(self._env, path)
        if not is_inside(real, self.cwd) or (await self._env.stat(real)).size > _MAX_FILE_BYTES:
            return await self._env.read_bytes(real, offset=offset, limit=limit)
        data = await self._current_content(real, await self._env.read_bytes(real))
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def read_files(
        self, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
    ) -> list[bytes | OSError]:
        """See `BatchReader`."""
        real = [await resolve(self._env, path) for path in paths]
        contents = await self._env.read_files(real, limit=limit, signal=signal)
        return await asyncio.gather(*[self._edited(*each, limit) for each in zip(real, contents, strict=True)])

    async def _edited(self, real_path: str, disk: bytes | OSError, limit: int) -> bytes | OSError:
        """Return the first bytes of a file, from those on disk."""
        if isinstance(disk, OSError) or not is_inside(real_path, self.cwd):
            return disk
        try:
            if len(disk) == limit:  # the editor's text can be compared only with the whole file
                return await self.read_bytes(real_path, limit=limit)
            return (await self._current_content(real_path, disk))[:limit]
        except OSError as e:
            return e

    async def _current_content(self, real_path: str, disk: bytes) -> bytes:
        """Return the content of a file, from the bytes on disk and the text in the editor."""
        self._unsaved.pop(real_path, None)
        text = _text(disk)
        edited = None if text is None else await self._buffers.read(str(real_path))
        if text is None or edited is None:
            return disk
        saved, found = _digest(text), _digest(edited)
        if saved == found:
            self._saved[real_path] = saved
            return disk
        if self._saved.get(real_path) == found:  # the editor has not loaded what a program wrote to disk
            return disk
        if "\r\n" in text and "\r" not in edited:  # editors report lines, not line endings
            edited = edited.replace("\n", "\r\n")
        mark = codecs.BOM_UTF8 if disk.startswith(codecs.BOM_UTF8) and not edited.startswith("\ufeff") else b""
        data = mark + edited.encode("utf-8", "surrogatepass")
        self._unsaved[real_path] = len(data)
        return data

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """See `ExecutionEnv.write_bytes`."""
        real = await resolve(self._env, path)
        text = None if len(data) > _MAX_FILE_BYTES or data.startswith(codecs.BOM_UTF8) else _text(data)
        if text is None or not is_inside(real, self.cwd) or not await self._exists_on_disk(real):
            await self._env.write_bytes(real, data, parents=parents)
            return
        self._unsaved.pop(real, None)
        if not await self._buffers.write(str(real), text) or not await self._exists_on_disk(real):
            await self._env.write_bytes(real, data, parents=parents)
        elif await self._env.read_bytes(real, limit=_MAX_FILE_BYTES) == data:
            self._saved[real] = _digest(text)

    async def _exists_on_disk(self, real_path: str) -> bool:
        """Return True if a file can be read on disk; without permission, the error of the disk is raised."""
        try:
            await self._env.read_bytes(real_path, limit=1)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        await self._env.remove(path)
        self._unsaved.clear()

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """See `ExecutionEnv.rename`; unsaved changes stay in the editor, so the content is saved there first."""
        real = await self._env.realpath(source)
        folder, name = posixpath.split(real)
        if self._unsaved and posixpath.join(folder, name) in self._unsaved:
            await self._env.write_bytes(real, await self.read_bytes(real))
        await self._env.rename(source, target, parents=parents)
        self._unsaved.clear()

    async def run_in_terminal(
        self,
        script: str,
        *,
        env: Mapping[str, str],
        timeout: float | None,
        signal: CancelToken | None,
        limits: OutputLimits,
        on_open: Callable[[str], object],
    ) -> ProcessResult | None:
        """Run a script in a terminal of the editor, if it has one. Both streams are combined, and are returned at the end.

        Args:
            script: The script.
            env: Variables to add.
            timeout: Maximum seconds for the script.
            signal: Kills the script when set.
            limits: Limits of the output; output beyond the tail is written to a file if they require it.
            on_open: Called with the ID of the terminal.

        Returns:
            The result; ``None`` if the script did not run because no terminal is available.

        Raises:
            OSError: If the editor does not report how the script ended.
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
        on_open(terminal.id)
        result = await run_to_exit(terminal, timeout=timeout, signal=signal)
        data = result.stdout.data
        if limits.spool and len(data) > limits.tail:
            return replace(result, spool=await self._env.spool(data))
        return result

    def kill_all(self) -> None:
        """See `LocalEnv.kill_all`."""
        self._env.kill_all()


def _text(data: bytes) -> str | None:
    """Decode bytes as text; None for content that an editor would not open as text."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _digest(text: str) -> bytes:
    """Return a digest that is equal for texts that differ only in line endings and a final newline."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff").removesuffix("\n")
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
