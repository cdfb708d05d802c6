"""The port between tools and the outside: files and processes.

Above it stand the tools, which touch nothing but this; below it a machine (`LocalEnv`), a container, a sandbox, or a
dictionary (`MemoryEnv`).

Paths are POSIX strings as a model writes them: relative ones start at ``cwd``, a leading ``~/`` is the home folder (write
``./~`` for a file of that name), separators are forward slashes on every system. A name that is not UTF-8 carries its
bytes as surrogate escapes. A `RealPath` is used as it is: if a part of it is a symbolic link by then, the call fails.
Failures are plain `OSError` subclasses (`FileNotFoundError`, `PermissionError`, `IsADirectoryError`, ...);
`mainspring.env.paths` words them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    from mainspring.env.jobs import JobManager
    from mainspring.env.local_files import LocalFiles

T = TypeVar("T")


class ProcessConnection(Protocol):
    """A running program to talk to."""

    @property
    def errors(self) -> str:
        """The end of what it wrote to standard error."""
        ...

    async def read(self, limit: int = 1 << 16) -> bytes:
        """Some of its output; nothing at its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send it something.

        Raises:
            ConnectionError: If it has ended.
        """
        ...

    async def aclose(self) -> None:
        """End it with everything it started."""
        ...


@runtime_checkable
class PathNaming(Protocol):
    """An environment where a real path has another name for programs, for rules and for people."""

    def name_of(self, path: str) -> str:
        """The name of a real path; the path itself where it has no other."""
        ...


@runtime_checkable
class OnFiles(Protocol):
    """An environment whose files can be used directly, to check what a program has found in them."""

    async def on_files(self, work: Callable[[LocalFiles], T]) -> T | None:
        """Do blocking work with files in a thread; paths are real ones there, and no link is followed.

        Returns:
            The result of the work; None if it was not done, since the environment has no such files.
        """
        ...


class ExecutionEnv(Protocol):
    """Files and processes of one project.

    Attributes:
        guard: Tells whether a search may show what is in a file, by its real path; a policy sets it. Files that a call names
            are not asked about here, since that call was permitted.
        scratch: What tools keep for as long as the environment lives, by their own keys.
    """

    guard: PathFilter | None
    scratch: dict[str, Any]

    @property
    def jobs(self) -> JobManager:
        """The commands that run in the background; they end with the environment."""
        ...

    @property
    def cwd(self) -> str:
        """The project folder: absolute, links resolved, the same for every call."""
        ...

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved; of a file that does not exist, its deepest existing parent's.

        Raises:
            OSError: If links form a loop, or the path is no path (empty, a NUL in it).
        """
        ...

    async def stat(self, path: str) -> FileStat:
        """Facts about the file that ``path`` leads to.

        Raises:
            FileNotFoundError: If there is none.
        """
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file, or a part of them. Anything but a regular file is refused, so it cannot block."""
        ...

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        """Replace a file's content, whole or not at all.

        A link is followed; mode, owner and other names of the file stay. Where the file cannot be replaced by renaming (it
        has other names, another owner, or its folder is closed), it is rewritten in place.

        Args:
            path: The file.
            data: Its new content.
            parents: Whether missing folders are made.
        """
        ...

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder, sorted."""
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
        """Everything below a folder.

        ``.gitignore`` (also outside a repository), ``.ignore`` and ``.rgignore`` files are obeyed, those of parent folders
        too; names that start with a dot are not special. The folder itself was asked for by name, so rules that would
        leave it out do not apply. Version control folders (``.git``, ``.hg``, ``.svn``, ``.jj``) are always left out.

        Args:
            path: The folder.
            depth: Levels to go down; 1 lists the folder itself. ``None``: all.
            include_ignored: Whether ignore files are disregarded.
            limit: Most entries to return.
            signal: Stops the walk when set; what was found so far is returned as truncated.
        """
        ...

    async def is_ignored(self, path: str) -> bool:
        """Whether an ignore file leaves this file or folder, or one that holds it, out of a walk of the file system."""
        ...

    async def remove(self, path: str) -> None:
        """Delete a file, a link (not what it leads to) or an empty folder."""
        ...

    async def rename(self, source: str, target: str, *, parents: bool = True) -> None:
        """Give a file another name; mode, owner and times stay. A file that has that name already is replaced.

        Args:
            source: The file; a link itself, not what it leads to.
            target: Its new path.
            parents: Whether missing folders are made.

        Raises:
            IsADirectoryError: If one of them is a folder.
        """
        ...

    async def find_program(self, name: str) -> str | None:
        """Where a program is, or ``None``."""
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
        """Run a program, or a script in a shell, to its end.

        The program gets no terminal. It is over when the program itself ends, even if something it started still holds its
        output; that is told as ``survivors``. On time-out, ``signal``, overflow and cancellation it is ended with
        everything it started: asked first (SIGTERM), forced soon after.

        Args:
            command: A program and its arguments, or a script for the environment's shell.
            cwd: Where to run; the project folder if not given.
            env: Variables to add.
            timeout: Seconds it may take.
            stdin: What it can read; nothing (end of file) if not given.
            on_output: Called with each piece of output as it arrives.
            signal: Ends it when set.
            limits: How much output to keep.

        Raises:
            OSError: If it cannot be started.
        """
        ...

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> ProcessConnection:
        """Start a program and talk to it. It ends with the environment, if it is not closed before.

        Args:
            command: The program and its arguments.
            cwd: Where to run; the project folder if not given.
            env: Variables to add.

        Raises:
            OSError: If it cannot be started.
        """
        ...

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Ask a web server for one URL. Private addresses are refused, redirects are not followed, no cookie is sent.

        Args:
            url: An ``http`` or ``https`` URL.
            timeout: Seconds for all of it.
            max_bytes: Bytes of the body after which it is cut off.
            accept: The kinds of content that are welcome.

        Raises:
            OSError: If there is no answer, or none may be asked for.
        """
        ...

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Hold it while a file is read, changed and written; ``path`` is a real path. Waiters go in order of arrival."""
        ...

    async def aclose(self) -> None:
        """End what still runs and remove private files."""
        ...
