"""Sessions as files: one JSON object per line, append-only.

``<user folder>/sessions/<project>/<id>.jsonl``, readable by their owner only. Each append writes full lines. An
unrecognized file is never written to.

Also reads the lines of a file backward, without reading the rest.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.lazy import lazy_function
from mainspring.locks import LockResult, LockTimeoutError, describe_lock_owner, lock_directory, try_lock
from mainspring.messages import Message
from mainspring.sessions.entries import (
    VERSION,
    LabelEntry,
    MessageEntry,
    RunStartEntry,
    SessionEntry,
    decode_session_header,
    encode_entry,
    try_decode_entry,
)
from mainspring.sessions.history import prompt_preview
from mainspring.sessions.paths import (
    allow_blocking_writes,
    event_log_path,
    project_folder_name,
    remove_event_logs,
    remove_index,
    validate_session_id,
)
from mainspring.sessions.store import Problem, SessionInfo, StoredLine
from mainspring.state_files import make_private_folder

if TYPE_CHECKING:
    from mainspring.sessions.damaged_header import restore_header
else:
    restore_header = lazy_function("mainspring.sessions.damaged_header", "restore_header")

_SUFFIX = ".jsonl"
_HEAD = 64 * 1024
_TAIL = 16 * 1024
_PREVIEW = 80


class FileHeader(Struct, frozen=True):
    """The header of a session file.

    Attributes:
        entry: The header.
        start: Position of the first line that belongs to the session. Damaged lines before it are skipped.
        is_restored: Whether no line of the file contains it: it was lost, and is derived from the rest.
    """

    entry: SessionEntry
    start: int = 0
    is_restored: bool = False


def read_header(path: Path, cwd: str = "") -> FileHeader:
    """Read the header of a session file. A damaged or missing one is restored if entries follow.

    Args:
        path: The file.
        cwd: The folder that the session probably belongs to, in case that its header is damaged.

    Raises:
        SessionError: If it is not a session file.
        OSError: If it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise SessionError(f"Not a session: {path} is not a file.")
    with path.open("rb") as file:
        line = file.readline(_HEAD)
        if not line:
            raise SessionError(f"Not a session: {path} is empty.")
        try:
            return FileHeader(decode_session_header(line, path))
        except SessionError:
            file.seek(0)
            if (found := restore_header(path, file, cwd)) is not None:
                return FileHeader(*found)
            if not line.strip():
                raise SessionError(f"Not a session: {path} has no header.") from None
            raise


def read_session_info(path: Path, cwd: str = "") -> SessionInfo:
    """Read the metadata of a file. ``problem`` is set if it is not a session. For ``cwd``, see `read_header`.

    Raises:
        OSError: If it does not exist.
    """
    status = path.stat()
    updated = datetime.fromtimestamp(status.st_mtime, UTC)
    fallback = SessionInfo(id=path.stem, place=str(path), updated=updated, size=status.st_size)
    try:
        found = read_header(path, cwd)
        header, head = found.entry, _read_range(path, found.start, _HEAD)
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
        if b'"run_start"' in line and isinstance(entry := try_decode_entry(line), RunStartEntry) and entry.pid:
            return f"process {entry.pid} on {entry.host}" if entry.host else f"process {entry.pid}"
    return ""


def _read_range(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _title(header: SessionEntry, head: bytes, tail: bytes) -> str:
    title = header.title
    for line in _iter_lines_containing(b'"label"', head, tail):
        if isinstance(entry := try_decode_entry(line), LabelEntry) and entry.target == header.id:
            title = entry.label
    return title


def _preview(head: bytes) -> str:
    for line in _iter_lines_containing(b'"prompt"', head):
        entry = try_decode_entry(line)
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
    """Iterate over position and line, with its line end if any, newest first.

    Memory use is that of the longest line.

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
        if later and data.endswith(b"\n"):  # Then the part read before is a separate line.
            yield start + size, b"".join(reversed(later))
            later = []
        while (cut := data.rfind(b"\n", 0, end - 1 if not later else end)) >= 0:
            yield start + cut + 1, data[cut + 1 : end] + b"".join(reversed(later))
            end, later = cut + 1, []
        later.append(data[:end])
    if later:
        yield 0, b"".join(reversed(later))


class JsonlSessionLog:
    """One session file. Not safe for simultaneous use from two threads."""

    has_fast_append = True

    def __init__(self, path: Path, context: Path | None = None) -> None:
        self.place = str(path)
        self.writable = True
        self.problems: list[Problem] = []
        self._path = path
        self._context = context
        self._fd: int | None = None
        self._lock: LockResult = "held"
        self._has_partial_line = False
        self._unnamed = False
        self._is_empty = False
        self._start = 0  # position of the first line that is not skipped
        self._restored = b""  # the header, if the file has none
        self._reader: BinaryIO | None = None

    def __del__(self) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        """True if it is stored."""
        return self._fd is not None and not self._is_empty

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs, if any."""
        return str(self._context) if self._context else None

    def open_existing(self, *, write: bool) -> None:
        """Open the existing file.

        Raises:
            SessionError: If it is not a session.
        """
        found = read_header(self._path)
        header = found.entry
        self._start, self._restored = found.start, encode_entry(header) if found.is_restored else b""
        if self._restored or self._start:
            how = "restored from the rest of the file" if self._restored else "found in a later line"
            text = f"the first line of {self.place} cannot be read; the header of the session was {how}"
            self.problems.append(Problem("damaged", text))
        if header.version > VERSION:
            text = f"{self.place} uses version {header.version} of the format; this program writes version {VERSION}"
            self._read_only(Problem("newer", f"{text}. It can be read, but nothing is saved to it"))
        elif not write:
            self.writable = False
        self._fd = self._open_for_writing() if self.writable else None
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | _FLAGS)
            return
        size = os.fstat(self._fd).st_size
        with self._path.open("rb") as file:
            file.seek(max(size - 1, 0))
            self._has_partial_line = file.read(1) != b"\n"

    def _open_for_writing(self) -> int | None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | _FLAGS)
        except OSError as error:
            self._read_only(Problem("unsaved", f"cannot write to {self.place} ({error.strerror}): {_UNSAVED_NOTICE}"))
            return None
        self._lock = try_lock(fd)
        if self._lock == "taken":
            where = describe_lock_owner(fd, describe_last_writer(self._path))
            os.close(fd)
            text = f"session {self._path.stem} is open {where}"
            self._read_only(Problem("locked", f"{text}: {_UNSAVED_NOTICE}; fork it to continue in a copy"))
            return None
        if self._lock == "unsupported":
            text = f"the file system of {self.place} does not support locks: use this session in one process at a time"
            self.problems.append(Problem("locked", text))
        allow_blocking_writes(fd)
        return fd

    def _read_only(self, problem: Problem) -> None:
        self.writable = False
        self.problems.append(problem)

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one write; see `SessionLog.append`."""
        if not self.writable:
            raise OSError(errno.EROFS, "the session is open for reading only", self.place)
        new = self._fd is None or self._is_empty
        fd = self._create() if self._fd is None else self._fd
        status = os.fstat(fd)
        if status.st_nlink == 0:
            raise OSError(errno.ENOENT, "the file was deleted", self.place)
        data = b"%s%s\n" % (b"\n" if self._has_partial_line else b"", b"\n".join(lines))
        try:
            written = os.write(fd, data)
            while written < len(data):  # A full disk accepts a part; the next write reports the reason.
                written += os.write(fd, data[written:])
            if sync:
                self._sync(fd)
        except OSError:
            self._truncate(fd, status.st_size, new=new)
            raise
        self._has_partial_line = self._is_empty = False

    def _sync(self, fd: int) -> None:
        getattr(os, "fdatasync", os.fsync)(fd)
        if self._unnamed:
            _fsync_folder(self._path.parent)
            self._unnamed = False

    def reserve(self) -> None:
        """Create the empty file; see `SessionLog.reserve`."""
        try:
            self._create()
        except FileExistsError as error:
            raise SessionError(f"Session {self._path.stem} already exists. Open it, or choose another ID.") from error

    def _create(self) -> int:
        """Create the file exclusively, in any project.

        The lock prevents a second process from taking the file for a leftover before the first one has locked it.
        """
        root = self._path.parent.parent
        make_private_folder(self._path.parent)
        with ExitStack() as stack:
            with suppress(OSError, LockTimeoutError):  # a file system without locks
                stack.enter_context(lock_directory(root))
            for path in root.glob(f"*/{self._path.name}"):
                if not _is_empty_leftover(path):
                    raise FileExistsError(errno.EEXIST, "another process has created this session", str(path))
                path.unlink(missing_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            self._lock = try_lock(fd)
        allow_blocking_writes(fd)
        self._fd = fd
        self._unnamed = self._is_empty = True
        if self._context:
            try:
                make_private_folder(self._context)
            except OSError:
                self._context = None
        return fd

    def _truncate(self, fd: int, size: int, *, new: bool) -> None:
        """Remove the rest of a failed write. If that fails too, the next write starts on a new line."""
        if new:
            self._fd = None
            self._path.unlink(missing_ok=True)
            os.close(fd)
            return
        try:
            if self._lock != "held":  # Another process may have written in the meantime.
                raise OSError(errno.EPERM, "not the only writer")
            os.ftruncate(fd, size)
        except OSError:
            self._has_partial_line = True

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first."""
        if self._fd is None:
            return
        position = self._start
        if self._restored:
            yield StoredLine(0, 0, self._restored)
        with self._path.open("rb") as file:
            skipped = file.read(position).count(b"\n")
            for number, line in enumerate(file, skipped + 1):
                data = line.rstrip(b"\r\n")
                if data:
                    yield StoredLine(number, position, data, line.endswith(b"\n"))
                position += len(line)

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first, a block at a time."""
        if self._fd is None:
            return
        with self._path.open("rb") as file:
            for position, line in iter_lines_backward(file):
                skipped = max(self._start - position, 0)
                data = line[skipped:].rstrip(b"\r\n")
                if data:
                    yield StoredLine(0, position + skipped, data, line.endswith(b"\n"))
        if self._restored:
            yield StoredLine(0, 0, self._restored)

    def read(self, position: int) -> bytes:
        """Return the line at a position."""
        if self._reader is None:
            self._reader = self._path.open("rb")
        self._reader.seek(position)
        return self._reader.readline().rstrip(b"\r\n")

    def close(self) -> None:
        """Release the session for other writers."""
        fd, self._fd, self.writable = self._fd, None, False
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        if fd is not None:
            if self._is_empty:  # reserved, but never used
                self._path.unlink(missing_ok=True)
            os.close(fd)


class JsonlStore:
    """Sessions in the user's folder, and session files elsewhere by path.

    Args:
        home: The user's folder. Sessions are in its subfolder ``sessions/``, with a folder for each project.
    """

    def __init__(self, home: str | os.PathLike[str]) -> None:
        self.home = Path(home)
        self.root = self.home / "sessions"

    @property
    def blobs_folder(self) -> str:
        """The folder for contents of files."""
        return str(self.home / "files")

    def create(self, header: SessionEntry) -> JsonlSessionLog:
        """Create a session. Nothing is stored yet."""
        if self.exists(validate_session_id(header.id)):
            raise SessionError(f"Session {header.id} already exists. Open it, or choose another ID.")
        return JsonlSessionLog(
            self.root / project_folder_name(header.cwd) / f"{header.id}{_SUFFIX}", self._context(header.id)
        )

    def open(self, name: str, *, write: bool = True) -> JsonlSessionLog:
        """Open a stored session; see `SessionStore.open`."""
        path = self._find(name)
        log = JsonlSessionLog(path, self._context(path.stem) if path.is_relative_to(self.root) else None)
        try:
            log.open_existing(write=write)
        except OSError as error:
            raise SessionError(f"Cannot read {path}: {error.strerror}") from error
        return log

    def exists(self, name: str) -> bool:
        """Return True if it is stored.

        An empty file is the leftover of a process that was killed while creating it.
        """
        try:
            return any(path.stat().st_size > 0 for path in self.root.glob(f"*/{validate_session_id(name)}{_SUFFIX}"))
        except PermissionError:  # The first write reports it, and the session continues in memory.
            return False

    def delete(self, name: str) -> None:
        """Delete a session permanently."""
        log = self.open(name)
        try:
            if not log.writable and not any(p.kind == "newer" for p in log.problems):
                raise SessionError(f"Cannot delete session {name}: {log.problems[0]}")
            if os.name == "nt":  # On systems where an open file cannot be removed.
                log.close()
            os.unlink(log.place)
            remove_event_logs(event_log_path(self.home, Path(log.place).stem))
            remove_index(self.home)
            if log.context_folder:
                shutil.rmtree(log.context_folder, ignore_errors=True)
        finally:
            log.close()

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        project = "*" if cwd is None else project_folder_name(cwd)
        found: list[SessionInfo] = []
        for path in self.root.glob(f"{project}/*{_SUFFIX}"):
            try:
                info = read_session_info(path, cwd or "")
            except OSError:  # Deleted in the meantime.
                continue
            if info.size:  # An empty file is reserved, or a leftover; see `exists`.
                found.append(info)
        return sorted(found, key=lambda s: (s.updated is not None, s.updated, s.id), reverse=True)

    def _context(self, session: str) -> Path:
        return self.home / "context" / session

    def _find(self, name: str) -> Path:
        if name.endswith(_SUFFIX) or os.sep in name:
            path = Path(name).expanduser()
            if not path.exists():
                raise SessionError(f"Session file not found: {path}")
            return path
        found = sorted(self.root.glob(f"*/{validate_session_id(name)}*{_SUFFIX}"))
        exact = [path for path in found if path.stem == name]
        match exact or found:
            case []:
                raise SessionError(f"Unknown session: {name} (in {self.root})")
            case [path]:
                return path
            case several:
                names = ", ".join(path.stem for path in several[:5])
                raise SessionError(f"{name} matches {len(several)} sessions: {names}")


_UNSAVED_NOTICE = "new messages are not saved"
_FLAGS = getattr(os, "O_BINARY", 0)


def _is_empty_leftover(path: Path) -> bool:
    """Return True if a file is empty and no process is writing it: a process was killed before it wrote the first line."""
    fd = os.open(path, os.O_RDWR | _FLAGS)
    try:
        return os.fstat(fd).st_size == 0 and try_lock(fd) == "held"
    finally:
        os.close(fd)


def _fsync_folder(folder: Path) -> None:
    """Ensure that a new file keeps its name after a power failure."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
