"""A file held against other processes, for as long as something takes that only one may do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_POLL = 0.2


@asynccontextmanager
async def locked(path: Path, waiting: Callable[[], None]) -> AsyncGenerator[None]:
    """Hold the lock of a file. The system gives it back when the process ends, however that happens.

    Args:
        path: The lock file; it is made if needed and stays.
        waiting: Called whenever somebody else has it.
    """
    file = await asyncio.to_thread(path.open, "ab")
    try:
        while not _try_lock(file):
            waiting()
            await asyncio.sleep(_POLL)
        yield
    finally:
        file.close()


if sys.platform == "win32":

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
