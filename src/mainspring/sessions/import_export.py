"""Sessions by name, and in and out of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.messages import utc_now
from mainspring.redaction import Redactor
from mainspring.sessions.entries import (
    DECODE_ERRORS,
    VERSION,
    CustomEntry,
    SessionEntry,
    decode_entry,
    decode_header,
    encode_entry,
)
from mainspring.sessions.paths import new_session_id, resolve_folder
from mainspring.sessions.rewind.snapshots import decode_record
from mainspring.sessions.session import HomeOrStore, list_sessions, resolve_store
from mainspring.sessions.store import SessionInfo, SessionStore

_BATCH = 256  # lines of one write


def find_session(
    name: str, cwd: str | os.PathLike[str] | None = None, *, home: HomeOrStore | None = None
) -> SessionInfo:
    """A stored session by whatever a person calls it.

    Args:
        name: Its id, the beginning of its id, its file, its title, or a folder (its last session); empty for the last one of
            ``cwd``. What belongs to ``cwd`` is looked at first.
        cwd: The folder; the current one if not given.
        home: As for `Session.create`.

    Raises:
        SessionError: If there is none, or several; the text names them.
    """
    here = [info for info in list_sessions(cwd, home=home) if not info.problem]
    if not name:
        if not here:
            raise SessionError(f"there is no session of {resolve_folder(cwd)} yet")
        return here[0]
    everywhere = list_sessions(home=home, everywhere=True)
    for known in (here, everywhere):
        for fits in (_matches_exactly, _has_title, _has_id_prefix):
            found = [info for info in known if fits(info, name)]
            if len(found) == 1:
                return found[0]
            if found:
                names = ", ".join(info.id for info in found[:5])
                raise SessionError(f"{name!r} could be {len(found)} sessions: {names}; name one by its id")
    if os.path.isdir(os.path.expanduser(name)):
        return find_session("", os.path.expanduser(name), home=home)
    if os.path.isfile(os.path.expanduser(name)):
        return SessionInfo(id=Path(name).stem, place=os.path.abspath(os.path.expanduser(name)))
    raise SessionError(f"there is no session {name!r}; `mainspring sessions list --all` shows what there is")


def _matches_exactly(info: SessionInfo, name: str) -> bool:
    return name in {info.id, info.place}


def _has_title(info: SessionInfo, name: str) -> bool:
    return info.title.casefold() == name.casefold()


def _has_id_prefix(info: SessionInfo, name: str) -> bool:
    return info.id.startswith(name)


def read_raw_lines(store: SessionStore, name: str) -> Iterator[bytes]:
    """The lines of a session as they are stored, the header first. Nothing is locked or written.

    Raises:
        SessionError: If there is no such session.
    """
    log = store.open(name, write=False)
    try:
        for row in log.rows():
            yield row.data
    finally:
        log.close()


def import_session(
    file: str | os.PathLike[str], cwd: str | os.PathLike[str] | None = None, *, home: HomeOrStore | None = None
) -> tuple[str, tuple[str, ...]]:
    """Take in a session from a file of lines. It gets its own id if that is free, and belongs to ``cwd``.

    What it says of files stays in it as a record, and no rewind acts on it: the files of this computer are not those it means.

    Returns:
        Its id, and what could not be read; such lines are left out.

    Raises:
        SessionError: If the file is no session, is of a newer version, or cannot be read. Nothing is stored then.
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise SessionError(f"{path} is no file, so no session")
    try:
        with path.open("rb") as stream:
            header = _header(path, stream.readline())
            lines, problems = _read_valid_lines(stream)
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror or error}") from error
    store = resolve_store(home)
    taken = store.exists(header.id)
    header = replace(
        header,
        id=new_session_id(utc_now()) if taken else header.id,
        forked_from=header.id if taken else header.forked_from,
        cwd=resolve_folder(cwd),
    )
    log = store.create(header)
    clean = Redactor.of().line
    try:
        whole = [encode_entry(header), *map(clean, lines)]
        for start in range(0, len(whole), _BATCH):
            log.append(whole[start : start + _BATCH], sync=start + _BATCH >= len(whole))
    except OSError as error:
        raise SessionError(f"{log.place} cannot be written: {error.strerror or error}") from error
    finally:
        log.close()
    return header.id, problems


def _header(path: Path, line: bytes) -> SessionEntry:
    try:
        entry = decode_entry(line)
    except DECODE_ERRORS:
        entry = None
    if not isinstance(entry, SessionEntry):
        raise SessionError(f"{path} is no session: its first line is not the header of one")
    if entry.version > VERSION:
        raise SessionError(f"{path} is of version {entry.version} of the format; this program knows version {VERSION}")
    return entry


def _read_valid_lines(lines: Iterable[bytes]) -> tuple[list[bytes], tuple[str, ...]]:
    kept: list[bytes] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 2):
        data = line.strip()
        if not data:
            continue
        try:
            link = decode_header(data)
        except DECODE_ERRORS:
            problems.append(f"line {number} cannot be read; it was left out")
            continue
        kept.append(_disable_file_notes(data) if link.type == "custom" else data)
    return kept, tuple(problems)


def _disable_file_notes(line: bytes) -> bytes:
    """The line, made one that a rewind does not act on."""
    try:
        entry = decode_entry(line)
    except DECODE_ERRORS:
        return line
    if not isinstance(entry, CustomEntry) or decode_record(entry.custom_type, entry.data) is None:
        return line
    return encode_entry(replace(entry, custom_type=f"imported_{entry.custom_type}"))
