"""The files of an environment, blocking: `LocalEnv` calls these in threads; a sandbox and a container have their own kind."""

from __future__ import annotations

import errno
import os
from io import BufferedReader
from typing import BinaryIO

from mainspring.env import local_files as disk
from mainspring.env.beneath import PathChangedError, RealPath
from mainspring.env.protocol import DirEntry, FileStat

_MOST_RULES = 1 << 20


class LocalFiles:
    """Files of this machine. All but `real` and `named` take what those gave.

    Args:
        cwd: Where relative paths start.
        home: What ``~`` stands for.
    """

    def __init__(self, cwd: str, home: str) -> None:
        self.cwd = cwd
        self.home = home

    def real(self, path: str) -> str:
        """See `ExecutionEnv.realpath`."""
        return disk.real_path(path, self.cwd, self.home)

    def resolve(self, path: str) -> str:
        """The real path of what a caller asks for; a real path is taken as it is, whatever it leads to now."""
        return path if isinstance(path, RealPath) else self.real(path)

    def named(self, path: str) -> str:
        """The path of a name itself: the links on the way to it resolved, the last part as it is."""
        if isinstance(path, RealPath):
            return path
        folder, name = os.path.split(path.rstrip("/"))
        if name in ("", ".", "..", "~"):
            raise OSError(errno.EINVAL, "it is not the name of a file", path)
        return os.path.join(self.real(folder or "."), name)

    def is_folder(self, path: str) -> bool:
        """Whether it is there and a folder."""
        try:
            return self.stat(path).kind == "directory"
        except OSError:
            return False

    def exists(self, path: str) -> bool:
        """Returns True if there is anything at a real path, even if it cannot be opened."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        return disk.stat_file(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        return disk.read_file(path, offset, limit)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file to read it."""
        return BufferedReader(disk.open_file(path))

    def is_local(self, path: str) -> bool:
        """Returns True if a file is opened on this machine, where other programs can change its path."""
        return True

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """See `ExecutionEnv.write_bytes`."""
        disk.write_file(path, data, parents)

    def list(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        return disk.list_folder(path)

    def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        disk.remove_file(path)

    def rename(self, source: str, target: str, parents: bool) -> None:
        """See `ExecutionEnv.rename`."""
        disk.rename_file(source, target, parents)


class WalkedFiles:
    """The files as a walk needs them."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    def list(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        return self._files.list(path)

    def read(self, path: str) -> bytes | None:
        """A small file's bytes; ``None`` if it cannot be read. Ignore files may be links."""
        try:
            return self._files.read(path, 0, _MOST_RULES)
        except PathChangedError:
            try:
                return self._files.read(self._files.real(path), 0, _MOST_RULES)
            except OSError:
                return None
        except OSError:
            return None
