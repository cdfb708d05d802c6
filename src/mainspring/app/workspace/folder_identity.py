"""The identity of a folder, which another folder at the same path does not have."""

from __future__ import annotations

import os
import sys

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_MASK, _SECONDS, _NANOSECONDS = slice(0, 4), slice(80, 88), slice(88, 92)
_STATX_SIZE = 256


def read_inode(path: str) -> int:
    """Return the number of a folder in its file system; 0 if it does not exist."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def read_birth_time(path: str) -> int:
    """Return when a folder was made, in nanoseconds; 0 if that is not known.

    File systems give the number of a deleted folder to a new one, so the number alone does not identify a folder.
    """
    try:
        made = getattr(os.stat(path), "st_birthtime", 0)
    except OSError:
        return 0
    if made or not sys.platform.startswith("linux"):
        return int(made * 1_000_000_000)
    import ctypes  # 10 ms: only if something was granted

    statx = getattr(ctypes.CDLL(None), "statx", None)
    found = ctypes.create_string_buffer(_STATX_SIZE)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found):
        return 0
    data = found.raw
    if not int.from_bytes(data[_MASK], sys.byteorder) & _STATX_BTIME:
        return 0
    seconds = int.from_bytes(data[_SECONDS], sys.byteorder, signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(data[_NANOSECONDS], sys.byteorder)
