"""A folder held against other processes, for the short time of a change to a file in it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_PATIENCE = 5.0
_PAUSE = 0.05


class FolderLockedError(Exception):
    """Another process holds the folder, and kept it for longer than one waits."""


@contextmanager
def locked_folder(folder: Path, patience: float = _PATIENCE) -> Generator[None]:
    """Hold a folder; others who do the same wait. Blocks meanwhile. The system takes the lock back when a process dies.

    Args:
        folder: It must exist.
        patience: Seconds to wait for another holder.

    Raises:
        FolderLockedError: If it is still held then.
        OSError: If it cannot be opened.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        limit = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise FolderLockedError(f"{folder} is locked by another process; try again") from None
                time.sleep(_PAUSE)  # in a thread; the system tells nobody that a lock is free
        yield
    finally:
        os.close(handle)
