"""Check whether a read-only command would show files that it must not show, from the current content of its folders."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import product

from msgspec.structs import replace

from mainspring.env.paths import is_inside
from mainspring.env.protocol import check_in_thread
from mainspring.env.walk import IGNORE_FILE_NAMES, compile_names, rule_lines
from mainspring.globs import matches_any
from mainspring.lazy import lazy_re
from mainspring.permissions.decisions import Verdict
from mainspring.permissions.git_history import UnknownFilesError, open_history
from mainspring.permissions.git_repository import (
    GitRepository,
    ReadsFolders,
    find_git_repository,
    get_variables,
    has_rules_above,
    read_tracked_files,
)
from mainspring.permissions.line_files import LineFiles, find_file_reads
from mainspring.permissions.path_checker import PathChecker
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import MAX_BYTES, ResolvedPath, ResolvesPaths, resolve_word
from mainspring.shell_analysis.file_reads import FileReads
from mainspring.shell_analysis.git_commands import GitCommand, path_in_revision
from mainspring.shell_analysis.links import copies_files, find_unpack_folders, uses_git
from mainspring.shell_analysis.syntax import AnalyzedCommand
from mainspring.text import escape_invisible

_MAX_HISTORIES = 10
"""Maximum number of different git commands of one line for which git lists the files: each starts up to three processes."""

_MAX_WALKED = 20_000
"""Maximum number of names below a folder that are checked; with more its content is unknown."""

_MAX_WALKED_OUTSIDE = 5_000
"""The same for a folder outside the project, which may be the whole disk."""

_PLAIN_PATTERN = lazy_re(r"[\w.*?-]+")

_PLAIN_PATH = lazy_re(r"(?!-)[A-Za-z0-9_./@%+=,:~#-]+")
"""Paths that xargs reads unchanged in every locale, and that no program parses as an option."""

_COMPARES_FILES = lazy_re(
    r"-[A-Za-z]*[pucmULWSGsBMC].*|--(?:patch|.*stat|summary|name-|raw|unified|word-diff|color-words|find-|pickaxe|follow|check|binary|text).*"
)

ResolveWord = Callable[[str], Awaitable[list[ResolvedPath]]]


class RecursiveReadChecker:
    """Checker for one line; it caches the results for a folder for the rest of the line.

    Args:
        env: Environment in which the command will run.
        paths: Checker of the found paths.
        allowed: Whether a rule allows the command. Then only rules and ignore files about reading matter, not the paths that ask by
            default; and unknown files matter only if such a rule exists.

    Attributes:
        fetches: Whether a git was found that fetches missing objects, unless its environment prevents it.
    """

    def __init__(self, env: ResolvesPaths, paths: PathChecker, *, allowed: bool = False) -> None:
        self._env = env
        self._paths = paths
        self._allowed = allowed
        self._refuses = paths.check_read_restrictions if allowed else paths.check_mention
        self.fetches = False
        self._below: dict[tuple[str, FileReads], str] = {}
        self._repositories: dict[str, GitRepository] = {}
        self._shown: dict[tuple[GitCommand, str], str | None] = {}

    async def check(
        self, reading: FileReads, folders: Sequence[str | None], resolve_word: ResolveWord, expanded: ResolveWord
    ) -> str:
        """Return why a command may do more than read visible files in the project; empty if it does not.

        Args:
            reading: The files that it opens.
            folders: The folders in which it may run.
            resolve_word: Function that resolves a word to a path.
            expanded: Function that returns the paths that the wildcards of a word match.
        """
        for word in reading.wild:
            if any(t.real and t.real[-1].startswith("-") for t in await expanded(word.text)):
                return "a file is named like an option"
        if reading.git:
            problem = await self._git(reading.git, folders)
            if problem:
                return problem
        return await self.check_shown_files(reading, folders, resolve_word, expanded)

    async def check_shown_files(
        self, reading: FileReads, folders: Sequence[str | None], resolve_word: ResolveWord, expanded: ResolveWord
    ) -> str:
        """Return the paths below its folders that a command would show but must not; empty if none are known. See `check`."""
        if not reading.deep:
            return ""
        places: list[str] = []
        if reading.git:
            tops, problem = await self._tops_without_git(reading.git, folders)
            if problem or tops is None:
                return problem
            places += tops
        for word in reading.paths:
            targets = [*await resolve_word(word.text), *await expanded(word.text)]
            places += [t.path for t in targets if t.path and (self._allowed or self._is_readable(t))]
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

    def _is_readable(self, target: ResolvedPath) -> bool:
        """Return True if a folder may be read without a question; the content of another does not change the decision."""
        return self._paths.check("fs-read", target).outcome == "allow"

    async def _tops_without_git(self, git: GitCommand, folders: Sequence[str | None]) -> tuple[list[str] | None, str]:
        """Return the repositories whose shown files git cannot list, and why it shows too much.

        None if git listed all files.
        """
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
                problem = await self._check_tracked_files(top)
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
        """Return why git would show a file that it must not show.

        Empty if it shows none, and None if git is not installed.
        """
        key = (git, folder)
        if key not in self._shown:
            if len(self._shown) >= _MAX_HISTORIES and self._must_check:
                return "it contains too many git commands to check"
            self._shown[key] = await self._find_shown(git, folder, top)
        return self._shown[key]

    async def _find_shown(self, git: GitCommand, folder: str, top: str) -> str | None:
        try:
            paths = [path for word in git.operands if (path := path_in_revision(word.text))]
            above = [posixpath.join(folder if path.startswith(".") else top, path) for path in paths]
            problem = await self._first_unreadable(
                top, [(posixpath.relpath(path, top), "file") for path in above], follows=False, is_history=True
            )
            history = await open_history(self._env, self._paths.place.root, folder, top)
            if problem:
                return problem
            if history is None:
                root = self._paths.place.root
                is_inside = self._allowed or split_path(top)[: len(root)] == root
                return None if is_inside else f"the repository in {top} contains more than the project"
            if (await self._repository(folder)).problem:
                return "it is not known which files git shows" if self._must_check else ""
            names = await history.files(git)
        except UnknownFilesError as error:
            return str(error) if self._must_check else ""
        return await self._first_unreadable(top, [(name, "file") for name in names], follows=False, is_history=True)

    async def _repository(self, folder: str) -> GitRepository:
        if folder not in self._repositories:
            env, root = self._env, self._paths.place.root
            self._repositories[folder] = await check_in_thread(env, lambda: find_git_repository(env, folder, root))
        return self._repositories[folder]

    async def _check_folder_cached(self, path: str, reading: FileReads) -> str:
        """Return the paths below a folder that would be shown but must not be."""
        key = (path, replace(reading, paths=(), wild=()))
        if key not in self._below:
            self._below[key] = await self._check_folder(path, reading)
        return self._below[key]

    async def _check_tracked_files(self, top: str) -> str:
        """Return the files of a repository that would be shown although an ignore file names them."""
        if not self._must_check or not isinstance(self._env, ReadsFolders):
            return ""
        names = await read_tracked_files(self._env, top)
        if names is None:
            return f"the files of the repository in {top} are unknown"
        return await self._first_unreadable(top, [(name, "file") for name in names], follows=False)

    @property
    def _must_check(self) -> bool:
        """Return True if showing a file may be restricted at all."""
        return not self._allowed or self._paths.judge.has_read_restrictions()

    async def _check_index(self, folder: str, reading: FileReads) -> str:
        """Check the files below a folder that the index of its repository names; links are followed."""
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
            return "git lists a file whose name xargs or a program may read as another name"
        if len(below) > _MAX_WALKED and self._must_check:
            return f"git lists more than {_MAX_WALKED} files"
        entries = [(name, "symlink") for name in below if _matches_name_filter(name, reading.only)]
        return await self._first_unreadable(folder, entries, follows=True)

    async def _check_folder(self, path: str, reading: FileReads) -> str:
        if not isinstance(self._env, ReadsFolders):
            return "the content of the folder is unknown" if self._must_check else ""
        root = self._paths.place.root
        limit = _MAX_WALKED if split_path(path)[: len(root)] == root else _MAX_WALKED_OUTSIDE
        spared = reading.tracked and await self._skips_ignored(path, reading)
        try:
            walk = await self._env.walk(path, include_ignored=not spared, limit=limit)
            if spared and not reading.git and any(_is_repository(left_out) for left_out in walk.ignored):
                walk = await self._env.walk(path, include_ignored=True, limit=limit)
        except OSError:
            return ""  # a file, which is checked separately, or a name that does not exist
        if walk.truncated and self._must_check:
            return f"{path} contains more than {limit} names; the tool grep omits files that it may not show"
        entries = [(entry.path, entry.kind) for entry in walk.entries if _matches_name_filter(entry.path, reading.only)]
        if reading.omitted:
            entries = [(name, kind) for name, kind in entries if not _is_omitted(name, kind, reading.omitted)]
        if reading.plain and not all(_PLAIN_PATH.fullmatch(name) for name, _ in entries):
            return "a file has a name that xargs reads as several; find -print0 and xargs -0 do not"
        problem = await self._first_unreadable(path, entries, follows=reading.follows)
        variables = get_variables(self._env) if problem and reading.skips_hidden else None
        if variables is not None and not variables.get("RIPGREP_CONFIG_PATH"):
            entries = await self._without_hidden(self._env, path, entries, walk.ignored)
            problem = await self._first_unreadable(path, entries, follows=reading.follows)
        return problem

    async def _without_hidden(
        self, env: ReadsFolders, path: str, entries: Sequence[tuple[str, str]], left_out: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Return the entries below a folder without those that are hidden and that no ignore file includes."""
        places = [path]
        while (parent := posixpath.dirname(places[-1])) != places[-1]:
            places.append(parent)
        files = [posixpath.join(place, name) for place in places for name in IGNORE_FILE_NAMES]
        files += [posixpath.join(path, name) for name, _ in entries if posixpath.basename(name) in IGNORE_FILE_NAMES]
        tops = [(await self._repository(path)).top or path]
        tops += [posixpath.join(path, posixpath.dirname(name.rstrip("/"))) for name in left_out if _is_repository(name)]
        files += [posixpath.join(top, ".git/info/exclude") for top in tops]

        async def read_rules() -> list[str]:
            return [line for file in dict.fromkeys(files) for line in await _read_including_rules(env, file)]

        is_included = compile_names(await check_in_thread(env, read_rules))
        hidden = [next((part for part in name.split("/") if part.startswith(".")), "") for name, _ in entries]
        return [entry for entry, part in zip(entries, hidden, strict=True) if not part or is_included(part)]

    async def _skips_ignored(self, path: str, reading: FileReads) -> bool:
        """Return True if the command skips ignored files: not if a name pattern includes them, and not outside a repository."""
        if reading.only:
            return False
        top = (await self._repository(path)).top
        if reading.git:
            return bool(top)
        return bool(top) and not (isinstance(self._env, ReadsFolders) and await has_rules_above(self._env, top))

    async def _first_unreadable(
        self, path: str, entries: Iterable[tuple[str, str]], *, follows: bool, is_history: bool = False
    ) -> str:
        """Return the first of some names below a folder that may not be shown.

        Those in a history may be outside the project.
        """
        place = self._paths.place
        base = split_path(path)
        for name, kind in entries:
            full = posixpath.join(path, name)
            parts = split_path(posixpath.normpath(full)) if is_history else base + tuple(name.split("/"))
            target = ResolvedPath(full, parts, parts, full, hidden=await place.ignore_files.ignored_by(parts))
            linked = kind == "symlink" and follows
            if linked:
                target = await resolve_word(self._env, full, place, None)
            is_strange = (linked or is_history) and not self._allowed and not target.is_inside(place)
            if self._refuses(target) is not None or is_strange:
                shown = escape_invisible(name, limit=200)
                return f"it would show {shown}, which needs permission; the tool grep omits it"
        return ""


async def find_refused_changes(
    files: LineFiles, env: ResolvesPaths, paths: PathChecker, command: AnalyzedCommand
) -> AsyncIterator[Verdict | None]:
    """Yield verdicts, or None, about files that a command copies, unpacks, or deletes together with a folder.

    Args:
        files: The files of the line.
        env: Environment in which the command will run.
        paths: Checker of the paths.
        command: The command.
    """
    for inner in command.walk():
        written, deleted = (
            [a.word.text for a in inner.file_accesses if a.scope == s] for s in ("fs-write", "fs-delete")
        )
        if copies_files(inner):
            sources = await _find_sources(files, inner)
            for folder in [target for text in written for target in await files.resolve(text)]:
                yield await _check_copies(env, paths, sources, folder)
        for folder in [target for text in deleted for target in await files.resolve(text)]:
            yield paths.check_below("fs-delete", folder)
        unpacked = [] if uses_git(inner) else find_unpack_folders(inner)
        if unpacked and find_file_reads(inner, frozenset()) is None:
            for folder in [target for text in unpacked for target in await files.resolve(text)]:
                yield paths.check_below("fs-write", folder)


async def _find_sources(files: LineFiles, command: AnalyzedCommand) -> list[ResolvedPath]:
    """Return the files and folders that a command copies or moves."""
    written = [access.word.text for access in command.file_accesses if access.scope == "fs-write"]
    texts = [access.word.text for access in command.file_accesses if access.word.text not in written]
    return [t for text in texts for t in [*await files.resolve(text), *await files.expand_wildcards(text)]]


async def _check_copies(
    env: ResolvesPaths, paths: PathChecker, sources: Sequence[ResolvedPath], folder: ResolvedPath
) -> Verdict | None:
    """Return the verdict on the first file that a copy of files and folders would write but must not write.

    Args:
        env: Environment in which the command will run.
        paths: Checker of the copied paths.
        sources: The files and folders.
        folder: The folder to which they are copied, or the new name of the only source.
    """
    kind = await _find_kind(env, folder.path)
    for source in sources:
        names = [""]
        if isinstance(env, ReadsFolders):
            with suppress(OSError):  # a file, or a name that does not exist
                walk = await env.walk(source.path, include_ignored=True, limit=_MAX_WALKED)
                if walk.truncated:
                    reason = f"{source.path} contains more than {_MAX_WALKED} names"
                    return Verdict("fs-write", folder.spelled, "ask", reason)
                names += [*(entry.path for entry in walk.entries), *walk.ignored]
        own = () if kind == "file" else (source.real[-1:], source.lexical[-1:])
        for name, start in product(names, dict.fromkeys(((), *own))):
            parts = (*folder.real, *start, *split_path(name))
            path = "/" + "/".join(parts)
            verdict = paths.check_copied(ResolvedPath(path, parts, parts, path)) if start or name else None
            if verdict is not None:
                is_certain = bool(kind) or not start
                return verdict if is_certain else replace(verdict, outcome="ask")
    return None


async def _find_kind(env: object, path: str) -> str:
    """Return the kind of a file; empty if it does not exist or is unknown."""
    stat = getattr(env, "stat", None)
    try:
        return "" if stat is None else (await stat(path)).kind
    except (OSError, ValueError):
        return ""


def _needs_history(git: GitCommand) -> bool:
    """Return True if a command reads the content of files from history, which a partial clone may lack."""
    if git.name in ("log", "diff-index", "diff-files"):
        return any(_COMPARES_FILES.fullmatch(option) for option, _ in git.options)
    if git.name in ("diff", "grep"):
        return bool(git.operands)
    return git.name in ("show", "diff-tree", "cat-file", "stash show", "blame", "annotate")


async def _read_including_rules(env: ReadsFolders, path: str) -> list[str]:
    """Return the rules of an ignore file that include files; all files if the rules are unknown."""
    try:
        return [rule for rule in rule_lines(await env.read_bytes(path, limit=MAX_BYTES)) if rule.startswith("!")]
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        return ["!*"]


def _is_omitted(path: str, kind: str, omitted: Sequence[str]) -> bool:
    """Return True if a search certainly omits a file or folder, or a folder above it, because of its name."""
    *folders, name = path.split("/") if kind != "directory" else [*path.split("/"), ""]
    plain = [pattern for pattern in omitted if _PLAIN_PATTERN.fullmatch(pattern.removesuffix("/"))]
    return matches_any(name, [p for p in plain if not p.endswith("/")]) or any(
        matches_any(folder, [p[:-1] for p in plain if p.endswith("/")]) for folder in folders
    )


def _is_repository(left_out: str) -> bool:
    """Return True if a name that a walk omitted makes a folder below it a separate repository, with its own ignore files."""
    return left_out.rstrip("/").endswith("/.git")


def _matches_name_filter(path: str, only: Sequence[str]) -> bool:
    """Return True if a search for files by name patterns would include a file, or may include it."""
    name = path.rpartition("/")[2].casefold()
    return not only or any(not _PLAIN_PATTERN.fullmatch(p) or matches_any(name, (p.casefold(),)) for p in only)
