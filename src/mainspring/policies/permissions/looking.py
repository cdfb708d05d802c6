"""Whether a command that only reads would show what it should not: by what lies below its folders right now."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Sequence

from mainspring.policies.permissions.pathjudge import PathJudge
from mainspring.policies.permissions.pathpattern import components
from mainspring.policies.permissions.paths import Resolver, Target, look_at_word
from mainspring.policies.permissions.readonly import Reading
from mainspring.policies.permissions.repository import Looks, Repository, repository
from mainspring.policies.permissions.text import visible

MOST_WALKED = 20_000
"""Names below a folder that are looked at; with more it is not known what lies there."""

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
        self._below: dict[tuple[str, bool, bool], str] = {}
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
        if reading.git or (reading.deep and reading.tracked):
            problem = await self._git(reading, folders)
            if problem:
                return problem
        return await self.shows(reading, folders, look, expanded)

    async def shows(self, reading: Reading, folders: Sequence[str | None], look: Look, expanded: Look) -> str:
        """What below its folders a command would show and should not; empty if nothing is known. See `problem`."""
        if not reading.deep:
            return ""
        within = [await self._repository(f) for f in folders if f is not None] if reading.git or reading.tracked else []
        places = [found.top for found in within if reading.git and found.top]
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
            if reading.git and found.problem:
                return found.problem
            if reading.git and reading.deep and found.top:
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
        tracked = reading.tracked and any(r.top for r in self._repositories.values())
        key = (path, tracked, reading.follows)
        if key not in self._below:
            self._below[key] = await self._find(path, tracked, reading.follows)
        return self._below[key]

    async def _find(self, path: str, tracked: bool, follows: bool) -> str:
        careful = not self._allowed or self._paths.judge.bounds_reading()
        if not isinstance(self._env, Looks):
            return "it is not known what lies in the folder" if careful else ""
        try:
            walk = await self._env.walk(path, include_ignored=not tracked, limit=MOST_WALKED)
        except OSError:
            return ""  # a file, which is judged by itself, or nothing
        if walk.truncated and careful:
            return (
                f"there are more than {MOST_WALKED} names below {path}; the tool grep leaves out what it may not show"
            )
        place = self._paths.place
        base = components(path)
        for entry in walk.entries:
            parts = base + tuple(entry.path.split("/"))
            full = posixpath.join(path, entry.path)
            target = Target(full, parts, parts, full, hidden=await place.ignore.why(parts))
            if entry.kind == "symlink" and follows:
                target = await look_at_word(self._env, full, place, None)
            if self._refuses(target) is not None or (
                not self._allowed and entry.kind == "symlink" and follows and not target.inside(place)
            ):
                shown = visible(entry.path, limit=200)
                return f"it would show {shown}, which needs permission; the tool grep leaves that out"
        return ""
