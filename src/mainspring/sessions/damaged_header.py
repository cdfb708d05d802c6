"""Restore the header of a session file whose first line is damaged or missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring.sessions.entries import ENTRY_ERRORS, VERSION, Entry, SessionEntry, try_decode_entry
from mainspring.sessions.paths import (
    is_valid_session_id,
    new_session_id,
    project_folder_name,
    resolve_session_folder,
)

_HEAD = 64 * 1024
_REPAIR_BYTES = 16 * 1024 * 1024  # bytes at the beginning that are searched
_MAX_STARTS = 20  # possible starts of an entry that are tried in a damaged line
_ENTRY_START = re.compile(rb'\{"type":')
_CWD = re.compile(rb'"cwd":("(?:[^"\\]|\\.)*")')


def restore_header(path: Path, file: BinaryIO, cwd: str) -> tuple[SessionEntry, int, bool] | None:
    """Find the header in a later line, or derive it from the first entry, the damaged lines, and the path.

    Args:
        path: The file.
        file: Its content.
        cwd: The folder that the session probably belongs to, if known.

    Returns:
        The header, the position of the first line that belongs to the session, and True if no line contains the header. None if no
        entry was found.
    """
    position, damaged = 0, b""
    while position < _REPAIR_BYTES and (line := file.readline(_REPAIR_BYTES)):
        start, entry = _find_entry(line)
        damaged += line[:start]
        position += start
        if isinstance(entry, SessionEntry):
            return entry, position, False
        if entry is not None:
            id = path.stem if is_valid_session_id(path.stem) else new_session_id(entry.timestamp)
            place = _restore_cwd(path, damaged, cwd)
            header = SessionEntry(id=id, parent=None, timestamp=entry.timestamp, version=VERSION, cwd=place)
            return header, position, True
    return None


def _find_entry(line: bytes) -> tuple[int, Entry | None]:
    """Return the position of the entry at the end of a line, after damaged bytes, and the entry."""
    for found in islice(_ENTRY_START.finditer(line), _MAX_STARTS):
        entry = try_decode_entry(line[found.start() :])
        if entry is not None:
            return found.start(), entry
    return len(line), None


def _restore_cwd(path: Path, damaged: bytes, probable: str) -> str:
    """Return the folder of a session without header. Empty if unknown: the name of its project folder is only a hash."""

    def candidates() -> Iterator[str]:
        for found in _CWD.finditer(damaged):
            with suppress(*ENTRY_ERRORS):
                yield msgspec.json.decode(found[1], type=str)
        yield probable
        yield resolve_session_folder()
        for sibling in path.parent.glob("*.jsonl"):
            with suppress(OSError), sibling.open("rb") as file:
                entry = try_decode_entry(file.readline(_HEAD))
                if isinstance(entry, SessionEntry):
                    yield entry.cwd

    return next((cwd for cwd in candidates() if project_folder_name(cwd) == path.parent.name), "")
