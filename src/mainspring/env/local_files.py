"""Files of this machine, blocking. `LocalEnv` calls these functions in threads; a sandbox and a container have their own variants."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_module
import sys
from collections.abc import Callable, Iterable
from io import BufferedReader, FileIO
from operator import attrgetter
from typing import BinaryIO

from mainspring.env.beneath import Folder, FolderCache, PathChangedError, RealPath, open_beneath, stat_beneath
from mainspring.env.types import DirEntry, FileKind, FileStat
from mainspring.lazy import lazy_re

_KINDS: dict[int, FileKind] = {
    stat_module.S_IFREG: "file",
    stat_module.S_IFDIR: "directory",
    stat_module.S_IFLNK: "symlink",
    stat_module.S_IFIFO: "fifo",
    stat_module.S_IFSOCK: "socket",
    stat_module.S_IFCHR: "device",
    stat_module.S_IFBLK: "device",
}
_ON_WINDOWS = sys.platform == "win32"
_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
_CANNOT_RENAME = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENOTSUP, errno.ENAMETOOLONG}


_MAX_PATH_CHARS = 4096  # the limit of Linux, in bytes


def resolve_local_path(path: str, cwd: str, home: str) -> str:
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
    if len(path) > _MAX_PATH_CHARS and len(os.path.normpath(full)) > _MAX_PATH_CHARS:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)  # Each level would be looked up.
    try:
        resolved = os.path.realpath(full, strict=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        resolved = os.path.realpath(full)
        if os.path.realpath(resolved) != resolved or os.path.islink(resolved):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
    return resolved.replace("\\", "/") if sys.platform == "win32" else resolved


def stat_file(path: str) -> FileStat:
    """See `ExecutionEnv.stat`."""
    found = stat_beneath(path)
    return FileStat(
        str(path),
        kind_from_mode(found.st_mode),
        found.st_size,
        found.st_mtime_ns,
        stat_module.S_IMODE(found.st_mode),
        found.st_nlink,
    )


_UNSAFE_KERNEL_FILES = lazy_re(
    r"/proc/(?:kmsg|kcore|(?:self|thread-self|\d+)/(?:task/\d+/)?(?:mem|pagemap|clear_refs))"
    r"|/sys/kernel/(?:debug/)?tracing/(?:.*/)?trace_pipe(?:_raw)?"
)
"""Kernel files that look regular but never end, are consumed by reading, or are the memory of a process."""


def open_file(path: str) -> FileIO:
    """Open a regular file to read it.

    Args:
        path: The resolved path.
    """
    return FileIO(_open_regular_file(path, open_beneath)[0], "r")


def _open_regular_file(path: str, open_path: Callable[[str, int], int]) -> tuple[int, int]:
    """Return the descriptor and the size of a regular file."""
    if path.startswith(("/proc/", "/sys/")) and _UNSAFE_KERNEL_FILES.fullmatch(path):
        raise OSError(errno.EINVAL, "it is an interface to the kernel or a process, not a file", path)
    descriptor = open_path(path, os.O_RDONLY | _NONBLOCK | _BINARY)
    found = os.fstat(descriptor)
    if stat_module.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    if stat_module.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, f"it is not a regular file but a {kind_from_mode(found.st_mode)}", path)


def read_local_file(path: str, offset: int, limit: int | None, folders: FolderCache | None = None) -> bytes:
    """See `ExecutionEnv.read_bytes`."""
    if limit is None:
        with open_file(path) as file:
            file.seek(offset)
            return file.read() or b""  # None: a kernel file without content now
    # Searches read many small files, so this uses the descriptor directly, and reads once if the size is known.
    descriptor, size = _open_regular_file(path, folders.open if folders else open_beneath)
    try:
        if offset:
            os.lseek(descriptor, offset, os.SEEK_SET)
        return _read_up_to(descriptor, limit, size - offset)
    except BlockingIOError:
        return b""  # a kernel file without content now
    finally:
        os.close(descriptor)


def _read_up_to(descriptor: int, limit: int, expected: int) -> bytes:
    data = os.read(descriptor, min(limit, expected + 1) if expected > 0 else limit)  # a larger buffer takes longer
    if len(data) in (limit, expected) or not data:
        return data
    pieces = [data]
    while (limit := limit - len(pieces[-1])) > 0 and (data := os.read(descriptor, limit)):
        pieces.append(data)
    return b"".join(pieces)


def write_local_file(path: str, data: bytes, parents: bool) -> None:
    """See `ExecutionEnv.write_bytes`; ``path`` is a resolved path."""
    above, name = os.path.split(path)
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with Folder(above, parents=parents) as folder:
        old = _open_old(folder, name, path)
        if old is None:
            _replace(folder, name, data, None, path)
            return
        with old:
            _write_over(folder, name, data, old, path)


def _open_old(folder: Folder, name: str, path: str) -> FileIO | None:
    """Open the file that will be replaced, for writing; None if it does not exist."""
    try:
        mode = folder.stat(name).st_mode
        if stat_module.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat_module.S_ISREG(mode) and not stat_module.S_ISLNK(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return FileIO(folder.open(name, os.O_WRONLY | _NONBLOCK | _BINARY), "w")
    except FileNotFoundError:
        return None
    except PathChangedError:
        raise
    except OSError as e:
        if e.errno == errno.ETXTBSY:  # a running program can be replaced, but not written to
            return FileIO(folder.open(name, os.O_RDONLY | _NONBLOCK | _BINARY), "r")
        if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionError(errno.EACCES, "the file is read-only", path) from None
        raise


def _write_over(folder: Folder, name: str, data: bytes, old: FileIO, path: str) -> None:
    facts = os.fstat(old.fileno())
    if not stat_module.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    if facts.st_nlink > 1:
        _overwrite_in_place(old.fileno(), data, path)
        return
    try:
        _replace(folder, name, data, old, path)
    except OSError as e:
        if e.errno not in _CANNOT_RENAME:
            raise
        with FileIO(folder.open(name, os.O_WRONLY | _BINARY), "w") if old.closed else old as file:
            _overwrite_in_place(file.fileno(), data, path)


def _replace(folder: Folder, name: str, data: bytes, old: FileIO | None, path: str) -> None:
    temporary = f".{name[:100]}.{os.urandom(4).hex()}.tmp"
    descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666 if old is None else 0o600)
    try:
        with FileIO(descriptor, "w"):
            if old is not None:
                _copy_owner_and_mode(old.fileno(), descriptor)
            _write_all(descriptor, data)
            _fsync_and_verify(descriptor, len(data), path)
        if old is not None and _ON_WINDOWS:
            old.close()  # Windows does not replace an open file
        _rename(folder, temporary, folder, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(folder.at(temporary), dir_fd=folder.descriptor)
        raise
    folder.sync()


def _rename(source: Folder, old: str, target: Folder, new: str) -> None:
    os.replace(source.at(old), target.at(new), src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)


def _copy_owner_and_mode(source: int, descriptor: int) -> None:
    """Copy owner, attributes, and mode of the old file to the new file."""
    if sys.platform == "win32":
        return
    old, new = os.fstat(source), os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)  # If this fails, the file is rewritten in place instead.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(source):
                os.setxattr(descriptor, name, os.getxattr(source, name))
    os.fchmod(descriptor, stat_module.S_IMODE(old.st_mode))


def _overwrite_in_place(descriptor: int, data: bytes, path: str) -> None:
    sizeless = not os.fstat(descriptor).st_size  # kernel files report this size, whatever their content is
    _write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    _fsync_and_verify(descriptor, len(data), path, sizeless=sizeless)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _fsync_and_verify(descriptor: int, size: int, path: str, *, sizeless: bool = False) -> None:
    """Flush everything to the disk, and verify it: some drives store less than they receive, without an error."""
    os.fsync(descriptor)
    found = os.fstat(descriptor).st_size
    if found != size and (found or not sizeless):
        raise OSError(errno.EIO, f"the drive stored {found} of {size} bytes", path)


def list_directory(path: str) -> list[DirEntry]:
    """See `ExecutionEnv.list_dir`."""
    if _ON_WINDOWS:
        with os.scandir(path) as found:
            return _entries(found)
    descriptor = open_beneath(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as found:
            return _entries(found)
    finally:
        os.close(descriptor)


def _entries(dir_entries: Iterable[os.DirEntry[str]]) -> list[DirEntry]:
    return [DirEntry(entry.name, entry_kind(entry)) for entry in sorted(dir_entries, key=attrgetter("name"))]


def kind_from_mode(mode: int) -> FileKind:
    """Return the kind of a file from its mode."""
    return _KINDS.get(stat_module.S_IFMT(mode), "other")


def entry_kind(entry: os.DirEntry[str]) -> FileKind:
    """Return the kind of a name in a folder, without following links."""
    try:
        if entry.is_file(follow_symlinks=False):
            return "file"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        if entry.is_symlink():
            return "symlink"
        return kind_from_mode(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return "other"


def rename_file(source: str, target: str, parents: bool) -> None:
    """See `ExecutionEnv.rename`; the last parts of both paths are not resolved."""
    (above, old), (beside, new) = os.path.split(source), os.path.split(target)
    with Folder(above) as here:
        if here.is_folder(old):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
        with Folder(beside, parents=parents) as there:
            if there.is_folder(new):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            try:
                _rename(here, old, there, new)
            except OSError as e:
                if e.errno != errno.EXDEV:
                    raise OSError(e.errno, e.strerror, source) from None
                _copy(here, old, there, new)
                os.unlink(here.at(old), dir_fd=here.descriptor)
            there.sync()


def _copy(source: Folder, old: str, target: Folder, new: str) -> None:
    """Copy a file or link to another file system, with mode, attributes, and times."""
    temporary = f".{new[:100]}.{os.urandom(4).hex()}.tmp"
    try:
        if stat_module.S_ISLNK(source.stat(old).st_mode):
            link = os.readlink(source.at(old), dir_fd=source.descriptor)
            os.symlink(link, target.at(temporary), dir_fd=target.descriptor)
        else:
            _copy_content(source.open(old, os.O_RDONLY | _NONBLOCK | _BINARY), target, temporary)
        _rename(target, temporary, target, new)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(target.at(temporary), dir_fd=target.descriptor)
        raise


def _copy_content(descriptor: int, folder: Folder, name: str) -> None:
    with FileIO(descriptor, "r") as source:
        facts = os.fstat(descriptor)
        file = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        with FileIO(file, "w") as target:
            import shutil

            shutil.copyfileobj(source, target, 1 << 20)
            with contextlib.suppress(PermissionError):  # not every user may set the owner
                _copy_owner_and_mode(descriptor, file)
            if sys.platform != "win32":
                os.fchmod(file, stat_module.S_IMODE(facts.st_mode))
                os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            os.fsync(file)


def remove_file(path: str) -> None:
    """See `ExecutionEnv.remove`; the last part of ``path`` is not resolved."""
    above, name = os.path.split(path)
    with Folder(above) as folder:
        remove = os.rmdir if folder.is_folder(name) else os.unlink
        remove(folder.at(name), dir_fd=folder.descriptor)


_MAX_IGNORE_FILE_BYTES = 1 << 20


class LocalFiles:
    """Files of this machine. All methods except `realpath` and `resolve_entry` accept the results of those two.

    Args:
        cwd: Base of relative paths.
        home: The value of ``~``.
    """

    def __init__(self, cwd: str, home: str) -> None:
        self.cwd = cwd
        self.home = home

    def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`."""
        return resolve_local_path(path, self.cwd, self.home)

    def resolve(self, path: str) -> str:
        """Return the resolved path of a path; a `RealPath` is returned unchanged, wherever it leads now."""
        return path if isinstance(path, RealPath) else self.realpath(path)

    def resolve_entry(self, path: str) -> str:
        """Return the path of a name itself: links in its parents are resolved, the last part is not."""
        if isinstance(path, RealPath):
            return path
        folder, name = os.path.split(path.rstrip("/"))
        if name in ("", ".", "..", "~"):
            raise OSError(errno.EINVAL, "it is not the name of a file", path)
        return os.path.join(self.realpath(folder or "."), name)

    def is_folder(self, path: str) -> bool:
        """Return True if it exists and is a folder."""
        try:
            return self.stat(path).kind == "directory"
        except OSError:
            return False

    def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        return stat_file(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`; ``folders`` opens many files faster."""
        return read_local_file(path, offset, limit, folders)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file to read it."""
        return BufferedReader(open_file(path))

    def is_local(self, path: str) -> bool:
        """Return True if a file is opened on this machine, where other programs can change its path."""
        return True

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """See `ExecutionEnv.write_bytes`."""
        write_local_file(path, data, parents)

    def list(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return list_directory(path)

    def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        remove_file(path)

    def rename(self, source: str, target: str, parents: bool) -> None:
        """See `ExecutionEnv.rename`."""
        rename_file(source, target, parents)


class FilesBelow:
    """The files below a folder, blocking, to read only. Names are relative to it; neither a link nor ``..`` leads out of it.

    Args:
        files: All files.
        root: The folder.
    """

    def __init__(self, files: LocalFiles, root: RealPath) -> None:
        self._files = files
        self._root = root

    def open(self, name: str) -> BinaryIO:
        """Open a regular file to read it."""
        return self._files.open(self._path(name))

    def exists(self, name: str) -> bool:
        """Return True if anything exists there, even if it cannot be opened."""
        try:
            self._files.stat(self._path(name))
        except OSError:
            return False
        return True

    def list(self, name: str) -> list[DirEntry]:
        """Return the names in a folder."""
        return self._files.list(self._path(name))

    def _path(self, name: str) -> RealPath:
        if ".." in name.split("/"):
            raise OSError(errno.EINVAL, "it leads out of the folder", name)
        return self._root / name


class LocalWalkSource:
    """The files for a walk."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    def list(self, path: str) -> list[DirEntry]:
        """Return the names in a folder."""
        return self._files.list(path)

    def read(self, path: str) -> bytes | None:
        """Return a small file's bytes; None if it cannot be read. Ignore files may be links."""
        try:
            return self._files.read(path, 0, _MAX_IGNORE_FILE_BYTES)
        except PathChangedError:
            try:
                return self._files.read(self._files.realpath(path), 0, _MAX_IGNORE_FILE_BYTES)
            except OSError:
                return None
        except OSError:
            return None
