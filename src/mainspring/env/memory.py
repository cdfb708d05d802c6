"""`MemoryEnv`: files in a dictionary and programs that answer from a script. For tests, and for agents without a machine."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from mainspring.cancellation import CancelToken
from mainspring.env.ignore import is_ignored
from mainspring.env.jobs import Jobs
from mainspring.env.locks import PathLocks
from mainspring.env.memory_tree import MemoryTree, os_error
from mainspring.env.protocol import (
    DEFAULT_LIMITS,
    Connection,
    DirEntry,
    FileStat,
    Guard,
    Output,
    OutputLimits,
    ProcessResult,
    Stream,
    Walk,
    WebAnswer,
)
from mainspring.env.walk import Walker

Answer = str | ProcessResult
"""What a program gives: what it prints, or a whole result."""

Script = Callable[[str | list[str]], Answer | Awaitable[Answer]]
"""Answers a command."""


class MemoryEnv:
    """Files and processes that exist only here. An `ExecutionEnv`.

    Attributes:
        commands: Every command that was run, in order.
        jobs: See `ExecutionEnv`.
        scratch: See `ExecutionEnv`.
        guard: See `ExecutionEnv`.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        cwd: str = "/project",
        home: str = "/home/user",
        links: Mapping[str, str] | None = None,
        run: Script | Mapping[str, Answer] | None = None,
        pages: Mapping[str, str | WebAnswer] | None = None,
    ) -> None:
        """Make an environment.

        Args:
            files: Content by path, relative to ``cwd``.
            cwd: The project folder.
            home: What ``~`` stands for.
            links: Targets of symbolic links by path.
            run: Answers to commands: a function, or texts and results by command line (arguments joined by a space). A
                command without an answer ends with status 127.
            pages: What web servers answer, by URL: HTML, or a whole answer.
        """
        self.commands: list[str | list[str]] = []
        self.guard: Guard | None = None
        self._cwd = cwd
        self._tree = MemoryTree(cwd, home)
        self._answers: Script | Mapping[str, Answer] = {} if run is None else run
        self._locks = PathLocks()
        self.jobs = Jobs()
        self.scratch: dict[str, Any] = {}
        self._pages = pages or {}
        for path, target in (links or {}).items():
            self._tree.link(path, target)
        for path, content in (files or {}).items():
            self._tree.write(path, content.encode() if isinstance(content, str) else content, True)

    @property
    def cwd(self) -> str:
        """The project folder."""
        return self._cwd

    @property
    def files(self) -> dict[str, bytes]:
        """All files by path; those of the project by their path in it."""
        return self._tree.files()

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved. See `ExecutionEnv.realpath`."""
        return self._tree.resolve(str(path))

    async def stat(self, path: str) -> FileStat:
        """Facts about a file. See `ExecutionEnv.stat`."""
        return self._tree.stat(path)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a file. See `ExecutionEnv.read_bytes`."""
        return self._tree.content(path)[offset : None if limit is None else offset + limit]

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """Replace a file's content. See `ExecutionEnv.write_bytes`."""
        self._tree.write(path, data, parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder. See `ExecutionEnv.list_dir`."""
        return self._tree.list(path)

    async def walk(
        self,
        path: str,
        *,
        depth: int | None = None,
        include_ignored: bool = False,
        limit: int = 200_000,
        signal: CancelToken | None = None,
    ) -> Walk:
        """Everything below a folder. See `ExecutionEnv.walk`."""
        stop = signal or CancelToken()
        root = self._tree.resolve(path)
        walker = Walker(self._tree, root, depth=depth, limit=limit, stopped=lambda: stop.cancelled)
        above = not include_ignored and not await self.is_ignored(root)
        return walker.walk(use_rules=not include_ignored, use_rules_above=above)

    async def is_ignored(self, path: str) -> bool:
        """Whether an ignore file leaves it out. See `ExecutionEnv.is_ignored`."""
        real = self._tree.resolve(path)
        is_folder = self._tree.exists(real) and self._tree.stat(real).kind == "directory"
        return is_ignored(real, is_folder, self._tree.read)

    async def remove(self, path: str) -> None:
        """Delete a file, a link or an empty folder. See `ExecutionEnv.remove`."""
        self._tree.remove(path)

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """Give a file another name. See `ExecutionEnv.rename`."""
        self._tree.rename(source, target, parents)

    async def find_program(self, name: str) -> str | None:
        """No program is found."""
        return None

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        on_output: Callable[[Stream, bytes], object] | None = None,
        signal: CancelToken | None = None,
        limits: OutputLimits = DEFAULT_LIMITS,
    ) -> ProcessResult:
        """Answer from the script. See `ExecutionEnv.run`; limits of time and size are not applied."""
        asked = command if isinstance(command, str) else list(command)
        self.commands.append(asked)
        answer = await self._answer(asked)
        if isinstance(answer, str):
            answer = ProcessResult(exit_code=0, stdout=_output(answer))
        if on_output and answer.stdout.data:
            on_output("stdout", answer.stdout.data)
        if on_output and answer.stderr.data:
            on_output("stderr", answer.stderr.data)
        return answer

    async def _answer(self, asked: str | list[str]) -> Answer:
        if callable(self._answers):
            answer = self._answers(asked)
            return await answer if inspect.isawaitable(answer) else answer
        line = asked if isinstance(asked, str) else " ".join(asked)
        if line in self._answers:
            return self._answers[line]
        return ProcessResult(exit_code=127, stderr=_output(f"{line.split(' ', 1)[0]}: command not found\n"))

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Connection:
        """No program is found."""
        raise os_error(errno.ENOENT, command[0])

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> WebAnswer:
        """Answer from the given pages. See `ExecutionEnv.fetch`."""
        page = self._pages.get(url)
        if page is None:
            raise OSError(errno.EHOSTUNREACH, "there is no network", url)
        if isinstance(page, WebAnswer):
            return page
        data = page.encode()
        return WebAnswer(url, 200, {"content-type": "text/html"}, data[:max_bytes], len(data) > max_bytes)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Hold it while a file is changed. See `ExecutionEnv.lock`."""
        return self._locks.hold(path)

    async def aclose(self) -> None:
        """End the background commands."""
        await self.jobs.aclose()


def _output(text: str) -> Output:
    data = text.encode()
    return Output(data, b"", len(data))
