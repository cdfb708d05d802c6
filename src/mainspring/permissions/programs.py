"""Find the file that the shell runs for a program's name, and whether it belongs to the project."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Protocol, TypeVar, runtime_checkable

from mainspring.env.protocol import check_in_thread
from mainspring.env.types import FileStat
from mainspring.lazy import lazy_re
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ProjectPaths, ResolvesPaths
from mainspring.programs import search_folders
from mainspring.shell_analysis.effects import BUILTINS
from mainspring.text import escape_invisible

_T = TypeVar("_T")

_ABSOLUTE = ("/", "~/")
"""The beginning of an entry of the search path that is the same folder everywhere."""

_STARTS: Mapping[str, tuple[str, ...]] = {
    "egrep": ("grep",), "fgrep": ("grep",), "git": ("git-lfs",), "npm": ("node",),
    "tar": ("gzip", "bzip2", "xz", "lzma", "zstd", "lzip", "lzop", "compress"),
}  # fmt: skip
"""Programs that start another program by its name."""

_PLAIN_SCRIPTS = frozenset(("which", "egrep", "fgrep"))
"""Scripts that start no other program than those of `_STARTS`."""

_SCRIPT = lazy_re(rb"#![ \t]*\S*/(?:env[ \t]+(?:-S[ \t]+)?([^\s/]+)|\w*sh\b)")
"""The first line of a script that a shell runs, or a program that is found on the search path."""


@runtime_checkable
class SearchesPrograms(Protocol):
    """An environment that knows the search path of its shell."""

    @property
    def search_path(self) -> str:
        """Return the search path that the programs of the environment get; empty if unknown."""
        ...

    async def stat(self, path: str) -> FileStat:
        """Facts about a file."""
        ...

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved."""
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file."""
        ...


@runtime_checkable
class LocatesPrograms(Protocol):
    """An environment with its own file system, where its shell searches for programs."""

    async def find_search_path(self) -> str:
        """Return the search path that the programs of the environment get.

        Raises:
            OSError: If the environment cannot be started.
        """
        ...

    async def locate_program(self, name: str, entries: Sequence[str], folder: str) -> tuple[str, str, str] | None:
        """Return the entry of a search path at which the shell finds a program, and the real paths of folder and program.

        Args:
            name: The name of the program.
            entries: The entries of the search path.
            folder: The folder that relative entries start at.
        """
        ...


async def find_project_program(
    env: ResolvesPaths, place: ProjectPaths, names: Sequence[str], folders: Sequence[str | None]
) -> str:
    """Return why a program that a command names may be a file of the project; empty if none is.

    Args:
        env: Environment in which the command will run.
        place: The project and the home folder.
        names: The spelled name of the command, then those of the commands that it runs.
        folders: The folders in which they may run; ``None`` for an unknown one.
    """
    if not isinstance(env, SearchesPrograms):
        return ""
    search = _ProgramSearch(env, place.root, await _find_search_path(env))
    if not search.entries:
        return ""
    # A wrapper such as xargs runs the program of that name.
    named = [n for i, n in enumerate(names) if "/" not in n and "=" not in n and (i or n not in BUILTINS)]
    started = list(dict.fromkeys(named))

    async def check() -> str:
        for name, folder in product(started, folders):
            found = await search.find_entry(name, folder)
            if found is not None:
                entry, program = found
                shown = escape_invisible(entry, limit=200)
                return f"the PATH entry {shown!r} is in the project, and its {program!r} would run"
        return ""

    return await _check_files(env, check) if started else ""


async def search_path_outside(env: object, root: tuple[str, ...]) -> dict[str, str]:
    """Return the search path of an environment without the folders of the project, as a variable.

    Empty if it contains none of them.

    Args:
        env: Environment in which a command will run.
        root: Components of the project's folder.
    """
    if not isinstance(env, SearchesPrograms):
        return {}
    search = _ProgramSearch(env, root, await _find_search_path(env))

    async def check() -> list[str]:
        return [entry for entry in search.entries if not await search.is_of_project(entry, None)]

    outside = await _check_files(env, check)
    return {} if len(outside) == len(search.entries) else {"PATH": os.pathsep.join(outside) or os.defpath}


async def find_named_program(
    env: object, root: tuple[str, ...], names: Iterable[str], folders: Sequence[str | None]
) -> str:
    """Return the name of the first program that a folder of the project on the search path contains; empty if none does.

    Args:
        env: Environment in which a command will run.
        root: Components of the project's folder.
        names: The names of the programs.
        folders: The folders in which the command may run; ``None`` for an unknown one.
    """
    if not isinstance(env, SearchesPrograms):
        return ""
    search = _ProgramSearch(env, root, await _find_search_path(env))

    async def check() -> str:
        pairs = [pair for pair in product(search.entries, folders) if await search.is_of_project(*pair)]
        places = {posixpath.join(folder or "/", entry) for entry, folder in pairs}
        for name, place in product(names, places):
            if await search.has_program(posixpath.join(place, name)):
                return name
        return ""

    return await _check_files(env, check)


async def _check_files(env: SearchesPrograms, check: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a check in one thread; a search in another file system does more than reading files."""
    return await (check() if isinstance(env, LocatesPrograms) else check_in_thread(env, check))


async def _find_search_path(env: SearchesPrograms) -> str:
    return await env.find_search_path() if isinstance(env, LocatesPrograms) else env.search_path


class _ProgramSearch:
    """Search for programs as a shell performs it."""

    def __init__(self, env: SearchesPrograms, root: tuple[str, ...], search_path: str) -> None:
        self.entries: Sequence[str] = search_folders(search_path) if search_path else ()
        self._env = env
        self._root = root

    async def is_of_project(self, entry: str, folder: str | None) -> bool:
        """Return True if an entry of the search path is a folder of the project, or may be one."""
        if not entry.startswith(_ABSOLUTE):
            return folder is None or await self._kind(posixpath.join(folder, entry)) == "directory"
        if not self._root:
            return False
        try:
            return self._is_below(await self._env.realpath(entry)) or self._is_below(entry)
        except (OSError, ValueError):
            return self._is_below(entry)

    async def has_program(self, path: str) -> bool:
        """Return True if a path is that of a program, or if that is unknown."""
        try:
            found = await self._env.stat(path)
        except (OSError, ValueError):
            return False
        return found.kind == "file" and found.mode & 0o111 != 0

    async def find_entry(self, name: str, folder: str | None) -> tuple[str, str] | None:
        """Return the entry of the project from which a command may run a program, and the name of the program.

        Args:
            name: The name of the command.
            folder: Folder in which it runs; ``None`` if unknown.
        """
        for each in (name, *_STARTS.get(name, ())):
            found = await self._find(each, folder)
            if found is None:
                continue
            entry, path, is_of_project = found
            if is_of_project:
                return entry, each
            if name in _PLAIN_SCRIPTS or not path:
                continue
            script = _SCRIPT.match(await self._start_of(path))
            if script is not None:
                interpreter = (script[1] or b"sh").decode("latin-1")
                entry = await self._entry_for_script(interpreter, folder)
                if entry is not None:
                    return entry, interpreter
        return None

    async def _entry_for_script(self, interpreter: str, folder: str | None) -> str | None:
        """Return the entry of the project from which a script may run a program: a shell script may run any."""
        if not interpreter.endswith("sh"):
            found = await self._find(interpreter, folder)
            return found[0] if found is not None and found[2] else None
        for entry in self.entries:
            if await self.is_of_project(entry, folder):
                return entry
        return None

    async def _find(self, name: str, folder: str | None) -> tuple[str, str, bool] | None:
        """Return the entry at which the shell finds a program, the program, and whether it belongs to the project.

        The program is empty if its content cannot be read from here.
        """
        if isinstance(self._env, LocatesPrograms):
            return await self._locate(self._env, name, folder)
        for entry in self.entries:
            if folder is None and not entry.startswith(_ABSOLUTE):
                return entry, "", True
            path = posixpath.join(folder or "/", entry, name)
            if entry.startswith("~/"):  # bash expands that to the home folder
                path = posixpath.join(entry, name)
            try:
                found = await self._env.stat(path)
            except (OSError, ValueError):
                continue
            if found.kind != "file" or not found.mode & 0o111:
                continue
            real = await self._env.realpath(posixpath.dirname(path))
            is_within = bool(self._root) and any(map(self._is_below, (real, found.path, path)))
            return entry, path, is_within or not entry.startswith(_ABSOLUTE)
        return None

    async def _locate(self, env: LocatesPrograms, name: str, folder: str | None) -> tuple[str, str, bool] | None:
        """Do the same as `_find`, for an environment with its own file system."""
        relative = [entry for entry in self.entries if folder is None and not entry.startswith(_ABSOLUTE)]
        known = self.entries[: self.entries.index(relative[0])] if relative else self.entries
        located = await env.locate_program(name, known, folder or "/")
        if located is None:
            return (relative[0], "", True) if relative else None
        entry, *real = located
        is_within = bool(self._root) and any(map(self._is_below, real))
        return entry, "", is_within or not entry.startswith(_ABSOLUTE)

    def _is_below(self, path: str) -> bool:
        return split_path(path)[: len(self._root)] == self._root

    async def _kind(self, path: str) -> str:
        try:
            return (await self._env.stat(path)).kind
        except (OSError, ValueError):
            return ""

    async def _start_of(self, path: str) -> bytes:
        try:
            return await self._env.read_bytes(path, limit=128)
        except (OSError, ValueError):
            return b""
