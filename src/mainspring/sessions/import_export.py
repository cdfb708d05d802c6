"""Find sessions by name, and import and export them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.messages import utc_now
from mainspring.redaction import Redactor
from mainspring.sessions.entries import (
    ENTRY_ERRORS,
    VERSION,
    CustomEntry,
    Kept,
    SessionEntry,
    decode_header,
    decode_session_header,
    encode_entry,
    try_decode_entry,
)
from mainspring.sessions.paths import new_session_id, resolve_session_folder
from mainspring.sessions.rewind.snapshots import decode_record
from mainspring.sessions.session import HomeOrStore, list_sessions, resolve_store
from mainspring.sessions.store import SessionInfo, SessionStore

_BATCH = 256  # lines per write
_SUMMARY = "Summary of the conversation so far:\n\n"


def find_session(
    name: str, cwd: str | os.PathLike[str] | None = None, *, home: HomeOrStore | None = None
) -> SessionInfo:
    """Find a stored session by any name that a user may type.

    Args:
        name: Its ID, a prefix of the ID, its file, its title, or a folder (its most recent session). Empty for the most recent one
            of ``cwd``. Sessions of ``cwd`` are preferred.
        cwd: The folder (default: the current one).
        home: See `Session.create`.

    Raises:
        SessionError: If no session or several match. The message lists them.
    """
    here = [info for info in list_sessions(cwd, home=home) if not info.problem]
    if not name:
        if not here:
            raise SessionError(f"No sessions in {resolve_session_folder(cwd)} yet.")
        return here[0]
    everywhere = list_sessions(home=home, everywhere=True)
    for known in (here, everywhere):
        for fits in (_matches_exactly, _has_title, _has_id_prefix):
            found = [info for info in known if fits(info, name)]
            if len(found) == 1:
                return found[0]
            if found:
                names = ", ".join(info.id for info in found[:5])
                raise SessionError(f"{name!r} matches {len(found)} sessions: {names}. Use the ID.")
    if os.path.isdir(os.path.expanduser(name)):
        return find_session("", os.path.expanduser(name), home=home)
    if os.path.isfile(os.path.expanduser(name)):
        return SessionInfo(id=Path(name).stem, place=os.path.abspath(os.path.expanduser(name)))
    raise SessionError(f"Unknown session: {name!r}. List all sessions with `mainspring sessions list --all`.")


def _matches_exactly(info: SessionInfo, name: str) -> bool:
    return name in {info.id, info.place}


def _has_title(info: SessionInfo, name: str) -> bool:
    return info.title.casefold() == name.casefold()


def _has_id_prefix(info: SessionInfo, name: str) -> bool:
    return info.id.startswith(name)


def read_raw_lines(store: SessionStore, name: str) -> Iterator[bytes]:
    """Return the stored lines of a session, the header first. Nothing is locked or written.

    Raises:
        SessionError: If the session is unknown.
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
    """Import a session from a file.

    It keeps its ID if that is not in use, and belongs to ``cwd``.

    Its records of file changes are stored, but no rewind uses them: they do not refer to the files of this computer.

    Returns:
        Its ID, and the problems. Unreadable lines are skipped.

    Raises:
        SessionError: If the file is not a session, is of a newer version, or cannot be read. Nothing is stored then.
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise SessionError(f"Not a session: {path} is not a file.")
    try:
        with path.open("rb") as stream:
            convert = _ParentIdConverter().convert
            header = _header(path, convert(stream.readline()))
            lines, problems = _read_valid_lines(map(convert, stream))
    except OSError as error:
        raise SessionError(f"Cannot read {path}: {error.strerror or error}") from error
    store = resolve_store(home)
    exists = store.exists(header.id)
    header = replace(
        header,
        id=new_session_id(utc_now()) if exists else header.id,
        forked_from=header.id if exists else header.forked_from,
        cwd=resolve_session_folder(cwd),
    )
    log = store.create(header)
    clean = Redactor.of().line
    try:
        all_lines = [encode_entry(header), *map(clean, lines)]
        for start in range(0, len(all_lines), _BATCH):
            log.append(all_lines[start : start + _BATCH], sync=start + _BATCH >= len(all_lines))
    except OSError as error:
        raise SessionError(f"Cannot write {log.place}: {error.strerror or error}") from error
    finally:
        log.close()
    return header.id, problems


def _header(path: Path, line: bytes) -> SessionEntry:
    entry = decode_session_header(line, path)
    if entry.version > VERSION:
        raise SessionError(
            f"{path} uses version {entry.version} of the format. This program supports version {VERSION}. Update Mainspring."
        )
    return entry


def _read_valid_lines(lines: Iterable[bytes]) -> tuple[list[bytes], tuple[str, ...]]:
    valid: list[bytes] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 2):
        data = line.strip()
        if not data:
            continue
        try:
            link = decode_header(data)
        except ENTRY_ERRORS:
            problems.append(f"Line {number} cannot be read and was skipped.")
            continue
        valid.append(_disable_file_notes(data) if link.type == "custom" else data)
    return valid, tuple(problems)


def _disable_file_notes(line: bytes) -> bytes:
    """Return the line in a form that rewind ignores."""
    entry = try_decode_entry(line)
    if not isinstance(entry, CustomEntry) or decode_record(entry.custom_type, entry.data) is None:
        return line
    return encode_entry(replace(entry, custom_type=f"imported_{entry.custom_type}"))


class _ParentIdConverter:
    """Convert lines with ``parentId``, in order; other lines do not change."""

    def __init__(self) -> None:
        self._timestamp = ""
        self._links: dict[str, tuple[str | None, bool]] = {}

    def convert(self, line: bytes) -> bytes:
        """Return the line as an entry of Session v1."""
        try:
            decode_header(line)
        except ENTRY_ERRORS:
            pass
        else:
            return line
        try:
            decoded = msgspec.json.decode(line)
        except ENTRY_ERRORS:
            return line
        if not isinstance(decoded, dict):
            return line
        entry = cast("dict[str, Any]", decoded)
        kind, parent = entry.get("type"), entry.pop("parentId", ...)
        is_header = kind == "session"
        if is_header:
            parent = None
        if "parent" in entry or not (parent is None or isinstance(parent, str)):
            return line
        entry["parent"] = parent
        self._timestamp = entry.setdefault("timestamp", self._timestamp)
        self._links[str(entry.get("id"))] = (parent, kind == "message")
        if is_header:
            entry.setdefault("cwd", "")
        elif kind == "message":
            entry.setdefault("source", "given")
            entry["message"] = self._to_message(entry.get("message"))
        elif kind == "compaction" and "history" not in entry:
            summary = {"role": "user", "content": _SUMMARY + str(entry.pop("summary", ""))}
            kept = self._list_kept(parent, entry.pop("firstKeptId", None))
            entry["history"] = [self._to_message(summary), *map(Kept, kept)]
        return msgspec.json.encode(entry)

    def _list_kept(self, leaf: str | None, first: str | None) -> list[str]:
        """Return the messages of the path from ``first`` to ``leaf``; all if ``first`` is not on it."""
        kept: list[str] = []
        for _ in self._links:  # at most once each: the links of a damaged file may form a circle
            if leaf is None or leaf not in self._links:
                break
            parent, is_message = self._links[leaf]
            if is_message:
                kept.append(leaf)
            if leaf == first:
                break
            leaf = parent
        return kept[::-1]

    def _to_message(self, message: Any) -> Any:
        """Return a message with all required fields, whose text is a content block."""
        if not isinstance(message, dict):
            return message
        fields = cast("dict[str, Any]", message)
        content = fields.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return {"kind": "message", "timestamp": self._timestamp, **fields, "content": blocks}
