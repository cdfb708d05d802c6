"""The identity of a folder, which another folder at the same path does not share."""

from __future__ import annotations

import os
import sys

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_MASK, _SECONDS, _NANOSECONDS = slice(0, 4), slice(80, 88), slice(88, 92)
_STATX_SIZE = 256


def read_inode(path: str) -> int:
    """Return the inode number of a folder; 0 if it does not exist."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def read_birth_time(path: str) -> int:
    """Return the creation time of a folder in nanoseconds; 0 if unknown.

    File systems reuse the inode number of a deleted folder, so the number alone does not identify a folder.
    """
    try:
        birth_time = getattr(os.stat(path), "st_birthtime", 0)
    except OSError:
        return 0
    if birth_time or not sys.platform.startswith("linux"):
        return int(birth_time * 1_000_000_000)
    import ctypes  # takes 10 ms, so only if something was granted

    statx = getattr(ctypes.CDLL(None), "statx", None)
    found = ctypes.create_string_buffer(_STATX_SIZE)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found):
        return 0
    data = found.raw
    if not int.from_bytes(data[_MASK], sys.byteorder) & _STATX_BTIME:
        return 0
    seconds = int.from_bytes(data[_SECONDS], sys.byteorder, signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(data[_NANOSECONDS], sys.byteorder)
