"""The files of a sandbox: the same limits as for programs apply to tools."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from mainspring.env.beneath import FolderCache
from mainspring.env.local_files import LocalFiles
from mainspring.env.paths import is_inside
from mainspring.env.sandbox.policy import SandboxPolicy
from mainspring.env.types import DirEntry, FileStat

_TMP = ("/tmp", "/private/tmp")


class SandboxedFiles(LocalFiles):
    """Files of this machine in a sandbox.

    Args:
        cwd: Base of relative paths.
        home: The value of ``~``.
        box: Function that returns the policy.
        moves_tmp: Whether ``/tmp`` is the private folder.
    """

    def __init__(self, cwd: str, home: str, box: Callable[[], SandboxPolicy], *, moves_tmp: bool) -> None:
        super().__init__(cwd, home)
        self._box = box
        self._moves_tmp = moves_tmp

    def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`."""
        real = super().realpath(path)
        if not self._moves_tmp:
            return real
        box = self._box()
        if box.can_read(real) or box.is_denied(real):
            return real
        for folder in _TMP:
            if is_inside(real, folder):  # handled like a link
                return super().realpath(box.tmp + real[len(folder) :])
        return real

    def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        self._check_read(path)
        return super().stat(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        self._check_read(path)
        return super().read(path, offset, limit, folders)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file to read it."""
        self._check_read(path)
        return super().open(path)

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """See `ExecutionEnv.write_bytes`."""
        self._check_change(path)
        super().write(path, data, parents)

    def list(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`; hidden names are omitted."""
        self._check_read(path)
        hidden = {name for folder, name in map(os.path.split, self._box().hidden) if folder == path}
        return [entry for entry in super().list(path) if entry.name not in hidden]

    def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        self._check_change(path)
        super().remove(path)

    def rename(self, source: str, target: str, parents: bool) -> None:
        """See `ExecutionEnv.rename`."""
        self._check_change(source)
        self._check_change(target)
        super().rename(source, target, parents)

    def _check_read(self, path: str) -> None:
        if self._box().can_read(path):
            return
        if not os.path.lexists(path):  # a search through all parent folders needs a clear "not found"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._check_hidden(path)
        _deny("it is outside the paths that the sandbox can read", path)

    def _check_hidden(self, path: str) -> None:
        if self._box().is_denied(path):
            _deny("the sandbox hides it, since it may contain secrets", path)

    def _check_change(self, path: str) -> None:
        box = self._box()
        if box.can_write(path):
            return
        self._check_hidden(path)
        if box.guards(path):
            _deny("the sandbox does not allow changes to it, since it defines programs that run later", path)
        _deny("it is outside the paths that the sandbox can change", path)


def _deny(reason: str, path: str) -> NoReturn:
    raise PermissionError(errno.EPERM, reason, path)
