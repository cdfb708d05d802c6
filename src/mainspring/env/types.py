"""Values that environments take and return: files, folders, program output, and HTTP responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

FileKind = Literal["file", "directory", "symlink", "fifo", "socket", "device", "other"]
"""What a name in a folder stands for."""


StreamName = Literal["stdout", "stderr"]


PathFilter = Callable[[str], bool | Awaitable[bool]]
"""Tells whether a search may show what lies at a real path."""


class FileStat(Struct, frozen=True):
    """What is known of a file without reading it; links are followed.

    Attributes:
        path: Its real path.
        kind: What it is; never ``symlink``.
        size: Bytes.
        mtime_ns: Time of the last change, in nanoseconds.
        mode: Permission bits.
        links: How many names the file has.
    """

    path: str
    kind: FileKind
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0o644
    links: int = 1


class DirEntry(Struct, frozen=True):
    """A name in a folder. ``kind`` is that of the name itself, so a link is a ``symlink`` wherever it leads."""

    name: str
    kind: FileKind


class WalkedPath(Struct, frozen=True):
    """A name below a walked folder; ``path`` is relative to it."""

    path: str
    kind: FileKind


class WalkResult(Struct, frozen=True):
    """What a walk found.

    Attributes:
        entries: Sorted by path, a folder right before what it holds. Links are listed, not followed.
        ignored: What ignore files and the rule for version control folders left out; folders end in ``/``.
        unreadable: Folders that could not be opened, with the reason.
        truncated: Whether the limit stopped it; then what is missing lies deepest.
    """

    entries: tuple[WalkedPath, ...] = ()
    ignored: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    truncated: bool = False


class OutputLimits(Struct, frozen=True):
    """How much of a program's output is kept, for each stream.

    Attributes:
        head: Bytes kept in memory from the start.
        tail: Bytes kept in memory from the end.
        cap: Bytes of both streams together after which the program is killed.
        spool: Whether everything goes to a private file once memory does not hold it all.
    """

    head: int = 1 << 20
    tail: int = 1 << 20
    cap: int = 256 << 20
    spool: bool = False


DEFAULT_OUTPUT_LIMITS = OutputLimits()


class CapturedOutput(Struct, frozen=True):
    """What a program wrote to one stream. ``total`` counts the bytes that it wrote, kept or not."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def omitted(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def data(self) -> bytes:
        """What was kept."""
        return self.head + self.tail

    @property
    def text(self) -> str:
        """What was kept, as text; bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


class ProcessResult(Struct, frozen=True, kw_only=True):
    """How a program ended.

    Attributes:
        exit_code: Its status as a shell tells it: 128 + N where signal N ended it.
        signal: Name of the signal that ended it, as in ``SIGKILL``.
        stdout: What it wrote there.
        stderr: What it wrote there.
        seconds: How long it ran.
        timed_out: Whether it was killed because its time was up.
        cancelled: Whether it was killed because the signal was set.
        overflowed: Whether it was killed because it wrote more than ``limits.cap``.
        swarmed: Whether it was killed because it had more processes than the environment allows.
        spool: File with the whole output, in order of arrival, if one was written. It grows while survivors write.
        survivors: Process ids that it left behind and that still run. They are killed when the environment closes.
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
    """What a web server answered.

    Attributes:
        url: What was asked for.
        status: The HTTP status.
        headers: By their names in lower case.
        body: The content, unpacked.
        cut: Whether the body goes on.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes = b""
    cut: bool = False
