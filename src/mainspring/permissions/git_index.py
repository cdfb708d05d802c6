"""Reads the index of a git repository."""

from __future__ import annotations

_GITLINK_MODE = 0o160000
GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a submodule, as bytes of an index."""


def parse_index(data: bytes) -> tuple[str, ...] | None:
    """The paths in an index of git; ``None`` if its form is unknown, or it is only a part of one."""
    entries = _parse(data)
    return None if entries is None else tuple(path for path, _ in entries)


def submodules_of_index(data: bytes) -> tuple[str, ...] | None:
    """The paths of submodules in an index of git; ``None`` as with `paths_of_index`."""
    if GITLINK not in data:
        return ()
    entries = _parse(data)
    return None if entries is None else tuple(path for path, mode in entries if mode == _GITLINK_MODE)


def _parse(data: bytes) -> list[tuple[str, int]] | None:
    if data[:4] != b"DIRC" or not 2 <= _number(data, 4) <= 4:
        return None
    for hash_length in (20, 32):
        found, at = _entries(data, hash_length)
        while at + 8 + hash_length <= len(data) and data[at : at + 1].isupper():  # other extensions change the meaning
            at += 8 + _number(data, at + 4)
        if at + hash_length == len(data):
            return found
    return None


def _number(data: bytes, at: int, length: int = 4) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _entries(data: bytes, hash_length: int) -> tuple[list[tuple[str, int]], int]:
    """The paths and modes of an index, and the offset of their end; the length of the data if it is torn."""
    found: list[tuple[str, int]] = []
    at, path, is_shortened = 12, b"", _number(data, 4) == 4
    for _ in range(_number(data, 8)):
        mode = _number(data, at + 24)
        start = at + 40 + hash_length
        start += 4 if _number(data, start, 2) & 0x4000 else 2
        dropped = len(path)
        if is_shortened:
            dropped, start = _offset(data, start)
        end = data.find(b"\0", start)
        if end < 0:
            return found, len(data)
        path = path[: len(path) - dropped] + data[start:end]
        at = end + 1 if is_shortened else at + (end - at) // 8 * 8 + 8
        found.append((path.decode("utf-8", "surrogateescape"), mode))
    return found, at


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the offset of its end."""
    value = -1
    while at < len(data):
        byte = data[at]
        at += 1
        value = (value + 1) << 7 | (byte & 0x7F)
        if not byte & 0x80:
            break
    return value, at
