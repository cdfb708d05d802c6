"""Whether a command that only reads would show what it should not: by what lies below its folders right now."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from mainspring.env.paths import is_inside
from mainspring.lazy import lazy_re
from mainspring.permissions.git_history import UnknownFilesError, history_of, path_in_revision
from mainspring.permissions.git_repository import (
    GitRepository,
    ReadsFolders,
    find_repository,
    has_rules_above,
    read_tracked_files,
)
from mainspring.permissions.path_checker import PathChecker
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ResolvedPath, ResolvesPaths, resolve_word
from mainspring.shell_analysis.file_reads import FileReads
from mainspring.shell_analysis.git_commands import GitCommand
from mainspring.text import escape_invisible

MAX_WALKED = 20_000
"""Names below a folder that are looked at; with more it is not known what lies there."""

_PLAIN_PATTERN = lazy_re(r"[\w.*?-]+")

_PLAIN_PATH = lazy_re(r"(?!-)[A-Za-z0-9_./@%+=,:~#-]+")
"""Paths that xargs reads as one in every locale, and no program as an option."""

_COMPARES_FILES = lazy_re(
    r"-[A-Za-z]*[pucmULWSGsBMC].*|--(?:patch|.*stat|summary|name-|raw|unified|word-diff|color-words|find-|pickaxe|follow|check|binary|text).*"
)

ResolveWord = Callable[[str], Awaitable[list[ResolvedPath]]]


class RecursiveReadChecker:
    """Looks for one line; what it found out about a folder is kept for the rest of the line.

    Args:
        env: Where the command will run.
        paths: Decides about what is found.
        allowed: Whether a rule allows the command. Then what asks by itself does not matter any more, only what rules and ignore files
            say about reading; and what is not known only where there is such a rule.

    Attributes:
        fetches: Whether git was found that fetches missing objects, unless its environment prevents it.
    """

    def __init__(self, env: ResolvesPaths, paths: PathChecker, *, allowed: bool = False) -> None:
        self._env = env
        self._paths = paths
        self._allowed = allowed
        self._refuses = paths.check_read_restrictions if allowed else paths.seen
        self.fetches = False
        self._below: dict[tuple[str, FileReads], str] = {}
        self._repositories: dict[str, GitRepository] = {}

    async def problem(
        self, reading: FileReads, folders: Sequence[str | None], look: ResolveWord, expanded: ResolveWord
    ) -> str:
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
            problem = await self._git(reading.git, folders)
            if problem:
                return problem
        return await self.shows(reading, folders, look, expanded)

    async def shows(
        self, reading: FileReads, folders: Sequence[str | None], look: ResolveWord, expanded: ResolveWord
    ) -> str:
        """What below its folders a command would show and should not; empty if nothing is known. See `problem`."""
        if not reading.deep:
            return ""
        places: list[str] = []
        if reading.git:
            tops, problem = await self._tops_without_git(reading.git, folders)
            if problem or tops is None:
                return problem
            places += tops
        for word in reading.paths:
            places += [t.path for t in [*await look(word.text), *await expanded(word.text)] if t.path]
        for path in dict.fromkeys(places):
            if reading.is_index:
                problem = await self._check_index(path, reading)
                if problem:
                    return problem
                continue
            problem = await self._check_folder_cached(path, reading)
            if problem:
                return problem
        return ""

    async def _tops_without_git(self, git: GitCommand, folders: Sequence[str | None]) -> tuple[list[str] | None, str]:
        """The repositories of which git cannot say what it shows, ``None`` if it said all; and why it shows too much."""
        tops: list[str] = []
        is_known = False
        for folder in folders:
            if folder is None:
                return tops, "it is not known in which folder it runs" if self._must_check else ""
            top = (await self._repository(folder)).top
            if not top:
                continue
            problem = await self._shown_by_git(git, folder, top)
            is_known = is_known or problem is not None
            if problem is None:
                tops.append(top)
                problem = await self._holds(top)
            if problem:
                return tops, problem
        return (None if is_known and not tops else tops), ""

    async def _git(self, git: GitCommand, folders: Sequence[str | None]) -> str:
        for folder in folders:
            if folder is None:
                return "it is not known in which folder it runs"
            found = await self._repository(folder)
            if found.problem:
                return found.problem
            if found.fetches:
                self.fetches = True
                if _needs_history(git):
                    return "git may fetch missing parts of the history"
        return ""

    async def _shown_by_git(self, git: GitCommand, folder: str, top: str) -> str | None:
        """Why git would show a file that it should not; empty if it shows none, and ``None`` if there is no git to ask."""
        try:
            paths = [path for word in git.operands if (path := path_in_revision(word.text))]
            above = [posixpath.join(folder if path.startswith(".") else top, path) for path in paths]
            problem = await self._refused(
                top, [(posixpath.relpath(path, top), "file") for path in above], follows=False, is_history=True
            )
            history = await history_of(self._env, self._paths.place.root, folder, top)
            if problem:
                return problem
            if history is None:
                root = self._paths.place.root
                is_inside = self._allowed or split_path(top)[: len(root)] == root
                return None if is_inside else f"the repository in {top} holds more than the project"
            if (await self._repository(folder)).problem:
                return "it is not known which files git shows" if self._must_check else ""
            names = await history.files(git)
        except UnknownFilesError as error:
            return str(error) if self._must_check else ""
        return await self._refused(top, [(name, "file") for name in names], follows=False, is_history=True)

    async def _repository(self, folder: str) -> GitRepository:
        if folder not in self._repositories:
            self._repositories[folder] = await find_repository(self._env, folder, self._paths.place.root)
        return self._repositories[folder]

    async def _check_folder_cached(self, path: str, reading: FileReads) -> str:
        """What below a folder would be shown and should not."""
        key = (path, replace(reading, paths=(), wild=()))
        if key not in self._below:
            self._below[key] = await self._find(path, reading)
        return self._below[key]

    async def _holds(self, top: str) -> str:
        """What a repository would show of files that it holds in spite of an ignore file."""
        if not self._must_check or not isinstance(self._env, ReadsFolders):
            return ""
        names = await read_tracked_files(self._env, top)
        if names is None:
            return f"it is not known which files the repository in {top} holds"
        return await self._refused(top, [(name, "file") for name in names], follows=False)

    @property
    def _must_check(self) -> bool:
        """Whether anything at all may be wrong with showing a file."""
        return not self._allowed or self._paths.judge.has_read_restrictions()

    async def _check_index(self, folder: str, reading: FileReads) -> str:
        """What would be shown of the files below a folder that the index of its repository names; a link is followed."""
        if not isinstance(self._env, ReadsFolders):
            return "it is not known which files git lists" if self._must_check else ""
        folder = await self._env.realpath(folder)
        top = (await self._repository(folder)).top
        names = await read_tracked_files(self._env, top) if top else ()
        if names is None:
            return "it is not known which files git lists" if self._must_check else ""
        below = [
            posixpath.relpath(path, folder) for name in names if is_inside(path := posixpath.join(top, name), folder)
        ]
        if not all(map(_PLAIN_PATH.fullmatch, names)) or any(n[0] == "/" or ".." in n.split("/") for n in names):
            return "git lists a file with a name that xargs or a program may take for another one"
        if len(below) > MAX_WALKED and self._must_check:
            return f"git lists more than {MAX_WALKED} files"
        entries = [(name, "symlink") for name in below if _matches_name_filter(name, reading.only)]
        return await self._refused(folder, entries, follows=True)

    async def _find(self, path: str, reading: FileReads) -> str:
        if not isinstance(self._env, ReadsFolders):
            return "it is not known what lies in the folder" if self._must_check else ""
        spared = reading.tracked and await self._skips_ignored(path, reading)
        try:
            walk = await self._env.walk(path, include_ignored=not spared, limit=MAX_WALKED)
            if spared and not reading.git and any(_is_repository(left_out) for left_out in walk.ignored):
                walk = await self._env.walk(path, include_ignored=True, limit=MAX_WALKED)
        except OSError:
            return ""  # a file, which is judged by itself, or nothing
        if walk.truncated and self._must_check:
            return f"there are more than {MAX_WALKED} names below {path}; the tool grep leaves out what it may not show"
        entries = [(entry.path, entry.kind) for entry in walk.entries if _matches_name_filter(entry.path, reading.only)]
        if reading.plain and not all(_PLAIN_PATH.fullmatch(name) for name, _ in entries):
            return "a file has a name that xargs reads as several; find -print0 and xargs -0 do not"
        return await self._refused(path, entries, follows=reading.follows)

    async def _skips_ignored(self, path: str, reading: FileReads) -> bool:
        """Whether what ignore files name is not shown: not so where a pattern of names asks for it, and not outside a repository."""
        if reading.only:
            return False
        top = (await self._repository(path)).top
        if reading.git:
            return bool(top)
        return bool(top) and not (isinstance(self._env, ReadsFolders) and await has_rules_above(self._env, top))

    async def _refused(
        self, path: str, entries: Iterable[tuple[str, str]], *, follows: bool, is_history: bool = False
    ) -> str:
        """The first of some names below a folder that may not be shown; those in a history may lie outside the project."""
        place = self._paths.place
        base = split_path(path)
        for name, kind in entries:
            full = posixpath.join(path, name)
            parts = split_path(posixpath.normpath(full)) if is_history else base + tuple(name.split("/"))
            target = ResolvedPath(full, parts, parts, full, hidden=await place.ignore.why(parts))
            linked = kind == "symlink" and follows
            if linked:
                target = await resolve_word(self._env, full, place, None)
            is_strange = (linked or is_history) and not self._allowed and not target.inside(place)
            if self._refuses(target) is not None or is_strange:
                shown = escape_invisible(name, limit=200)
                return f"it would show {shown}, which needs permission; the tool grep leaves that out"
        return ""


def _needs_history(git: GitCommand) -> bool:
    """Returns True if a command reads the content of files from history, which a partial clone may not have."""
    if git.name in ("log", "diff-index", "diff-files"):
        return any(_COMPARES_FILES.fullmatch(option) for option, _ in git.options)
    if git.name in ("diff", "grep"):
        return bool(git.operands)
    return git.name in ("show", "diff-tree", "cat-file", "stash show", "blame", "annotate")


def _is_repository(left_out: str) -> bool:
    """Whether something that a walk left out makes a folder below it a repository of its own, for which other ignore files count."""
    return left_out.rstrip("/").endswith("/.git")


def _matches_name_filter(path: str, only: Sequence[str]) -> bool:
    """Whether a search for files by patterns of their names would take one; in doubt it would."""
    name = path.rpartition("/")[2].casefold()
    return not only or any(not _PLAIN_PATTERN.fullmatch(p) or fnmatchcase(name, p.casefold()) for p in only)
