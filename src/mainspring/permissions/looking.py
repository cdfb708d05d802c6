"""Whether a command that only reads would show what it should not: by what lies below its folders right now."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.permissions.pathjudge import PathJudge
from mainspring.permissions.pathpattern import components
from mainspring.permissions.paths import Resolver, Target, look_at_word
from mainspring.permissions.repository import Looks, Repository, repository, rules_from_above, tracked_files
from mainspring.shell_analysis.file_reads import Reading
from mainspring.text import visible

MOST_WALKED = 20_000
"""Names below a folder that are looked at; with more it is not known what lies there."""

_PLAIN_PATTERN = lazy_re(r"[\w.*?-]+")

Look = Callable[[str], Awaitable[list[Target]]]


class Looking:
    """Looks for one line; what it found out about a folder is kept for the rest of the line.

    Args:
        env: Where the command will run.
        paths: Decides about what is found.
        allowed: Whether a rule allows the command. Then what asks by itself does not matter any more, only what rules and ignore files
            say about reading; and what is not known only where there is such a rule.
    """

    def __init__(self, env: Resolver, paths: PathJudge, *, allowed: bool = False) -> None:
        self._env = env
        self._paths = paths
        self._allowed = allowed
        self._refuses = paths.barred if allowed else paths.seen
        self._below: dict[tuple[str, Reading], str] = {}
        self._repositories: dict[str, Repository] = {}

    async def problem(self, reading: Reading, folders: Sequence[str | None], look: Look, expanded: Look) -> str:
        """Why a command may do more than read in the project what everybody may see; empty if it does not.

        Args:
            reading: What it opens.
            folders: In which folders it may run.
            look: Finds where a word leads.
            expanded: Finds what the wildcards of a word stand for.
        """
        for word in reading.wild:
            if any(t.real and t.real[-1].startswith("-") for t in await expanded(word.text)):
                return "a file is named like an option"
        if reading.git:
            problem = await self._git(reading, folders)
            if problem:
                return problem
        return await self.shows(reading, folders, look, expanded)

    async def shows(self, reading: Reading, folders: Sequence[str | None], look: Look, expanded: Look) -> str:
        """What below its folders a command would show and should not; empty if nothing is known. See `problem`."""
        if not reading.deep:
            return ""
        places: list[str] = []
        if reading.git:
            tops = [(await self._repository(f)).top for f in folders if f is not None]
            places = [top for top in tops if top]
            for top in dict.fromkeys(places):
                problem = await self._holds(top)
                if problem:
                    return problem
        for word in reading.paths:
            places += [t.path for t in [*await look(word.text), *await expanded(word.text)] if t.path]
        for path in dict.fromkeys(places):
            problem = await self._shows(path, reading)
            if problem:
                return problem
        return ""

    async def _git(self, reading: Reading, folders: Sequence[str | None]) -> str:
        for folder in folders:
            if folder is None:
                return "it is not known in which folder it runs"
            found = await self._repository(folder)
            if found.problem:
                return found.problem
            if reading.deep and found.top:
                root = self._paths.place.root
                if components(found.top)[: len(root)] != root:
                    return f"the repository in {found.top} holds more than the project"
        return ""

    async def _repository(self, folder: str) -> Repository:
        if folder not in self._repositories:
            self._repositories[folder] = await repository(self._env, folder)
        return self._repositories[folder]

    async def _shows(self, path: str, reading: Reading) -> str:
        """What below a folder would be shown and should not."""
        key = (path, replace(reading, paths=(), wild=()))
        if key not in self._below:
            self._below[key] = await self._find(path, reading)
        return self._below[key]

    async def _holds(self, top: str) -> str:
        """What a repository would show of files that it holds in spite of an ignore file."""
        if not self._careful or not isinstance(self._env, Looks):
            return ""
        names = await tracked_files(self._env, top)
        if names is None:
            return f"it is not known which files the repository in {top} holds"
        return await self._refused(top, [(name, "file") for name in names], follows=False)

    @property
    def _careful(self) -> bool:
        """Whether anything at all may be wrong with showing a file."""
        return not self._allowed or self._paths.judge.bounds_reading()

    async def _find(self, path: str, reading: Reading) -> str:
        if not isinstance(self._env, Looks):
            return "it is not known what lies in the folder" if self._careful else ""
        spared = reading.tracked and await self._spares_ignored(path, reading)
        try:
            walk = await self._env.walk(path, include_ignored=not spared, limit=MOST_WALKED)
            if spared and not reading.git and any(_is_repository(left_out) for left_out in walk.ignored):
                walk = await self._env.walk(path, include_ignored=True, limit=MOST_WALKED)
        except OSError:
            return ""  # a file, which is judged by itself, or nothing
        if walk.truncated and self._careful:
            return (
                f"there are more than {MOST_WALKED} names below {path}; the tool grep leaves out what it may not show"
            )
        entries = [(entry.path, entry.kind) for entry in walk.entries if _wanted(entry.path, reading.only)]
        return await self._refused(path, entries, follows=reading.follows)

    async def _spares_ignored(self, path: str, reading: Reading) -> bool:
        """Whether what ignore files name is not shown: not so where a pattern of names asks for it, and not outside a repository."""
        if reading.only:
            return False
        top = (await self._repository(path)).top
        if reading.git:
            return bool(top)
        return bool(top) and not (isinstance(self._env, Looks) and await rules_from_above(self._env, top))

    async def _refused(self, path: str, entries: Iterable[tuple[str, str]], *, follows: bool) -> str:
        """The first of some names below a folder that may not be shown."""
        place = self._paths.place
        base = components(path)
        for name, kind in entries:
            parts = base + tuple(name.split("/"))
            full = posixpath.join(path, name)
            target = Target(full, parts, parts, full, hidden=await place.ignore.why(parts))
            linked = kind == "symlink" and follows
            if linked:
                target = await look_at_word(self._env, full, place, None)
            if self._refuses(target) is not None or (not self._allowed and linked and not target.inside(place)):
                shown = visible(name, limit=200)
                return f"it would show {shown}, which needs permission; the tool grep leaves that out"
        return ""


def _is_repository(left_out: str) -> bool:
    """Whether something that a walk left out makes a folder below it a repository of its own, for which other ignore files count."""
    return left_out.rstrip("/").endswith("/.git")


def _wanted(path: str, only: Sequence[str]) -> bool:
    """Whether a search for files by patterns of their names would take one; in doubt it would."""
    name = path.rpartition("/")[2].casefold()
    return not only or any(not _PLAIN_PATTERN.fullmatch(p) or fnmatchcase(name, p.casefold()) for p in only)
