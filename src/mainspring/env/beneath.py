"""Open files by their resolved paths without following a link, so that the checked path is the path that is used.

A resolved path contains no symbolic links. If one of its parts is a link when the file is opened, another program has changed the
path since it was resolved, and opening it fails. Linux does this in one system call (``openat2``); elsewhere, and on a Linux
without that call, each folder is opened from its parent. On Windows paths are opened as usual.
"""

from __future__ import annotations

import errno
import os
import stat as stat_module
import sys
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any, Protocol, Self

_OPENAT2 = 437
_RESOLVE_NO_SYMLINKS = 0x04
_AT_FDCWD = -100
_ON_WINDOWS = sys.platform == "win32"
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
_PASS: int = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | _DIRECTORY | _CLOEXEC
"""Flag to open a folder only to reach its content, which needs no permission to list it."""

_OpenFunction = Callable[[str, int, int], int]


class RealPath(str):
    """A resolved path, as `ExecutionEnv.realpath` returns it. Environments use it without following links.

    Wrap a path in it after the path is checked: ``RealPath(await ctx.resolve(path))``. Do not use it in results or messages; write
    ``str(path)`` there.
    """

    __slots__ = ()

    def __truediv__(self, other: str) -> RealPath:
        """Return a path below this one, whose parts contain no links either."""
        return RealPath(f"{self.rstrip('/')}/{other}" if other else self)


class Resolver(Protocol):
    """An environment that resolves paths."""

    async def realpath(self, path: str) -> str:
        """Return the path with its links resolved."""
        ...


async def resolve(env: Resolver, path: str) -> RealPath:
    """Return the resolved path of ``path``; a `RealPath` is returned unchanged, wherever it leads now."""
    return path if isinstance(path, RealPath) else RealPath(await env.realpath(path))


class PathChangedError(PermissionError):
    """A part of a resolved path has become a symbolic link."""

    def __init__(self, path: str) -> None:
        text = "the path changed while it was being opened: it has become a symbolic link to another place; try again"
        super().__init__(errno.EPERM, text, str(path))


def open_beneath(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file by its resolved path and return the descriptor.

    Args:
        path: The resolved path.
        flags: Flags for `os.open`; the descriptor is not inherited.
        mode: Permission bits of a new file.

    Raises:
        PathChangedError: If a part of the path is a link.
    """
    return _opener()(path, flags | _CLOEXEC, mode)


class Folder:
    """An open folder. Names in it are used relative to it, even if its path changes.

    Args:
        path: Its resolved path.
        parents: Whether to create it, and the folders above it, if it does not exist.
        descriptor: Its descriptor, if it is open already.
    """

    def __init__(self, path: str, *, parents: bool = False, descriptor: int | None = None) -> None:
        self.path = path
        self.descriptor = descriptor
        if descriptor is not None:
            return
        if _ON_WINDOWS:
            if parents:
                os.makedirs(path, exist_ok=True)
        else:
            self.descriptor = _open_or_make(path) if parents else open_beneath(path, _PASS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
        if isinstance(error, OSError) and isinstance(
            error.filename, str
        ):  # a system call accepts only a name in the folder
            error.filename = os.path.join(self.path, error.filename)

    def at(self, name: str) -> str:
        """Return the argument of system calls for a name in the folder, together with `descriptor` as ``dir_fd``."""
        return name if self.descriptor is not None else os.path.join(self.path, name)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file in the folder and return the descriptor.

        Raises:
            PathChangedError: If the name is a link.
        """
        try:
            return os.open(self.at(name), flags | _NOFOLLOW | _CLOEXEC, mode, dir_fd=self.descriptor)
        except OSError as e:
            if e.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and self._is_link(name):
                raise PathChangedError(os.path.join(self.path, name)) from None
            raise

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a name in the folder, without following a link."""
        return os.stat(self.at(name), dir_fd=self.descriptor, follow_symlinks=False)

    def is_folder(self, name: str) -> bool:
        """Return True if the name is a folder and not a link to one."""
        try:
            return stat_module.S_ISDIR(self.stat(name).st_mode)
        except OSError:
            return False

    def _is_link(self, name: str) -> bool:
        try:
            return stat_module.S_ISLNK(self.stat(name).st_mode)
        except OSError:
            return False

    def sync(self) -> None:
        """Flush the folder itself to the disk, if the system lets a program do that."""
        if self.descriptor is None:
            return
        try:
            descriptor = os.open(".", os.O_RDONLY | _CLOEXEC, dir_fd=self.descriptor)
        except OSError:
            return
        try:
            os.fsync(descriptor)
        except OSError:
            pass
        finally:
            os.close(descriptor)


class FolderCache:
    """Opens files by their resolved paths, and keeps the last folder open: faster for many files of a folder."""

    def __init__(self) -> None:
        self._folder: Folder | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.__exit__(None, None, None)
            self._folder = None

    def open(self, path: str, flags: int) -> int:
        """Open an existing file and return the descriptor. See `open_beneath`."""
        above, _, name = path.rpartition("/")
        if self._folder is None or self._folder.path != above:
            self.__exit__()
            self._folder = Folder(above or "/")
        try:
            return self._folder.open(name or ".", flags)
        except OSError as e:
            e.filename = str(path)
            raise


def stat_beneath(path: str) -> os.stat_result:
    """Return the status of the file at a resolved path.

    Raises:
        PathChangedError: If a part of the path is a link.
    """
    if hasattr(os, "O_PATH"):
        descriptor = open_beneath(path, os.O_PATH)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)
    folder, name = os.path.split(path)
    with Folder(folder) as opened:
        found = opened.stat(name or ".")
    if stat_module.S_ISLNK(found.st_mode):
        raise PathChangedError(path)
    return found


def _open_or_make(path: str) -> int:
    missing: list[str] = []
    while True:
        try:
            descriptor = open_beneath(path, _PASS)
            break
        except FileNotFoundError:
            path, name = os.path.split(path)
            if not name:
                raise
            missing.append(name)
    for name in reversed(missing):
        with Folder(path, descriptor=descriptor) as folder:
            try:
                os.mkdir(name, dir_fd=folder.descriptor)
            except FileExistsError:
                pass  # another program created it first; a link in its place is rejected now
            descriptor = folder.open(name, _PASS)
        path = os.path.join(path, name)
    return descriptor


@cache
def _opener() -> _OpenFunction:
    """Return the function that opens files on this system."""
    if _ON_WINDOWS:
        return os.open
    return (_openat2() if sys.platform == "linux" else None) or open_by_parts


def open_by_parts(path: str, flags: int, mode: int) -> int:
    """Open a resolved path folder by folder, and return the descriptor. See `open_beneath`."""
    *above, name = path.strip("/").split("/")
    folder = _Opened("/", os.open("/", _PASS))
    for part in above:
        with folder:
            folder = _Opened(os.path.join(folder.path, part), folder.open(part, _PASS))
    with folder:
        descriptor = folder.open(name or ".", flags, mode)
    if flags & getattr(os, "O_PATH", 0) and stat_module.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)  # such a descriptor can refer to the link itself
        raise PathChangedError(path)
    return descriptor


class _Opened(Folder):
    """A folder by its open descriptor."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor


def _openat2() -> _OpenFunction | None:
    """Return the function for ``openat2``, or None if the kernel or its system call filter lacks it."""
    import ctypes  # takes 10 ms to import: only if a file is opened

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    system: Any = ctypes.CDLL(None, use_errno=True).syscall
    system.restype = ctypes.c_long
    system.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(How), ctypes.c_size_t)
    size = ctypes.sizeof(How)

    @cache
    def how(flags: int, mode: int) -> Any:
        return ctypes.byref(How(flags, mode, _RESOLVE_NO_SYMLINKS))

    def call(path: str, flags: int, mode: int) -> int:
        arguments = how(flags, mode if flags & os.O_CREAT else 0)
        encoded = os.fsencode(path)
        while (descriptor := system(_OPENAT2, _AT_FDCWD, encoded, arguments, size)) < 0:
            number = ctypes.get_errno()
            if number == errno.ELOOP:
                raise PathChangedError(path)
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number), str(path))
        return descriptor

    try:
        os.close(call("/", _PASS, 0))
    except OSError:
        return None
    return call
