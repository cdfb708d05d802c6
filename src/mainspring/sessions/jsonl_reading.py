"""Reads the metadata of a session file from its beginning and its end, regardless of its size.

Also reads the lines of a file backward, without reading the rest.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.messages import Message
from mainspring.sessions.entries import (
    DECODE_ERRORS,
    LabelEntry,
    MessageEntry,
    RunStartEntry,
    SessionEntry,
    decode_entry,
)
from mainspring.sessions.store import SessionInfo
from mainspring.sessions.stored_messages import prompt_preview

_HEAD = 64 * 1024
_TAIL = 16 * 1024
_PREVIEW = 80


def read_header(path: Path) -> SessionEntry:
    """Read the header of a session file.

    Raises:
        SessionError: If it is not a session file.
        OSError: If it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise SessionError(f"Not a session: {path} is not a file.")
    with path.open("rb") as file:
        return _header(path, file.readline(_HEAD))


def _header(path: Path, line: bytes) -> SessionEntry:
    if not line.strip():
        raise SessionError(f"Not a session: {path} is empty." if not line else f"Not a session: {path} has no header.")
    try:
        entry = decode_entry(line)
    except DECODE_ERRORS:
        entry = None
    if not isinstance(entry, SessionEntry):
        raise SessionError(f"Not a session: the first line of {path} is not a session header.")
    return entry


def read_session_info(path: Path) -> SessionInfo:
    """Read the metadata of a file. ``problem`` is set if it is not a session.

    Raises:
        OSError: If it does not exist.
    """
    status = path.stat()
    updated = datetime.fromtimestamp(status.st_mtime, UTC)
    fallback = SessionInfo(id=path.stem, place=str(path), updated=updated, size=status.st_size)
    try:
        header = read_header(path)
        head = _read_range(path, 0, _HEAD)
        tail = _read_range(path, max(status.st_size - _TAIL, 0), _TAIL) if status.st_size > _HEAD else b""
    except SessionError as error:
        return replace(fallback, problem=str(error))
    except OSError as error:
        return replace(fallback, problem=f"Cannot read {path}: {error.strerror}")
    return replace(
        fallback,
        id=header.id,
        cwd=header.cwd,
        created=header.timestamp,
        title=_title(header, head, tail),
        preview=_preview(head),
    )


def describe_last_writer(path: Path) -> str:
    """Describe the process that wrote to a file last, if its end names one."""
    try:
        size = path.stat().st_size
        tail = _read_range(path, max(size - _HEAD, 0), _HEAD)
    except OSError:
        return ""
    for line in reversed(tail.splitlines()):
        if b'"run_start"' in line and isinstance(entry := _entry(line), RunStartEntry) and entry.pid:
            return f"process {entry.pid} on {entry.host}" if entry.host else f"process {entry.pid}"
    return ""


def _read_range(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _entry(line: bytes) -> object:
    try:
        return decode_entry(line)
    except DECODE_ERRORS:
        return None


def _title(header: SessionEntry, head: bytes, tail: bytes) -> str:
    title = header.title
    for line in _iter_lines_containing(b'"label"', head, tail):
        if isinstance(entry := _entry(line), LabelEntry) and entry.target == header.id:
            title = entry.label
    return title


def _preview(head: bytes) -> str:
    for line in _iter_lines_containing(b'"prompt"', head):
        entry = _entry(line)
        if isinstance(entry, MessageEntry) and entry.source == "prompt" and isinstance(entry.message, Message):
            return prompt_preview(entry.message.text)[:_PREVIEW]
    return ""


def _iter_lines_containing(mark: bytes, *pieces: bytes) -> Iterator[bytes]:
    for piece in pieces:
        for line in piece.splitlines():
            if mark in line:
                yield line


BLOCK_BYTES = 64 * 1024


def iter_lines_backward(file: BinaryIO, block: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Iterate over position and line, with its line end if any, newest first. Memory use is that of the longest line.

    Args:
        file: The file. Its position is ignored and changed.
        block: Bytes per read.
    """
    start = file.seek(0, os.SEEK_END)
    later: list[bytes] = []  # The known parts of the line in which the previous block ends, last part first.
    while start:
        size = min(block, start)
        start -= size
        file.seek(start)
        data = file.read(size)
        end = len(data)
        if later and data.endswith(b"\n"):  # Then the part read before is a line of its own.
            yield start + size, b"".join(reversed(later))
            later = []
        while (cut := data.rfind(b"\n", 0, end - 1 if not later else end)) >= 0:
            yield start + cut + 1, data[cut + 1 : end] + b"".join(reversed(later))
            end, later = cut + 1, []
        later.append(data[:end])
    if later:
        yield 0, b"".join(reversed(later))
