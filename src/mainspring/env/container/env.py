"""`ContainerEnv`: the project in a container, with its own programs and its own system."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import secrets
import stat as modes
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from mainspring.env import local_files as disk
from mainspring.env.beneath import FolderCache
from mainspring.env.container.container import Container, find_engine, last_output_line
from mainspring.env.local import LocalEnv, ProcessSpec
from mainspring.env.local_files import LocalFiles
from mainspring.env.paths import is_inside
from mainspring.env.process_tree import RUN_ID_VARIABLE
from mainspring.env.sandbox.restore import RestoringGuard, with_note
from mainspring.env.types import (
    DirEntry,
    FileKind,
    FileStat,
    HttpResponse,
    ProcessResult,
    RunOptions,
)
from mainspring.env.walk import IGNORE_FILE_NAMES

_ERRORS = {
    40: errno.ENOENT,
    41: errno.EISDIR,
    42: errno.ENOTDIR,
    43: errno.EACCES,
    44: errno.EINVAL,
    45: errno.ENOTEMPTY,
}
"""Exit codes of the scripts."""


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
    """The files as programs in a container see them.

    Args:
        cwd: The project folder, which has the same path in the container.
        home: The value of ``~`` in the container.
        container: The container; it is started when a file outside the project is requested.
    """

    def __init__(self, cwd: str, home: str, container: Container) -> None:
        super().__init__(cwd, home)
        self._container = container

    def realpath(self, path: str) -> str:
        """See `ExecutionEnv.realpath`. A link that leads out of the project leads to a file of the container."""
        here = super().realpath(path)
        full = os.path.join(self.cwd, self.home + path[1:] if path == "~" or path.startswith("~/") else path)
        if is_inside(full, self.cwd) and self._is_mounted(here):
            return here
        return posixpath.normpath(self._run_text_script(_REALPATH_SCRIPT, full) or "/")

    def stat(self, path: str) -> FileStat:
        """See `ExecutionEnv.stat`."""
        if self._is_mounted(path):
            return super().stat(path)
        mode, size, mtime, links = self._run_text_script(_STAT, path).split()
        kind = disk.kind_from_mode(int(mode, 16))
        bits = modes.S_IMODE(int(mode, 16))
        return FileStat(path, kind, int(size), int(mtime) * 1_000_000_000, bits, int(links))

    def read(self, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None) -> bytes:
        """See `ExecutionEnv.read_bytes`."""
        if self._is_mounted(path):
            return super().read(path, offset, limit, folders)
        folder, name = posixpath.split(path)
        if name in IGNORE_FILE_NAMES and is_inside(
            self.cwd, folder
        ):  # Above the project only the folders that lead to it exist.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._run_script(_READ, path, str(offset + 1), "all" if limit is None else str(limit))

    def is_local(self, path: str) -> bool:
        """Return True if a file is one of this machine, mounted into the container."""
        return self._is_mounted(path)

    def write(self, path: str, data: bytes, parents: bool) -> None:
        """See `ExecutionEnv.write_bytes`. An existing file of the container is rewritten in place."""
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

    def _run_text_script(self, script: str, *arguments: str) -> str:
        return os.fsdecode(self._run_script(script, *arguments))

    def _run_script(self, script: str, *arguments: str, data: bytes | None = None) -> bytes:
        ended = self._container.script(script, *arguments, data=data)
        number = _ERRORS.get(ended.returncode)
        if number is not None:
            raise OSError(number, os.strerror(number), arguments[0])
        if ended.returncode:
            raise OSError(errno.EIO, f"the container failed: {last_output_line(ended.stderr)}", arguments[0])
        return ended.stdout


_KILL_SCRIPT = (
    'each() { for p in /proc/[0-9]*; do tr "\\0" "\\n" <"$p/environ" 2>/dev/null | grep -qx "$1" && '
    '{ [ -z "$2" ] && return 0; kill -s "$2" "${p#/proc/}" 2>/dev/null; }; done; [ -n "$2" ]; }; '
    'each "$1" TERM; i=0; while [ $i -lt 20 ] && each "$1" ""; do sleep 0.1; i=$((i+1)); done; each "$1" KILL'
)
"""Script that ends every process with a mark: SIGTERM first, SIGKILL after two seconds."""


_LOCATE = (
    'n=$1; f=$2; shift 2; i=0; for d do case $d in /*) p=$d/$n ;; "~/"*) p=$HOME/${d#??}/$n ;; *) p=$f/$d/$n ;; esac; '
    'if [ -f "$p" ] && [ -x "$p" ]; then echo $i; (CDPATH= cd -P -- "${p%/*}" && pwd -P); readlink -f -- "$p"; exit 0; fi; '
    "i=$((i+1)); done; exit 1"
)
"""Script that prints the number of the search path entry that contains a program, the resolved path of its folder, and that of the program."""


class ContainerEnv(LocalEnv):
    """Files and programs of a container, through the command line of docker or podman. An `ExecutionEnv`.

    The container is created when something first runs in it, and removed when the environment closes; it stops automatically when
    this process is killed. The project's folder is mounted under its own path, so that names are the same on both sides.
    Programs get none of this machine's variables.

    The project's files are shared with this machine, and with every other container or program that uses the folder: `lock`
    applies only to this environment, so two programs that write the same file at the same time overwrite each other. Use a separate
    folder for each of several agents that work at the same time, or one environment for all.

    Args:
        image: The image. It needs ``sh`` and the usual small programs, which nearly every image contains; busybox is enough.
        cwd: The project folder on this machine.
        engine: ``docker`` or ``podman``, or a program that accepts the same arguments (default: the first that works).
        network: Whether programs and `fetch` can use the network.
        home: The value of ``~`` in the container.
        arguments: More arguments of ``docker run``, for example, ``("--memory", "2g")``.
        **options: More options of `LocalEnv`. ``max_processes`` is a limit for the whole container.

    Raises:
        ConfigError: If neither docker nor podman works here.
    """

    def __init__(
        self,
        image: str,
        cwd: str | os.PathLike[str] = ".",
        *,
        engine: str | None = None,
        network: bool = False,
        home: str = "/root",
        arguments: Sequence[str] = (),
        **options: Any,
    ) -> None:
        program = find_engine(engine)
        limit = options.pop("max_processes", None)
        super().__init__(cwd, home=home, **options)
        self._network = network
        self.search_path = self.variables.get("PATH", "")  # the home folder of the image is unknown before it runs
        own = ["--mount", _mount(self._cwd), "-w", self._cwd, *_user(program)]
        own += [] if network else ["--network", "none"]
        own += [] if limit is None else ["--pids-limit", str(limit)]
        self._container = Container(program, image, (*own, *arguments), self._cwd)
        self._files = ContainerFiles(self._cwd, home, self._container)
        self._programs: dict[str, str | None] = {}
        self._guard = RestoringGuard((self._cwd,), (), restores=True, private=self._spools.folder)

    @property
    def container(self) -> str | None:
        """The container's name; ``None`` before it is created."""
        return self._container.name if self._container.running else None

    async def find_program(self, name: str) -> str | None:
        """Return the path of a program in the container, outside the project."""
        if name not in self._programs:
            found = await asyncio.to_thread(self._container.script, 'command -v "$1"', name)
            self._programs[name] = os.fsdecode(found.stdout).strip() or None if found.returncode == 0 else None
        return self._programs[name]

    async def find_search_path(self) -> str:
        """Return the search path that programs get. This starts the container.

        Raises:
            OSError: If the container cannot be started.
        """
        if "PATH" not in self.variables:
            await asyncio.to_thread(self._container.start)
            self.search_path = self._container.search_path
        return self.search_path

    async def locate_program(self, name: str, entries: Sequence[str], folder: str) -> tuple[str, str, str] | None:
        """Return the entry of a search path at which a shell in the container finds a program, and the resolved paths of folder and program.

        Args:
            name: The name of the program.
            entries: The entries of the search path.
            folder: The folder that relative entries start at.

        Raises:
            OSError: If the container cannot be started.
        """
        found = await asyncio.to_thread(self._container.script, _LOCATE, name, folder, *entries)
        number, _, paths = os.fsdecode(found.stdout).partition("\n")
        if found.returncode or not number.isdigit():
            return None
        place, _, program = paths.rstrip("\n").partition("\n")
        return entries[int(number)], place, program

    async def run(self, command: Sequence[str] | str, **options: Unpack[RunOptions]) -> ProcessResult:
        """Run a program or a script. See `ExecutionEnv.run`.

        Processes that survive it run until the environment closes; they are not reported as ``survivors``. When the command ends,
        changes of files that define which programs run later outside the container are undone, and the error output contains a note.
        """
        mark = secrets.token_hex(8)
        options["env"] = {**(options.get("env") or {}), RUN_ID_VARIABLE: mark}
        ended = False
        await asyncio.to_thread(self._guard.begin)
        try:
            result = await super().run(command, **options)
            ended = not (result.timed_out or result.cancelled or result.overflowed)
        finally:
            if not ended and self._container.running:
                await asyncio.shield(
                    asyncio.to_thread(self._container.script, _KILL_SCRIPT, f"{RUN_ID_VARIABLE}={mark}")
                )
            undone = await asyncio.shield(asyncio.to_thread(self._guard.end))
        return with_note(result, undone, self._cwd, self._guard.moved_to, options.get("on_output"))

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Send a request to a web server from this machine. See `ExecutionEnv.fetch`; rejected if the network is disabled."""
        if not self._network:
            raise PermissionError(errno.EPERM, "the container has no network", url)
        return await super().fetch(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    def kill_all(self) -> None:
        """Release the container; it stops automatically with everything in it."""
        super().kill_all()
        self._container.kill()

    async def aclose(self) -> None:
        """Remove the container and private files."""
        await super().aclose()
        await asyncio.to_thread(self._container.remove)

    async def _launch(self, command: Sequence[str], folder: str, given: Mapping[str, str]) -> ProcessSpec:
        await asyncio.to_thread(self._container.start)
        inside = {**given, **self.variables}
        arguments = self._container.command(command, folder, inside)
        return ProcessSpec(
            arguments, self._cwd, {**os.environ, **{k: v for k, v in inside.items() if k not in os.environ}}
        )

    def _script_file(self, code: bytes) -> str:
        path = f"/tmp/mainspring-script-{secrets.token_hex(4)}"
        self._files.write(path, code, True)
        return path


def _mount(folder: str) -> str:
    """Return the mount of a folder under its own path; its name may contain the separator of the parts."""
    quoted = folder.replace('"', '""')
    return f'type=bind,"source={quoted}","target={quoted}"'


def _user(program: str) -> tuple[str, ...]:
    """Return the owner of new files: the user of this machine."""
    if sys.platform != "linux" or os.getuid() == 0:
        return ()
    if "podman" in program:
        return ("--userns", "keep-id")
    return ("--user", f"{os.getuid()}:{os.getgid()}")
