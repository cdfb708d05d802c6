"""Values that environments take and return: files, folders, program output, and HTTP responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypedDict

from msgspec import Struct

from mainspring.cancellation import CancelToken

FileKind = Literal["file", "directory", "symlink", "fifo", "socket", "device", "other"]
"""The kind of a name in a folder."""


StreamName = Literal["stdout", "stderr"]
"""An output of a program."""


PathFilter = Callable[[str], bool | Awaitable[bool]]
"""Function that returns whether a search may show the content of a resolved path."""


class FileStat(Struct, frozen=True):
    """Facts about a file without its content; links are followed.

    Attributes:
        path: Its resolved path.
        kind: Its kind; never ``symlink``.
        size: Bytes.
        mtime_ns: Time of the last change, in nanoseconds.
        mode: Permission bits.
        links: Number of hard links.
    """

    path: str
    kind: FileKind
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0o644
    links: int = 1


class DirEntry(Struct, frozen=True):
    """A name in a folder. ``kind`` is that of the name itself, so that a link is a ``symlink`` wherever it leads."""

    name: str
    kind: FileKind


class WalkedPath(Struct, frozen=True):
    """A name below a walked folder; ``path`` is relative to it."""

    path: str
    kind: FileKind


class WalkResult(Struct, frozen=True):
    """The result of a walk.

    Attributes:
        entries: Sorted by path, a folder directly before its content. Links are listed, not followed.
        ignored: Paths that ignore files and the rule for version control folders excluded; folders end in ``/``.
        unreadable: Folders that could not be opened, with the reason.
        truncated: Whether the limit stopped it; then the deepest entries are missing.
    """

    entries: tuple[WalkedPath, ...] = ()
    ignored: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    truncated: bool = False


class OutputLimits(Struct, frozen=True):
    """Limits of the stored output of a program, for each stream.

    Attributes:
        head: Bytes stored in memory from the start.
        tail: Bytes stored in memory from the end.
        cap: Bytes of both streams together after which the program is killed.
        spool: Whether all output is written to a private file once it does not fit into memory.
    """

    head: int = 1 << 20
    tail: int = 1 << 20
    cap: int = 256 << 20
    spool: bool = False


DEFAULT_OUTPUT_LIMITS = OutputLimits()


class RunOptions(TypedDict, total=False):
    """Options of `ExecutionEnv.run`, which describes them."""

    cwd: str | None
    env: Mapping[str, str] | None
    timeout: float | None
    stdin: bytes | None
    on_output: Callable[[StreamName, bytes], object] | None
    signal: CancelToken | None
    limits: OutputLimits


class WalkOptions(TypedDict, total=False):
    """Options of `ExecutionEnv.walk`, which describes them."""

    depth: int | None
    include_ignored: bool
    limit: int
    signal: CancelToken | None


class CapturedOutput(Struct, frozen=True):
    """The output of a program to one stream. ``total`` counts the bytes that it wrote, stored or not."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def omitted(self) -> int:
        """Number of dropped bytes between head and tail."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def data(self) -> bytes:
        """The stored output."""
        return self.head + self.tail

    @property
    def text(self) -> str:
        """The stored output as text; bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


class ProcessResult(Struct, frozen=True, kw_only=True):
    """The result of a program.

    Attributes:
        exit_code: Its exit status as a shell reports it: 128 + N if signal N ended it.
        signal: Name of the signal that ended it, for example, ``SIGKILL``.
        stdout: Its standard output.
        stderr: Its standard error.
        seconds: Run time in seconds.
        timed_out: Whether it was killed because it timed out.
        cancelled: Whether it was killed because the signal was set.
        overflowed: Whether it was killed because it wrote more than ``limits.cap``.
        swarmed: Whether it was killed because it had more processes than the environment allows.
        spool: File with the whole output, in order of arrival, if one was written. It grows while survivors write.
        survivors: IDs of processes that survived it and still run. They are killed when the environment closes.
    """

    exit_code: int
    signal: str | None = None
    stdout: CapturedOutput = CapturedOutput()
    stderr: CapturedOutput = CapturedOutput()
    seconds: float = 0.0
    timed_out: bool = False
    cancelled: bool = False
    overflowed: bool = False
    swarmed: bool = False
    spool: str | None = None
    survivors: tuple[int, ...] = ()


class HttpResponse(Struct, frozen=True):
    """The response of a web server.

    Attributes:
        url: The requested URL.
        status: The HTTP status.
        headers: By their names in lower case.
        body: The decompressed content.
        cut: Whether the body was truncated.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes = b""
    cut: bool = False
