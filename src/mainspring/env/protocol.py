"""The interface between tools and files and processes.

Tools access files and processes only through this interface. A machine (`LocalEnv`), a container, a sandbox, or a dictionary
(`MemoryEnv`) implements it.

Paths are POSIX strings as a model writes them: relative ones start at ``cwd``, a leading ``~/`` is the home folder (write
``./~`` for a file with that name), separators are forward slashes on every system. A name that is not UTF-8 contains its
bytes as surrogate escapes. A `RealPath` is used unchanged: if a part of it has become a symbolic link, the call fails.
Failures are plain `OSError` subclasses (`FileNotFoundError`, `PermissionError`, `IsADirectoryError`, ...);
`mainspring.env.paths` describes them for display.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from mainspring.cancellation import CancelToken
from mainspring.env.types import (
    DEFAULT_OUTPUT_LIMITS,
    DirEntry,
    FileStat,
    HttpResponse,
    OutputLimits,
    PathFilter,
    ProcessResult,
    StreamName,
    WalkResult,
)

if TYPE_CHECKING:
    from mainspring.env.beneath import RealPath
    from mainspring.env.jobs import JobManager
    from mainspring.env.local_files import FilesBelow

_T = TypeVar("_T")


class ProcessConnection(Protocol):
    """A connection to a running program."""

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        ...

    async def read(self, limit: int = 1 << 16) -> bytes:
        """Read some of its output; empty at its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its input.

        Raises:
            ConnectionError: If it has exited.
        """
        ...

    async def aclose(self) -> None:
        """End it with everything it started."""
        ...


@runtime_checkable
class PathNaming(Protocol):
    """An environment in which a resolved path has another name for programs, rules, and users."""

    def display_name(self, path: str) -> str:
        """Return the name of a resolved path; the path itself if it has no other name."""
        ...


@runtime_checkable
class ScriptTerminal(Protocol):
    """An environment that can run scripts in a terminal that the user sees."""

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
        """Run a script in a terminal, if one is available. See `EditorEnv.run_in_terminal`."""
        ...


@runtime_checkable
class FolderInspector(Protocol):
    """An environment with files on a disk, which can be inspected to verify the results of a program."""

    async def inspect_folder(self, root: RealPath, work: Callable[[FilesBelow], _T]) -> _T | None:
        """Do blocking work with the files below a folder in a thread, without following links.

        The files are those that programs see, so unsaved text of an editor is not in them.

        Args:
            root: The folder.
            work: Function that gets the files.

        Returns:
            The result of the work; None if it was not done because the folder is not on a disk of this machine.

        Raises:
            OSError: If the environment does not allow to read the folder.
        """
        ...


@runtime_checkable
class ChecksInThread(Protocol):
    """An environment that runs a check of many files in one thread, which is much faster than a thread for each file."""

    async def check_in_thread(self, check: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine function, and return its result.

        Args:
            check: Function that awaits only `realpath`, `stat`, `read_bytes`, `list_dir`, and `walk` of this environment.
        """
        ...


@runtime_checkable
class BatchReader(Protocol):
    """An environment that reads many small files faster together than one by one."""

    async def read_files(
        self, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
    ) -> list[bytes | OSError]:
        """Return what `ExecutionEnv.read_bytes` returns for each file, or the error that it raises.

        An environment that changes `read_bytes` changes this method in the same way.

        Args:
            paths: The files.
            limit: Maximum bytes of each file. Together they are in memory, so use many files only with a small limit.
            signal: Stops reading when set; each remaining file is an `InterruptedError`.
        """
        ...


async def check_in_thread(env: object, check: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a check of files in one thread if the environment can do that. See `ChecksInThread`."""
    return await (env.check_in_thread(check) if isinstance(env, ChecksInThread) else check())


async def read_files(
    env: ExecutionEnv, paths: Sequence[str], *, limit: int, signal: CancelToken | None = None
) -> list[bytes | OSError]:
    """Read many files, together if the environment can do that. See `BatchReader`."""
    if isinstance(env, BatchReader):
        return await env.read_files(paths, limit=limit, signal=signal)
    contents: list[bytes | OSError] = []
    for path in paths:
        try:
            stopped = signal is not None and signal.cancelled
            contents.append(InterruptedError() if stopped else await env.read_bytes(path, limit=limit))
        except OSError as e:
            contents.append(e)
    return contents


class ExecutionEnv(Protocol):
    """Files and processes of one project.

    Attributes:
        path_filter: Function that returns whether a search may show the content of a file, by its resolved path; a policy sets it. It is
            not called for files that a call names, since that call was allowed.
        scratch: State of tools for the lifetime of the environment, by their own keys.
    """

    path_filter: PathFilter | None
    scratch: dict[str, Any]

    @property
    def jobs(self) -> JobManager:
        """The background commands; they end with the environment."""
        ...

    @property
    def cwd(self) -> str:
        """The project folder: absolute, links resolved, the same for every call."""
        ...

    async def realpath(self, path: str) -> str:
        """Return the absolute path with every link resolved; for a missing file, that of its deepest existing parent is resolved.

        Raises:
            OSError: If links form a loop, or the path is invalid (empty, or with a NUL).
        """
        ...

    async def stat(self, path: str) -> FileStat:
        """Return facts about the file that ``path`` leads to.

        Raises:
            FileNotFoundError: If it does not exist.
        """
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Return the bytes of a regular file, or a part of them. Other files are rejected, so that the call cannot block."""
        ...

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """Replace a file's content atomically.

        A link is followed; mode, owner, and other names of the file stay unchanged. If the file cannot be replaced by renaming (it
        has other names, another owner, or its folder is read-only), it is rewritten in place.

        Args:
            path: The file.
            data: Its new content.
            parents: Whether to create missing folders.
        """
        ...

    async def list_dir(self, path: str) -> list[DirEntry]:
        """Return the names in a folder, sorted."""
        ...

    async def walk(
        self,
        path: str,
        *,
        depth: int | None = None,
        include_ignored: bool = False,
        limit: int = 200_000,
        signal: CancelToken | None = None,
    ) -> WalkResult:
        """Return everything below a folder.

        ``.gitignore`` (also outside a repository), ``.ignore``, and ``.rgignore`` files are applied, including those of parent
        folders; names that start with a dot are not special. The folder itself was requested by name, so rules that would
        exclude it do not apply. Version control folders (``.git``, ``.hg``, ``.svn``, ``.jj``) are always excluded.

        Args:
            path: The folder.
            depth: Number of levels; 1 lists the folder itself. ``None``: all.
            include_ignored: Whether to include ignored files.
            limit: Maximum number of entries.
            signal: Stops the walk when set; the entries found so far are returned as truncated.
        """
        ...

    async def is_ignored(self, path: str) -> bool:
        """Return True if an ignore file excludes this file or folder, or one of its parents, from a walk."""
        ...

    async def remove(self, path: str) -> None:
        """Delete a file, a link (not its target), or an empty folder."""
        ...

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """Rename a file; mode, owner, and times stay unchanged. An existing target is replaced.

        Args:
            source: The file; a link itself, not its target.
            target: Its new path.
            parents: Whether to create missing folders.

        Raises:
            IsADirectoryError: If one of them is a folder.
        """
        ...

    async def find_program(self, name: str) -> str | None:
        """Return the path of a program, or ``None``."""
        ...

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
        """Run a program, or a script in a shell, until it exits.

        The program gets no terminal. It has ended when the program itself exits, even if a process that it started keeps its
        output open; such processes are reported as ``survivors``. On timeout, ``signal``, overflow, and cancellation it is ended with
        everything it started: first with SIGTERM, soon after with SIGKILL.

        Args:
            command: A program and its arguments, or a script for the environment's shell.
            cwd: Folder in which to run (default: the project folder).
            env: Variables to add.
            timeout: Maximum seconds for the program.
            stdin: Its input (default: none, end of file).
            on_output: Called with each piece of output as it arrives.
            signal: Ends it when set.
            limits: Limits of the stored output.

        Raises:
            OSError: If it cannot be started.
        """
        ...

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """Start a program and connect to it. It ends with the environment, if it is not closed before.

        Args:
            command: The program and its arguments.
            cwd: Folder in which to run (default: the project folder).
            env: Variables to add.

        Raises:
            OSError: If it cannot be started.
        """
        ...

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Send a request for one URL to a web server. Private addresses are rejected, redirects are not followed, no cookie is sent.

        Args:
            url: An ``http`` or ``https`` URL.
            timeout: Maximum seconds for the whole request.
            max_bytes: Maximum bytes of the body; a longer body is truncated.
            accept: The accepted content types.

        Raises:
            OSError: If no response arrives, or the request is not allowed.
        """
        ...

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Return the lock for reading, changing, and writing a file; ``path`` is a resolved path. The lock is granted in order of arrival."""
        ...

    async def aclose(self) -> None:
        """End running programs and remove private files."""
        ...
