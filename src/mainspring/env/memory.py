"""`MemoryEnv`: files, folders, and links in a dictionary, and programs with scripted results.

Use it for tests, and for agents without a machine.
"""

from __future__ import annotations

import errno
import inspect
import os
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.env.beneath import PathChangedError, RealPath
from mainspring.env.jobs import JobManager
from mainspring.env.locks import PathLocks
from mainspring.env.protocol import ProcessConnection
from mainspring.env.types import (
    DEFAULT_OUTPUT_LIMITS,
    CapturedOutput,
    DirEntry,
    FileKind,
    FileStat,
    HttpResponse,
    OutputLimits,
    PathFilter,
    ProcessResult,
    StreamName,
    WalkResult,
)
from mainspring.env.walk import DirectoryWalker, is_ignored

_MAX_SYMLINKS = 40


class FileNode(Struct):
    """A file."""

    data: bytes
    mtime_ns: int


class SymlinkNode(Struct):
    """A symbolic link."""

    target: str


class DirectoryNode(Struct):
    """A folder."""


class MemoryTree:
    """Files by absolute path. The clock advances by a millisecond with each change."""

    def __init__(self, cwd: str, home: str) -> None:
        self._cwd = cwd
        self._home = home
        self._nodes: dict[str, FileNode | SymlinkNode | DirectoryNode] = {"/": DirectoryNode()}
        self._clock = 1_700_000_000_000_000_000
        self._make_folder(cwd)

    def absolute(self, path: str) -> str:
        """Return the path from the root; links and ``..`` stay unchanged."""
        if not path or "\0" in path:
            raise make_os_error(errno.EINVAL, path)
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return posixpath.join(self._cwd, path)

    def resolve(self, path: str) -> str:
        """Return the resolved path."""
        remaining = self.absolute(path).split("/")[::-1]
        real = "/"
        links = 0
        while remaining:
            part = remaining.pop()
            if part in ("", "."):
                continue
            if part == "..":
                real = posixpath.dirname(real)
                continue
            step = posixpath.join(real, part)
            node = self._nodes.get(step)
            if isinstance(node, SymlinkNode):
                links += 1
                if links > _MAX_SYMLINKS:
                    raise make_os_error(errno.ELOOP, path)
                remaining += node.target.split("/")[::-1]
                real = "/" if node.target.startswith("/") else real
            else:
                real = step
        if links and isinstance(path, RealPath):
            raise PathChangedError(path)
        return real

    def stat(self, path: str) -> FileStat:
        """Return facts about the target of ``path``."""
        node, real = self._node(path), self.resolve(path)
        if isinstance(node, FileNode):
            return FileStat(real, "file", len(node.data), node.mtime_ns)
        return FileStat(real, "directory", mode=0o755)

    def content(self, path: str) -> bytes:
        """Return a file's bytes."""
        node = self._node(path)
        if not isinstance(node, FileNode):
            raise make_os_error(errno.EISDIR, path)
        return node.data

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """Replace or create a file."""
        real = self.resolve(path)
        if isinstance(self._nodes.get(real), DirectoryNode):
            raise make_os_error(errno.EISDIR, path)
        folder = posixpath.dirname(real)
        if parents:
            self._make_folder(folder)
        elif folder not in self._nodes:
            raise make_os_error(errno.ENOENT, path)
        if not isinstance(self._nodes[folder], DirectoryNode):
            raise make_os_error(errno.ENOTDIR, path)
        self._clock += 1_000_000
        self._nodes[real] = FileNode(data, self._clock)

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link."""
        full = self._resolve_entry(path)
        self._make_folder(posixpath.dirname(full))
        self._nodes[full] = SymlinkNode(target)

    def remove(self, path: str) -> None:
        """Delete a file, a link, or an empty folder."""
        full = self._resolve_entry(path)
        node = self._nodes.get(full)
        if node is None:
            raise make_os_error(errno.ENOENT, path)
        if isinstance(node, DirectoryNode) and self.list(full):
            raise make_os_error(errno.ENOTEMPTY, path)
        del self._nodes[full]

    def rename(self, source: str, target: str, parents: bool) -> None:
        """Rename a file or a link."""
        old, new = self._resolve_entry(source), self._resolve_entry(target)
        node = self._nodes.get(old)
        if node is None:
            raise make_os_error(errno.ENOENT, source)
        for found, path in ((node, source), (self._nodes.get(new), target)):
            if isinstance(found, DirectoryNode):
                raise make_os_error(errno.EISDIR, path)
        folder = posixpath.dirname(new)
        if parents:
            self._make_folder(folder)
        elif folder not in self._nodes:
            raise make_os_error(errno.ENOENT, target)
        del self._nodes[old]
        self._nodes[new] = node

    def files(self) -> dict[str, bytes]:
        """Return all files, those of the project by their path in it."""
        prefix = self._cwd.rstrip("/") + "/"
        return {p.removeprefix(prefix): n.data for p, n in sorted(self._nodes.items()) if isinstance(n, FileNode)}

    def list(self, path: str) -> list[DirEntry]:
        """Return the names in a folder."""
        real = self.resolve(path)
        if not isinstance(self._node(path), DirectoryNode):
            raise make_os_error(errno.ENOTDIR, path)
        prefix = real.rstrip("/") + "/"
        names = sorted(p[len(prefix) :] for p in self._nodes if p.startswith(prefix) and p != "/")
        return [DirEntry(name, self._kind(prefix + name)) for name in names if "/" not in name]

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if the file does not exist."""
        node = self._nodes.get(path)
        return node.data if isinstance(node, FileNode) else None

    def exists(self, path: str) -> bool:
        """Return True if anything exists at that absolute path."""
        return path in self._nodes

    def _node(self, path: str) -> FileNode | DirectoryNode:
        node = self._nodes.get(self.resolve(path))
        if node is None or isinstance(node, SymlinkNode):
            raise make_os_error(errno.ENOENT, path)
        return node

    def _resolve_entry(self, path: str) -> str:
        folder, name = posixpath.split(self.absolute(path).rstrip("/"))
        if name in ("", ".", ".."):
            raise make_os_error(errno.EINVAL, path)
        return posixpath.join(self.resolve(RealPath(folder) if isinstance(path, RealPath) else folder), name)

    def _kind(self, path: str) -> FileKind:
        node = self._nodes[path]
        return "symlink" if isinstance(node, SymlinkNode) else "file" if isinstance(node, FileNode) else "directory"

    def _make_folder(self, path: str) -> None:
        real = self.resolve(path)
        while real not in self._nodes:
            self._nodes[real] = DirectoryNode()
            real = posixpath.dirname(real)


def make_os_error(number: int, path: str) -> OSError:
    """Return the `OSError` subclass of that number."""
    return OSError(number, os.strerror(number), path)


Answer = str | ProcessResult
"""The result of a program: its output, or a whole result."""


CommandResponder = Callable[[str | list[str]], Answer | Awaitable[Answer]]
"""Function that returns the result of a command."""


class MemoryEnv:
    """Files and processes that exist only in memory. An `ExecutionEnv`.

    Attributes:
        commands: Every command that was run, in order.
        jobs: See `ExecutionEnv`.
        scratch: See `ExecutionEnv`.
        path_filter: See `ExecutionEnv`.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        cwd: str = "/project",
        home: str = "/home/user",
        links: Mapping[str, str] | None = None,
        run: CommandResponder | Mapping[str, Answer] | None = None,
        pages: Mapping[str, str | HttpResponse] | None = None,
    ) -> None:
        """Create an environment.

        Args:
            files: Content by path, relative to ``cwd``.
            cwd: The project folder.
            home: The value of ``~``.
            links: Targets of symbolic links by path.
            run: Results of commands: a function, or texts and results by command line (arguments joined by a space). A
                command without a result ends with status 127.
            pages: Responses of web servers by URL: HTML, or a whole response.
        """
        self.commands: list[str | list[str]] = []
        self.path_filter: PathFilter | None = None
        self._cwd = cwd
        self._tree = MemoryTree(cwd, home)
        self._answers: CommandResponder | Mapping[str, Answer] = {} if run is None else run
        self._locks = PathLocks()
        self.jobs = JobManager()
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
        """Return the absolute path with every link resolved. See `ExecutionEnv.realpath`."""
        return self._tree.resolve(str(path))

    async def stat(self, path: str) -> FileStat:
        """Return facts about a file. See `ExecutionEnv.stat`."""
        return self._tree.stat(path)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Return the bytes of a file. See `ExecutionEnv.read_bytes`."""
        return self._tree.content(path)[offset : None if limit is None else offset + limit]

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """Replace a file's content. See `ExecutionEnv.write_bytes`."""
        self._tree.write(path, data, parents)

    async def list_dir(self, path: str) -> list[DirEntry]:
        """Return the names in a folder. See `ExecutionEnv.list_dir`."""
        return self._tree.list(path)

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
        root = self._tree.resolve(path)
        walker = DirectoryWalker(self._tree, root, depth=depth, limit=limit, is_cancelled=lambda: stop.cancelled)
        above = not include_ignored and not await self.is_ignored(root)
        return walker.walk(use_rules=not include_ignored, use_rules_above=above)

    async def is_ignored(self, path: str) -> bool:
        """Return True if an ignore file excludes the path. See `ExecutionEnv.is_ignored`."""
        real = self._tree.resolve(path)
        is_folder = self._tree.exists(real) and self._tree.stat(real).kind == "directory"
        return is_ignored(real, is_folder, self._tree.read)

    async def remove(self, path: str) -> None:
        """Delete a file, a link, or an empty folder. See `ExecutionEnv.remove`."""
        self._tree.remove(path)

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """Rename a file. See `ExecutionEnv.rename`."""
        self._tree.rename(source, target, parents)

    async def find_program(self, name: str) -> str | None:
        """Return None: no program is installed."""
        return None

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
        """Return the scripted result. See `ExecutionEnv.run`; limits of time and size are not applied."""
        request = command if isinstance(command, str) else list(command)
        self.commands.append(request)
        answer = await self._scripted_result(request)
        if isinstance(answer, str):
            answer = ProcessResult(exit_code=0, stdout=_output(answer))
        if on_output and answer.stdout.data:
            on_output("stdout", answer.stdout.data)
        if on_output and answer.stderr.data:
            on_output("stderr", answer.stderr.data)
        return answer

    async def _scripted_result(self, command: str | list[str]) -> Answer:
        if callable(self._answers):
            answer = self._answers(command)
            return await answer if inspect.isawaitable(answer) else answer
        line = command if isinstance(command, str) else " ".join(command)
        if line in self._answers:
            return self._answers[line]
        return ProcessResult(exit_code=127, stderr=_output(f"{line.split(' ', 1)[0]}: command not found\n"))

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """Raise an error: no program is installed."""
        raise make_os_error(errno.ENOENT, command[0])

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Return the response from the given pages. See `ExecutionEnv.fetch`."""
        page = self._pages.get(url)
        if page is None:
            raise OSError(errno.EHOSTUNREACH, "the network is not available", url)
        if isinstance(page, HttpResponse):
            return page
        data = page.encode()
        return HttpResponse(url, 200, {"content-type": "text/html"}, data[:max_bytes], len(data) > max_bytes)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Return the lock for changes to a file. See `ExecutionEnv.lock`."""
        return self._locks.acquire(path)

    async def aclose(self) -> None:
        """End the background commands."""
        await self.jobs.aclose()


def _output(text: str) -> CapturedOutput:
    data = text.encode()
    return CapturedOutput(data, b"", len(data))
