"""One writer a session: an advisory lock on its file, which the system takes back when the process dies."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Literal

LockState = Literal["held", "taken", "unsupported"]
"""``held`` by us, ``taken`` by another opener, or ``unsupported`` by the file system."""

_BUSY = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # locks are mandatory here: lock a byte that nobody reads

    def lock(fd: int) -> LockState:
        """Try to become the only writer of an open file."""
        here = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return "taken" if error.errno in _BUSY else "unsupported"
        finally:
            os.lseek(fd, here, os.SEEK_SET)
        return "held"
else:
    import fcntl

    def lock(fd: int) -> LockState:
        """Try to become the only writer of an open file.

        The lock belongs to this opening of the file: a second one, also of this process, does not get it. It ends when the
        file is closed, so that of a dead process is free at once.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return "taken" if error.errno in _BUSY else "unsupported"
        return "held"


def taken_by(fd: int, who: str = "") -> str:
    """Where a file is open, whose lock was taken: in another process, or in this one under another handle.

    Args:
        fd: A handle of the file.
        who: The other process, where it is known.
    """
    return "in this process too" if _written_here(fd) else f"in another process{f' ({who})' if who else ''}"


def _written_here(fd: int) -> bool:
    """Whether this process has the file open for writing by another handle."""
    if sys.platform == "win32":
        return False
    wanted = os.fstat(fd)
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the listing itself had a handle, which is closed by now
            other = int(name)
            same = other != fd and os.path.samestat(os.fstat(other), wanted)
            if same and fcntl.fcntl(other, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
                return True
    return False
