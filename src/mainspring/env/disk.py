"""Files of this machine, blocking; `LocalEnv` calls these in threads."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat as modes
import sys

from mainspring.env.protocol import DirEntry, FileKind, FileStat
from mainspring.lazy import lazy_re

_KINDS: dict[int, FileKind] = {
    modes.S_IFREG: "file",
    modes.S_IFDIR: "directory",
    modes.S_IFLNK: "symlink",
    modes.S_IFIFO: "fifo",
    modes.S_IFSOCK: "socket",
    modes.S_IFCHR: "device",
    modes.S_IFBLK: "device",
}
_CANNOT_RENAME = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENOTSUP, errno.ENAMETOOLONG}


def real_path(path: str, cwd: str, home: str) -> str:
    """See `ExecutionEnv.realpath`."""
    if not path or "\0" in path:
        raise OSError(errno.EINVAL, "the path is empty" if not path else "the path has a NUL character in it", path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, "the path has half a surrogate pair in it", ascii(path)) from None
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    full = os.path.join(cwd, path)
    try:
        resolved = os.path.realpath(full, strict=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        resolved = os.path.realpath(full)
        if os.path.realpath(resolved) != resolved or os.path.islink(resolved):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
    return resolved.replace("\\", "/") if sys.platform == "win32" else resolved


def stat_file(path: str) -> FileStat:
    """See `ExecutionEnv.stat`."""
    found = os.stat(path)
    return FileStat(
        path,
        kind_of_mode(found.st_mode),
        found.st_size,
        found.st_mtime_ns,
        modes.S_IMODE(found.st_mode),
        found.st_nlink,
    )


_TRAPS = lazy_re(
    r"/proc/(?:kmsg|kcore|(?:self|thread-self|\d+)/(?:task/\d+/)?(?:mem|pagemap|clear_refs))"
    r"|/sys/kernel/(?:debug/)?tracing/(?:.*/)?trace_pipe(?:_raw)?"
)
"""Files of the kernel that look regular but never end, take away what they give, or are somebody's memory."""


def read_file(path: str, offset: int, limit: int | None) -> bytes:
    """See `ExecutionEnv.read_bytes`."""
    if _TRAPS.fullmatch(path):
        raise OSError(errno.EINVAL, "it is a window into the kernel or a process, not a file", path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        mode = os.fstat(descriptor).st_mode
        if modes.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not modes.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"it is no regular file but a {kind_of_mode(mode)}", path)
        if offset:
            file.seek(offset)
        if limit is None:
            return file.read() or b""  # None: a file of the kernel that has nothing to give now
        pieces: list[bytes] = []
        while limit > 0 and (piece := file.read(limit)):
            pieces.append(piece)
            limit -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_file(path: str, data: bytes, parents: bool) -> None:
    """See `ExecutionEnv.write_bytes`; ``path`` is a real path."""
    folder = os.path.dirname(path)
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
        if parents:
            os.makedirs(folder, exist_ok=True)
    if old is not None:
        if modes.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not modes.S_ISREG(old.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is read-only", path)
        if old.st_nlink > 1:
            _rewrite(path, data)
            return
    try:
        _replace(path, data, old)
    except OSError as e:
        if old is None or e.errno not in _CANNOT_RENAME:
            raise
        _rewrite(path, data)


def _replace(path: str, data: bytes, old: os.stat_result | None) -> None:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(temporary, flags, 0o666 if old is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if old is not None:
                _take_over(path, descriptor, old)
            _write_all(file.fileno(), data)
            _settle(descriptor, len(data), path)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _take_over(path: str, descriptor: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner, attributes and mode."""
    if sys.platform == "win32":
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)  # Where this is refused, the file is rewritten in place instead.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                os.setxattr(descriptor, name, os.getxattr(path, name))
    os.fchmod(descriptor, modes.S_IMODE(old.st_mode))


def _rewrite(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        sizeless = not os.fstat(descriptor).st_size  # as files of the kernel are, whatever is in them
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        _settle(descriptor, len(data), path, sizeless=sizeless)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _settle(descriptor: int, size: int, path: str, *, sizeless: bool = False) -> None:
    """Have everything on the disk, and see that it is: some drives take less than they are given, without an error."""
    os.fsync(descriptor)
    found = os.fstat(descriptor).st_size
    if found != size and (found or not sizeless):
        raise OSError(errno.EIO, f"the drive took {found} of {size} bytes", path)


def _sync_folder(folder: str) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def list_folder(path: str) -> list[DirEntry]:
    """See `ExecutionEnv.list_dir`."""
    with os.scandir(path) as found:
        return sorted((DirEntry(entry.name, kind_of(entry)) for entry in found), key=lambda e: e.name)


def kind_of_mode(mode: int) -> FileKind:
    """The kind that a file's mode tells."""
    return _KINDS.get(modes.S_IFMT(mode), "other")


def kind_of(entry: os.DirEntry[str]) -> FileKind:
    """The kind of a name in a folder, links not followed."""
    try:
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        if entry.is_file(follow_symlinks=False):
            return "file"
        return kind_of_mode(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return "other"


def rename_file(source: str, target: str, parents: bool) -> None:
    """See `ExecutionEnv.rename`; the last parts of both paths are not resolved."""
    for path in (source, target):
        if os.path.isdir(path) and not os.path.islink(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if parents:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.replace(source, target)
    except OSError as e:
        if e.errno != errno.EXDEV:
            raise
        shutil.move(source, target)  # to another file system: copied with mode and times, then removed
    _sync_folder(os.path.dirname(target))


def remove_file(path: str) -> None:
    """See `ExecutionEnv.remove`; the last part of ``path`` is not resolved."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
