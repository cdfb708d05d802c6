"""Find sessions by name, and import and export them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.messages import utc_now
from mainspring.messages.classic import from_classic_message
from mainspring.redaction import Redactor
from mainspring.sessions.entries import (
    ENTRY_ERRORS,
    UNKNOWN_TIME,
    VERSION,
    CustomEntry,
    Kept,
    SessionEntry,
    decode_entry,
    decode_header,
    decode_session_header,
    encode_entry,
    try_decode_entry,
)
from mainspring.sessions.home import HomeOrStore, list_sessions, resolve_store
from mainspring.sessions.jsonl_store import read_header
from mainspring.sessions.paths import new_session_id, resolve_session_folder
from mainspring.sessions.rewind.snapshots import decode_record
from mainspring.sessions.store import SessionInfo, SessionStore

_HISTORY_TYPES = frozenset({"message", "intent", "pair", "compaction"})
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
        SessionError: If the file is not a session, is of a newer version, contains no readable message, or cannot be read. Nothing is
            stored then.
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise SessionError(f"Not a session: {path} is not a file.")
    try:
        with path.open("rb") as stream:
            converter = _ParentIdConverter()
            header, start = _read_header(path, converter, stream)
            lines, problems, is_readable = _read_valid_lines(converter.convert_all(stream), start or 1)
        if not start:
            problems = (f"The first line of {path} cannot be read; the header of the session was restored.", *problems)
    except OSError as error:
        raise SessionError(f"Cannot read {path}: {error.strerror or error}") from error
    if not is_readable:
        raise SessionError(f"Nothing in {path} can be read as part of a session, so it was not imported. {problems[0]}")
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


def _read_header(path: Path, converter: _ParentIdConverter, stream: BinaryIO) -> tuple[SessionEntry, int]:
    """Read the header. Return it, and the number of the next line; 0 if it was restored."""
    try:
        entry, start = decode_session_header(converter.convert(stream.readline()), path), 2
    except SessionError:
        found = read_header(path)
        entry, start = found.entry, 0
        stream.seek(found.start)
    if entry.version > VERSION:
        raise SessionError(
            f"{path} uses version {entry.version} of the format. This program supports version {VERSION}. Update Mainspring."
        )
    return entry, start


def _read_valid_lines(lines: Iterable[bytes], start: int) -> tuple[list[bytes], tuple[str, ...], bool]:
    """Return the lines to store, the problems, and False if every line of the history is unreadable.

    Args:
        lines: The lines after the header.
        start: Number of the first one.
    """
    valid: list[bytes] = []
    problems: list[str] = []
    has_history = False
    for number, line in enumerate(lines, start):
        data = line.strip()
        if not data:
            continue
        try:
            link = decode_header(data)
        except ENTRY_ERRORS:
            problems.append(f"Line {number} cannot be read and was skipped.")
            continue
        if link.type == "session":
            continue
        if link.type in _HISTORY_TYPES:
            try:
                decode_entry(data)
                has_history = True
            except ENTRY_ERRORS as error:
                problems.append(f"Line {number} contains data that this version does not know: {error}")
        valid.append(_disable_file_notes(data) if link.type == "custom" else data)
    return valid, tuple(problems), has_history or not problems


def _disable_file_notes(line: bytes) -> bytes:
    """Return the line in a form that rewind ignores."""
    entry = try_decode_entry(line)
    if not isinstance(entry, CustomEntry) or decode_record(entry.custom_type, entry.data) is None:
        return line
    return encode_entry(replace(entry, custom_type=f"imported_{entry.custom_type}"))


class _ParentIdConverter:
    """Convert lines without ``parent``, in order; other lines do not change."""

    def __init__(self) -> None:
        self._timestamp = UNKNOWN_TIME
        self._links: dict[str, tuple[Any, bool]] = {}
        self._joined: dict[str, str] = {}
        """The entry that contains the result of another one."""

    def convert_all(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a line for each line. The results of a message's calls become one entry, in place of the last of them."""
        open_entry: dict[str, Any] | None = None
        for line in lines:
            entry = self._to_entry(line)
            is_result = entry is not None and _is_tool_result(entry)
            if open_entry is not None:
                if is_result and entry is not None and entry["parent"] == open_entry["id"]:
                    self._join(open_entry, entry)
                    yield b""
                else:
                    yield msgspec.json.encode(open_entry)
            open_entry = entry if is_result else None
            if not is_result:
                yield line if entry is None else msgspec.json.encode(entry)
        if open_entry is not None:
            yield msgspec.json.encode(open_entry)

    def _join(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        """Add the results of an entry to the next one, which replaces it."""
        second["parent"] = first["parent"]
        second["message"]["content"] = [*first["message"]["content"], *second["message"]["content"]]
        self._joined[first["id"]] = second["id"]
        self._links[second["id"]] = self._links.pop(first["id"])

    def convert(self, line: bytes) -> bytes:
        """Return the line as an entry of Session v1."""
        entry = self._to_entry(line)
        return line if entry is None else msgspec.json.encode(entry)

    def _to_entry(self, line: bytes) -> dict[str, Any] | None:
        """Return the line as an entry of Session v1; None if it does not change."""
        with suppress(*ENTRY_ERRORS):
            if decode_header(line).parent is not None:
                return None
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except ENTRY_ERRORS:
            return None
        if "parent" in entry:
            return None
        kind, parent = entry.get("type"), entry.pop("parentId", None)
        entry["parent"] = parent = None if kind == "session" else self._find_joined(parent)
        entry["timestamp"] = self._timestamp = entry.get("timestamp") or self._timestamp
        self._links[str(entry.get("id"))] = (parent, kind == "message")
        if kind == "session":
            entry.setdefault("cwd", "")
        elif kind == "message":
            entry.setdefault("source", "given")
            entry["message"] = self._to_message(entry.get("message"))
        elif kind == "compaction" and "history" not in entry:
            summary = {"role": "user", "content": _SUMMARY + str(entry.pop("summary", ""))}
            kept = self._list_kept(parent, self._find_joined(entry.pop("firstKeptId", None)))
            entry["history"] = [self._to_message(summary), *map(Kept, kept)]
        return entry

    def _find_joined(self, id: Any) -> Any:
        while isinstance(id, str) and id in self._joined:
            id = self._joined[id]
        return id

    def _list_kept(self, leaf: Any, first: Any) -> list[str]:
        """Return the messages of the path from ``first`` to ``leaf``; all if ``first`` is not on it."""
        kept: list[str] = []
        for _ in self._links:  # at most once each: the links of a damaged file may form a circle
            if not isinstance(leaf, str) or leaf not in self._links:
                break
            parent, is_message = self._links[leaf]
            if is_message:
                kept.append(leaf)
            if leaf == first:
                break
            leaf = parent
        return kept[::-1]

    def _to_message(self, message: Any) -> Any:
        """Return a message with all required fields, in the form of `encode_message`."""
        if not isinstance(message, dict):
            return message
        return {"timestamp": self._timestamp, **from_classic_message(cast("dict[str, Any]", message))}


def _is_tool_result(entry: dict[str, Any]) -> bool:
    """Return True for an entry with a tool result and nothing else."""
    message = entry.get("message")
    content: Any = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else None
    return (
        entry.get("type") == "message"
        and isinstance(entry.get("id"), str)
        and isinstance(content, list)
        and [cast("dict[str, Any]", b).get("type") for b in cast("list[Any]", content) if isinstance(b, dict)]
        == ["tool_result"]
    )
