"""A tree of files, folders and links in a dictionary."""

from __future__ import annotations

import errno
import os
import posixpath

from msgspec import Struct

from mainspring.env.beneath import PathChangedError, RealPath
from mainspring.env.protocol import DirEntry, FileKind, FileStat

_MOST_LINKS = 40


class File(Struct):
    """A file."""

    data: bytes
    mtime_ns: int


class Link(Struct):
    """A symbolic link."""

    target: str


class Folder(Struct):
    """A folder."""


class MemoryTree:
    """Files by absolute path. Time goes on by a millisecond with each change."""

    def __init__(self, cwd: str, home: str) -> None:
        self._cwd = cwd
        self._home = home
        self._nodes: dict[str, File | Link | Folder] = {"/": Folder()}
        self._clock = 1_700_000_000_000_000_000
        self._make_folder(cwd)

    def absolute(self, path: str) -> str:
        """The path from the root; links and ``..`` as they are."""
        if not path or "\0" in path:
            raise os_error(errno.EINVAL, path)
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return posixpath.join(self._cwd, path)

    def resolve(self, path: str) -> str:
        """The real path."""
        left = self.absolute(path).split("/")[::-1]
        real = "/"
        links = 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                real = posixpath.dirname(real)
                continue
            step = posixpath.join(real, part)
            node = self._nodes.get(step)
            if isinstance(node, Link):
                links += 1
                if links > _MOST_LINKS:
                    raise os_error(errno.ELOOP, path)
                left += node.target.split("/")[::-1]
                real = "/" if node.target.startswith("/") else real
            else:
                real = step
        if links and isinstance(path, RealPath):
            raise PathChangedError(path)
        return real

    def stat(self, path: str) -> FileStat:
        """Facts about what ``path`` leads to."""
        node, real = self._found(path), self.resolve(path)
        if isinstance(node, File):
            return FileStat(real, "file", len(node.data), node.mtime_ns)
        return FileStat(real, "directory", mode=0o755)

    def content(self, path: str) -> bytes:
        """A file's bytes."""
        node = self._found(path)
        if not isinstance(node, File):
            raise os_error(errno.EISDIR, path)
        return node.data

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """Replace or make a file."""
        real = self.resolve(path)
        if isinstance(self._nodes.get(real), Folder):
            raise os_error(errno.EISDIR, path)
        folder = posixpath.dirname(real)
        if parents:
            self._make_folder(folder)
        elif folder not in self._nodes:
            raise os_error(errno.ENOENT, path)
        if not isinstance(self._nodes[folder], Folder):
            raise os_error(errno.ENOTDIR, path)
        self._clock += 1_000_000
        self._nodes[real] = File(data, self._clock)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        full = self._name(path)
        self._make_folder(posixpath.dirname(full))
        self._nodes[full] = Link(target)

    def remove(self, path: str) -> None:
        """Delete a file, a link or an empty folder."""
        full = self._name(path)
        node = self._nodes.get(full)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Folder) and self.list(full):
            raise os_error(errno.ENOTEMPTY, path)
        del self._nodes[full]

    def rename(self, source: str, target: str, parents: bool) -> None:
        """Give a file or a link another name."""
        old, new = self._name(source), self._name(target)
        node = self._nodes.get(old)
        if node is None:
            raise os_error(errno.ENOENT, source)
        for found, path in ((node, source), (self._nodes.get(new), target)):
            if isinstance(found, Folder):
                raise os_error(errno.EISDIR, path)
        folder = posixpath.dirname(new)
        if parents:
            self._make_folder(folder)
        elif folder not in self._nodes:
            raise os_error(errno.ENOENT, target)
        del self._nodes[old]
        self._nodes[new] = node

    def files(self) -> dict[str, bytes]:
        """All files, those of the project by their path in it."""
        prefix = self._cwd.rstrip("/") + "/"
        return {p.removeprefix(prefix): n.data for p, n in sorted(self._nodes.items()) if isinstance(n, File)}

    def list(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        real = self.resolve(path)
        if not isinstance(self._found(path), Folder):
            raise os_error(errno.ENOTDIR, path)
        prefix = real.rstrip("/") + "/"
        names = sorted(p[len(prefix) :] for p in self._nodes if p.startswith(prefix) and p != "/")
        return [DirEntry(name, self._kind(prefix + name)) for name in names if "/" not in name]

    def read(self, path: str) -> bytes | None:
        """A file's bytes; ``None`` if there is no such file."""
        node = self._nodes.get(path)
        return node.data if isinstance(node, File) else None

    def exists(self, path: str) -> bool:
        """Whether there is anything of that absolute name."""
        return path in self._nodes

    def _found(self, path: str) -> File | Folder:
        node = self._nodes.get(self.resolve(path))
        if node is None or isinstance(node, Link):
            raise os_error(errno.ENOENT, path)
        return node

    def _name(self, path: str) -> str:
        folder, name = posixpath.split(self.absolute(path).rstrip("/"))
        if name in ("", ".", ".."):
            raise os_error(errno.EINVAL, path)
        return posixpath.join(self.resolve(RealPath(folder) if isinstance(path, RealPath) else folder), name)

    def _kind(self, path: str) -> FileKind:
        node = self._nodes[path]
        return "symlink" if isinstance(node, Link) else "file" if isinstance(node, File) else "directory"

    def _make_folder(self, path: str) -> None:
        real = self.resolve(path)
        while real not in self._nodes:
            self._nodes[real] = Folder()
            real = posixpath.dirname(real)


def os_error(number: int, path: str) -> OSError:
    """The `OSError` subclass of that number."""
    return OSError(number, os.strerror(number), path)
