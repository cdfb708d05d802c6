"""Files of a container: those of the project on this machine, where they are mounted from, all others by scripts in it."""

from __future__ import annotations

import errno
import os
import posixpath
import stat as modes

from mainspring.env import local_files as disk
from mainspring.env.container.container import Container, last_output_line
from mainspring.env.ignore import IGNORE_FILE_NAMES
from mainspring.env.local_files import LocalFiles
from mainspring.env.paths import is_inside
from mainspring.env.types import DirEntry, FileKind, FileStat

_ERRORS = {
    40: errno.ENOENT,
    41: errno.EISDIR,
    42: errno.ENOTDIR,
    43: errno.EACCES,
    44: errno.EINVAL,
    45: errno.ENOTEMPTY,
}
"""What the scripts end with."""

_REALPATH_SCRIPT = (
    'p=$1; rest=; while :; do r=$(readlink -f "$p" 2>/dev/null) && [ -n "$r" ] && break; '
    'rest=/${p##*/}$rest; p=${p%/*}; [ -n "$p" ] || { r=; break; }; done; printf %s "$r$rest"'
)
_CHECK_EXISTS = '[ -e "$1" ] || exit 40; '
_STAT = _CHECK_EXISTS + 'stat -L -c "%f %s %Y %h" "$1"'
_READ = (
    _CHECK_EXISTS + '[ -d "$1" ] && exit 41; [ -f "$1" ] || exit 44; [ -r "$1" ] || exit 43; '
    'if [ "$3" = all ]; then tail -c "+$2" "$1"; else tail -c "+$2" "$1" | head -c "$3"; fi'
)
_WRITE = (
    'd=${1%/*}; d=${d:-/}; [ -d "$1" ] && exit 41; [ "$2" = parents ] && mkdir -p "$d"; [ -d "$d" ] || exit 40; '
    'if [ -e "$1" ]; then [ -f "$1" ] || exit 44; [ -w "$1" ] || exit 43; cat >"$1"; '
    'else [ -w "$d" ] || exit 43; cat >"$1.$$.tmp" && mv "$1.$$.tmp" "$1"; fi'
)
_LIST = (
    _CHECK_EXISTS + '[ -d "$1" ] || exit 42; cd "$1" || exit 43; for f in * .[!.]* ..?*; do '
    'if [ -L "$f" ]; then k=l; elif [ -d "$f" ]; then k=d; elif [ -f "$f" ]; then k=f; elif [ -p "$f" ]; then k=p; '
    'elif [ -S "$f" ]; then k=s; elif [ -e "$f" ]; then k=b; else continue; fi; printf "%s%s\\0" $k "$f"; done'
)
_REMOVE = (
    '[ -e "$1" ] || [ -L "$1" ] || exit 40; '
    'if [ -d "$1" ] && [ ! -L "$1" ]; then rmdir "$1" || exit 45; else rm "$1" || exit 43; fi'
)
_RENAME = (
    '[ -e "$1" ] || [ -L "$1" ] || exit 40; for p in "$1" "$2"; do [ -d "$p" ] && [ ! -L "$p" ] && exit 41; done; '
    'd=${2%/*}; d=${d:-/}; [ "$3" = parents ] && mkdir -p "$d"; [ -d "$d" ] || exit 40; mv -f "$1" "$2" || exit 43'
)
_KINDS: dict[str, FileKind] = {"l": "symlink", "d": "directory", "f": "file", "p": "fifo", "s": "socket", "b": "device"}


class ContainerFiles(LocalFiles):
    """The files that programs in a container see.

    Args:
        cwd: The project folder, which has the same path in the container.
        home: What ``~`` stands for, in the container.
        container: The container; it is started when a file outside of the project is asked for.
    """

    def __init__(self, cwd: str, home: str, container: Container) -> None:
        super().__init__(cwd, home)
        self._container = container

    def real(self, path: str) -> str:
        """See `ExecutionEnv.realpath`. A link that leads out of the project leads to a file of the container."""
        here = super().real(path)
        full = os.path.join(self.cwd, self.home + path[1:] if path == "~" or path.startswith("~/") else path)
        if is_inside(full, self.cwd) and self._is_mounted(here):
            return here
        return posixpath.normpath(self._text(_REALPATH_SCRIPT, full) or "/")

    def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        if self._is_mounted(path):
            return super().stat(path)
        mode, size, mtime, links = self._text(_STAT, path).split()
        kind = disk.kind_from_mode(int(mode, 16))
        bits = modes.S_IMODE(int(mode, 16))
        return FileStat(path, kind, int(size), int(mtime) * 1_000_000_000, bits, int(links))

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        if self._is_mounted(path):
            return super().read(path, offset, limit)
        folder, name = posixpath.split(path)
        if name in IGNORE_FILE_NAMES and is_inside(
            self.cwd, folder
        ):  # Above the project there are only folders on the way to it.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._run_script(_READ, path, str(offset + 1), "all" if limit is None else str(limit))

    def is_local(self, path: str) -> bool:
        """Returns True if a file is one of this machine, mounted into the container."""
        return self._is_mounted(path)

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """See `ExecutionEnv.write_bytes`. A file of the container that is there already is rewritten in place."""
        if self._is_mounted(path):
            super().write(path, data, parents)
        else:
            self._run_script(_WRITE, path, "parents" if parents else "", data=data)

    def list(self, path: str) -> list[DirEntry]:
        """See `ExecutionEnv.list_dir`."""
        if self._is_mounted(path):
            return super().list(path)
        found = os.fsdecode(self._run_script(_LIST, path)).split("\0")[:-1]
        return sorted((DirEntry(entry[1:], _KINDS[entry[0]]) for entry in found), key=lambda e: e.name)

    def remove(self, path: str) -> None:
        """See `ExecutionEnv.remove`."""
        if self._is_mounted(path):
            super().remove(path)
        else:
            self._run_script(_REMOVE, path)

    def rename(self, source: str, target: str, parents: bool) -> None:
        """See `ExecutionEnv.rename`."""
        if self._is_mounted(source) and self._is_mounted(target):
            super().rename(source, target, parents)
        else:
            self._run_script(_RENAME, source, target, "parents" if parents else "")

    def _is_mounted(self, path: str) -> bool:
        return is_inside(path, self.cwd)

    def _text(self, script: str, *arguments: str) -> str:
        return os.fsdecode(self._run_script(script, *arguments))

    def _run_script(self, script: str, *arguments: str, data: bytes | None = None) -> bytes:
        ended = self._container.script(script, *arguments, data=data)
        number = _ERRORS.get(ended.returncode)
        if number is not None:
            raise OSError(number, os.strerror(number), arguments[0])
        if ended.returncode:
            raise OSError(errno.EIO, f"the container refused: {last_output_line(ended.stderr)}", arguments[0])
        return ended.stdout
