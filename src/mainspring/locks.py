"""Locks: per event loop, on a folder, on a file, and for the single writer of a session.

File locks are advisory: the operating system releases them when the process dies.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal


class LoopLock:
    """A lock per event loop, since consecutive runs may use different loops: ``async with LoopLock().current():``."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def current(self) -> asyncio.Lock:
        """Return the lock of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._held is None or self._held[0] is not loop:
            self._held = (loop, asyncio.Lock())
        return self._held[1]


_TIMEOUT = 5.0
_POLL_INTERVAL = 0.05
_LONG_POLL_INTERVAL = 0.2
_BUSY = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}

LockResult = Literal["held", "taken", "unsupported"]
"""Locked by us, ``taken`` by another process, or ``unsupported`` by the file system."""

if sys.platform == "win32":
    import msvcrt

    _LOCK_OFFSET = 1 << 40  # locks are mandatory on Windows: lock a byte that is never read

    def _lock(fd: int) -> None:
        here = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, _LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(fd, here, os.SEEK_SET)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(fd: int) -> LockResult:
    """Try to become the only writer of an open file.

    The lock belongs to this file handle: a second handle, even in the same process, does not get it. It is released when the
    file is closed, so the lock of a dead process is free immediately.
    """
    try:
        _lock(fd)
    except OSError as error:
        return "taken" if error.errno in _BUSY else "unsupported"
    return "held"


class LockTimeoutError(Exception):
    """Another process did not release the lock of the folder within the timeout."""


@contextmanager
def lock_directory(folder: Path, timeout: float = _TIMEOUT) -> Generator[None]:
    """Lock a folder; other processes wait. Blocks. The operating system releases the lock when a process dies.

    Args:
        folder: It must exist.
        timeout: Seconds to wait for another holder.

    Raises:
        LockTimeoutError: If it is still locked after that time.
        OSError: If it cannot be opened.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        limit = time.monotonic() + timeout
        while True:
            try:
                _lock(handle)
                break
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
                if time.monotonic() > limit:
                    raise LockTimeoutError(f"{folder} is locked by another process. Try again.") from None
            time.sleep(_POLL_INTERVAL)  # the operating system does not report that a lock was released
        yield
    finally:
        os.close(handle)


@asynccontextmanager
async def lock_file(path: Path, waiting: Callable[[], None]) -> AsyncGenerator[None]:
    """Lock a file. The operating system releases it when the process ends in any way.

    Args:
        path: The lock file; created if needed, and never deleted.
        waiting: Called if another process has the lock.
    """
    file = await asyncio.to_thread(path.open, "ab")
    try:
        while try_lock(file.fileno()) == "taken":
            waiting()
            await asyncio.sleep(_LONG_POLL_INTERVAL)
        yield
    finally:
        file.close()


def describe_lock_owner(fd: int, owner: str = "") -> str:
    """Describe where a locked file is open: in another process, or in this one with another handle.

    Args:
        fd: A handle of the file.
        owner: The other process, if known.
    """
    return (
        "in this process too" if _is_open_in_this_process(fd) else f"in another process{f' ({owner})' if owner else ''}"
    )


def _is_open_in_this_process(fd: int) -> bool:
    """Return True if this process has the file open for writing with another handle."""
    if sys.platform == "win32":
        return False
    requested = os.fstat(fd)
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the listing itself used a handle, which is closed by now
            other = int(name)
            same = other != fd and os.path.samestat(os.fstat(other), requested)
            if same and fcntl.fcntl(other, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
                return True
    return False
