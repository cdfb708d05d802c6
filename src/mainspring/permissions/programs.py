"""Which file the shell runs for the name of a program, and whether it belongs to the project."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from mainspring.env.protocol import FileStat
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ProjectPaths, ResolvesPaths
from mainspring.programs import search_folders
from mainspring.shell_analysis.commands import AnalyzedCommand
from mainspring.text import escape_invisible

BUILTINS = frozenset(
    "alias bg break cd command continue echo eval exec exit export false fg getopts hash jobs kill local printf pwd read readonly "
    "return set shift test times trap true type ulimit umask unset wait [ : .".split()
)
"""Names that every shell runs itself."""

_ABSOLUTE = ("/", "~/")
"""How an entry of the search path begins that means the same folder everywhere."""

_STARTS: Mapping[str, tuple[str, ...]] = {"egrep": ("grep",), "fgrep": ("grep",), "npm": ("node",)}
"""Programs that are scripts and start another program by its name."""


@runtime_checkable
class SearchesPrograms(Protocol):
    """An environment that knows where its shell looks for programs."""

    @property
    def search_path(self) -> str:
        """The search path that the programs of the environment get; empty if it is not known."""
        ...

    async def stat(self, path: str) -> FileStat:
        """Facts about a file."""
        ...

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved."""
        ...


@runtime_checkable
class LocatesPrograms(Protocol):
    """An environment with a file system of its own, where its shell looks for programs."""

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
    env: ResolvesPaths, place: ProjectPaths, units: Iterable[AnalyzedCommand], folders: Sequence[str | None]
) -> str:
    """Why a program that a command names may be a file of the project; empty if none is.

    Args:
        env: Where the command will run.
        place: The project and the home folder.
        units: The commands, those that they run among them.
        folders: The folders in which they may run; ``None`` for one that is not known.
    """
    if not isinstance(env, SearchesPrograms):
        return ""
    search_path = await env.find_search_path() if isinstance(env, LocatesPrograms) else env.search_path
    if not search_path:
        return ""
    entries = search_folders(search_path)
    names = [unit.words[0].text for unit in units if unit.words]
    for position, name in enumerate(names):
        is_builtin = name in BUILTINS and position == 0  # a wrapper such as xargs runs the program of that name
        if "/" in name or is_builtin or "=" in name:
            continue
        for each in (name, *_STARTS.get(name, ())):
            for folder in folders:
                entry = await _entry_of_project(env, place, each, entries, folder)
                if entry is not None:
                    shown = escape_invisible(entry, limit=200)
                    return f"the PATH entry {shown!r} lies in the project, and its {each!r} would run"
    return ""


async def _entry_of_project(
    env: SearchesPrograms, place: ProjectPaths, name: str, entries: Sequence[str], folder: str | None
) -> str | None:
    """The entry of the search path at which the shell finds a program, if the program belongs to the project."""
    if isinstance(env, LocatesPrograms):
        relative = [entry for entry in entries if folder is None and not entry.startswith(_ABSOLUTE)]
        known = entries[: entries.index(relative[0])] if relative else entries
        located = await env.locate_program(name, known, folder or "/")
        if located is None:
            return relative[0] if relative else None
        entry, *real = located
        return entry if not entry.startswith(_ABSOLUTE) or _is_in_project(place, real) else None
    for entry in entries:
        if folder is None and not entry.startswith(_ABSOLUTE):
            return entry
        path = posixpath.join(folder or "/", entry, name)
        if entry.startswith("~/"):  # bash reads that as the home folder
            path = posixpath.join(entry, name)
        try:
            found = await env.stat(path)
        except (OSError, ValueError):
            continue
        if found.kind != "file" or not found.mode & 0o111:
            continue
        real = await env.realpath(posixpath.dirname(path))
        within = _is_in_project(place, (real, found.path, path))
        return entry if not entry.startswith(_ABSOLUTE) or within else None
    return None


def _is_in_project(place: ProjectPaths, paths: Iterable[str]) -> bool:
    return bool(place.root) and any(split_path(path)[: len(place.root)] == place.root for path in paths)
