"""Where a path leads: as it is spelled, and for real.

What the wildcards of a shell word stand for right now.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.env import DirEntry
from mainspring.env.protocol import PathNaming
from mainspring.env.walk import compile_rules
from mainspring.lazy import lazy_re
from mainspring.permissions.command_patterns import fixed_part
from mainspring.permissions.path_patterns import PathPattern, is_absolute, matches, split_path
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

IGNORE_FILE_NAME = ".agentignore"
"""The file's name, in the project's folder or in any folder below or above it."""


MAX_BYTES = 1 << 20
"""A larger file is no list of names; then its whole folder is left alone."""


_CACHE_SECONDS = 1.0
"""How long a file that was read counts as unchanged, so that a search through many folders reads each file once."""


PARENT_CACHE_SECONDS = 30.0
"""The same for files above the project's folder, which hardly ever change."""


_MAX_CACHED = 20_000
_EVERYTHING = "*"


@runtime_checkable
class ReadsFiles(Protocol):
    """An environment that can read a file."""

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file."""
        ...


class IgnoreFiles:
    """The ignore files of one environment.

    Git's rules hold: a deeper file decides over one above it, later lines over earlier ones, and what lies in a folder that
    is left out stays left out. Upper and lower case are the same, since on some systems they name the same file.

    Args:
        env: Where the files are; one that cannot read has none.
        root: Components of the project's folder.
        clock: Seconds, for the age of what was read.
    """

    def __init__(self, env: object, root: PathParts = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._env = env if isinstance(env, ReadsFiles) else None
        self._root = root
        self._clock = clock
        self._kept: dict[PathParts, tuple[float, Any]] = {}

    async def ignored_by(self, *forms: PathParts) -> str:
        """The ignore file that leaves a path out; empty if none does.

        Args:
            forms: Components of the path from the root: its real one, and as it was spelled.
        """
        if self._env is not None:
            for parts in dict.fromkeys(forms):
                found = await self._file_for(parts)
                if found:
                    return found
        return ""

    async def _file_for(self, parts: PathParts) -> str:
        files: list[tuple[int, Any]] = []
        for depth in range(len(parts)):
            rules = await self._rules(parts[:depth])
            if rules is not None:
                files.append((depth, rules))
            for at, spec in reversed(files):
                said = match_rules(spec, parts[at : depth + 1], is_folder=depth + 1 < len(parts))
                if said:
                    return "/" + "/".join((*parts[:at], IGNORE_FILE_NAME))
                if said is not None:
                    break
        return ""

    async def _rules(self, folder: PathParts) -> Any:
        now = self._clock()
        kept = self._kept.get(folder)
        above = len(folder) < len(self._root) and self._root[: len(folder)] == folder
        if kept is not None and now - kept[0] < (PARENT_CACHE_SECONDS if above else _CACHE_SECONDS):
            return kept[1]
        if len(self._kept) >= _MAX_CACHED:
            self._kept.clear()
        rules = await self._read(folder)
        self._kept[folder] = (now, rules)
        return rules

    async def _read(self, folder: PathParts) -> Any:
        assert self._env is not None
        path = "/" + "/".join((*folder, IGNORE_FILE_NAME))
        try:
            data = await self._env.read_bytes(path, limit=MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):  # it is there, and what it says is not known
            return compile_rules([_EVERYTHING])
        return parse_rules(data)


def parse_rules(data: bytes) -> Any:
    """The rules of a file; ``None`` if there are none in it."""
    if len(data) > MAX_BYTES:
        return compile_rules([_EVERYTHING])
    lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    rules = [fold(line) for line in lines if line.strip() and not line.startswith("#")]
    return compile_rules(rules) if rules else None


def match_rules(spec: Any, below: Sequence[str], *, is_folder: bool) -> bool | None:
    """Whether the file's rules leave a path out, keep it, or say nothing; a name at the end may be that of a folder."""
    path = "/".join(fold(part) for part in below)
    if is_folder:
        return spec.check_file(path + "/").include
    return spec.check_file(path).include or spec.check_file(path + "/").include


MAX_BOUNDS = 200
"""How many words are compared with paths of patterns; with more, none is covered."""


PathParts = tuple[str, ...]


_PROC_LINKS = frozenset(("cwd", "root", "fd", "map_files"))


class ResolvesPaths(Protocol):
    """What is needed of an environment: where a path leads, links followed, also where nothing is there yet."""

    async def realpath(self, path: str) -> str:
        """The real, absolute path; a relative one is taken from the environment's folder."""
        ...


class ProjectPaths(Struct, frozen=True):
    """The project and the user's home folder.

    Attributes:
        root: Components of the project's real folder.
        roots: The same, and as it was spelled.
        cwd: The real folder in which tools work.
        home_spellings: Components of the home folder, real and as spelled.
        ignore_files: The ignore files, which say what no tool may touch.
    """

    root: PathParts
    roots: tuple[PathParts, ...]
    cwd: str
    home_spellings: tuple[PathParts, ...]
    ignore_files: IgnoreFiles

    @classmethod
    async def find(cls, env: ResolvesPaths, *, root: str | None, home: str | None) -> ProjectPaths:
        """Ask the environment.

        Args:
            env: Where tools work.
            root: The project's folder; the environment's own if it is not given.
            home: The user's home folder; the environment's own if it is not given.
        """
        cwd = await env.realpath(".")
        spelled = posixpath.normpath(posixpath.join(_slashes(cwd), _slashes(root or ".")))
        real = split_path(await env.realpath(spelled))
        home_real = await env.realpath(home or "~")
        homes = _distinct(split_path(home_real), split_path(_slashes(home or home_real)))
        return cls(real, _distinct(real, split_path(spelled)), cwd, homes, IgnoreFiles(env, real))


class ResolvedPath(Struct, frozen=True):
    """Where one spelling of a path leads.

    Attributes:
        spelled: As it was written.
        lexical: Components without following links.
        real: Components with links followed, by the names that rules know; unknown pieces stand as they are.
        path: The real path; empty if a piece of it is unknown.
        unknown: Whether it may lead anywhere.
        hidden: The ignore file that leaves it out; empty if none does.
    """

    spelled: str
    lexical: PathParts
    real: PathParts
    path: str
    unknown: bool = False
    hidden: str = ""

    def is_inside(self, place: ProjectPaths) -> bool:
        """Whether it leads into the project for certain."""
        return not self.unknown and self.real[: len(place.root)] == place.root

    def relative_parts(self, place: ProjectPaths) -> PathParts:
        """Components below the project's folder, or all of them outside it."""
        return self.real[len(place.root) :] if self.real[: len(place.root)] == place.root else self.real

    def matches_exactly(self, pattern: PathPattern, place: ProjectPaths) -> bool:
        """Whether a pattern is about it to the letter: its real path, case and all."""
        if self.unknown or pattern.problem:
            return False
        bases = {"project": place.root, "root": (), "home": place.home_spellings[0]}
        rest = _below(self.real, bases[pattern.anchor])
        if rest is None or not all(wildcards.is_literal(p) for p in rest):
            return False
        return matches(pattern.parts, rest)

    def matches_loosely(self, pattern: PathPattern, place: ProjectPaths, *, maybe: bool = False) -> bool:
        """Whether a pattern is about it or about a folder above it: in either form, whatever the case."""
        bases: tuple[PathParts, ...] = ((),)
        if pattern.anchor == "project":
            bases = place.roots
        elif pattern.anchor == "home":
            bases = place.home_spellings
        for parts in _distinct(self.real, self.lexical):
            folded = tuple(map(fold, parts))
            for base in bases:
                rest = _below(folded, tuple(map(fold, base)))
                if rest is not None and matches(pattern.loose, rest, include_descendants=True, allow_unknown=maybe):
                    return True
            if maybe and self.unknown and _matches_suffix(pattern, folded):
                return True
        return False

    def may_contain(self, pattern: PathPattern, place: ProjectPaths) -> bool:
        """Whether what the pattern is about may lie below this folder."""
        base: PathParts = {"project": place.root, "root": (), "home": place.home_spellings[0]}[pattern.anchor]
        requested = tuple(map(fold, base)) + pattern.loose
        here = tuple(map(fold, self.real))
        for mine, theirs in zip(here, requested, strict=False):
            if theirs == "**":
                return True
            if not wildcards.fullmatch(theirs, mine):
                return False
        return True


async def resolve_path(env: ResolvesPaths, spelled: str, place: ProjectPaths) -> ResolvedPath:
    """Where a path of a tool's argument leads; it is resolved as the tool itself would.

    Args:
        env: Where the tool will work.
        spelled: The path as the call spells it.
        place: The project and the home folder.

    Raises:
        OSError: If it cannot be resolved.
        ValueError: If it is no path.
    """
    path = await env.realpath(spelled)
    at_home = spelled == "~" or spelled.startswith("~/")
    lexical = _lexical("/".join(("", *place.home_spellings[-1], spelled[2:])) if at_home else spelled, place.cwd)
    real = split_path(_name(env, path))
    return ResolvedPath(spelled, lexical, real, path, hidden=await place.ignore_files.ignored_by(real, lexical))


async def resolve_word(env: ResolvesPaths, text: str, place: ProjectPaths, cwd: str | None) -> ResolvedPath:
    """Where a word of a command leads, as far as can be known.

    Args:
        env: Where the command will run.
        text: The word, unknown pieces marked.
        place: The project and the home folder.
        cwd: The folder the command runs in; ``None`` if that is not known.
    """
    spelled = text
    home = "/" + "/".join(place.home_spellings[0])
    text = text.replace(wildcards.HOME, home).replace(wildcards.CWD, cwd or wildcards.ANY_TEXT)
    if not is_absolute(text) and not text.startswith(wildcards.ANY_TEXT):
        text = f"{cwd or wildcards.ANY_TEXT}/{text}"
    parts = _mask_proc_links(split_path(_slashes(text)))
    known = next((i for i, p in enumerate(parts) if not wildcards.is_literal(p)), len(parts))
    unknown = any(wildcards.ANY_TEXT in p for p in parts) or ".." in parts[known:]
    base = "/" + "/".join(parts[:known])
    try:
        path = await env.realpath(base)
    except (OSError, ValueError):  # links in a circle
        return ResolvedPath(spelled, parts, parts, "", unknown=True)
    if known == len(parts):
        real, lexical = split_path(_name(env, path)), _lexical(base, "/")
        return ResolvedPath(spelled, lexical, real, path, hidden=await place.ignore_files.ignored_by(real, lexical))
    above, real = split_path(posixpath.normpath(base)), split_path(_name(env, path))
    hidden = await place.ignore_files.ignored_by(real, above)
    return ResolvedPath(spelled, above + parts[known:], real + parts[known:], "", unknown, hidden)


async def find_escapes(
    env: ResolvesPaths, place: ProjectPaths, bounds: Collection[tuple[str, str]], folders: Sequence[str | None]
) -> frozenset[tuple[str, str]]:
    """Of some paths of patterns, each with a word that it may cover: those of which the word leads elsewhere.

    A path of the project whose folder is a link that leads out of the project covers nothing.

    Args:
        env: Where the command will run.
        place: The project and the home folder; paths of patterns start in the folder where tools work.
        bounds: The paths and the words.
        folders: The folders in which the command may run; ``None`` for one that is not known.
    """
    if len(bounds) > MAX_BOUNDS:
        return frozenset(bounds)
    found: set[tuple[str, str]] = set()
    for token, text in bounds:
        fixed = fixed_part(posixpath.normpath(token))
        folder = fixed if fixed == posixpath.normpath(token) else fixed[: fixed.rfind("/") + 1]
        first = folder.partition("/")[0]
        if first and not text.startswith(first) and _NOT_A_NAME.search(first):
            found.add((token, text))
            continue
        for start in _starts(first):
            base = await resolve_word(env, folder[start:] or ".", place, place.cwd)
            leaves = base.lexical[: len(place.root)] == place.root and not base.is_inside(place)
            for each in folders:
                target = await resolve_word(env, text[start:] or ".", place, each)
                if leaves or not base.path or not target.path or target.real[: len(base.real)] != base.real:
                    found.add((token, text))
    return frozenset(found)


def _starts(first: str) -> Sequence[int]:
    """Where in a word a path may begin: in ``--file=src/x`` behind any character of the first component."""
    if not _NOT_A_NAME.search(first):
        return (0,)
    return range(len(first) + (first[-1] in "=:,@"))


_NOT_A_NAME = lazy_re(r"^-|[=:,@]")


def _name(env: ResolvesPaths, path: str) -> str:
    return env.display_name(path) if isinstance(env, PathNaming) else path


def _matches_suffix(pattern: PathPattern, parts: PathParts) -> bool:
    """Whether what is known behind an unknown piece is what a pattern names, wherever the piece leads."""
    unknown = [i for i, part in enumerate(parts) if wildcards.ANY_TEXT in part]
    tails = [parts[i + 1 :] for i in unknown]
    return any(
        tail and matches(("**", *pattern.loose), tail, include_descendants=True, allow_unknown=True) for tail in tails
    )


def _mask_proc_links(parts: PathParts) -> PathParts:
    """The same, with links that lead elsewhere for each program as a piece that is not known: ``/proc/self/cwd``."""
    if parts[:1] != ("proc",):
        return parts
    link = next((i for i, part in enumerate(parts[2:5], 2) if part in _PROC_LINKS), None)
    return parts if link is None else (wildcards.ANY_TEXT, *parts[link + 1 :])


def _lexical(path: str, cwd: str) -> PathParts:
    return split_path(posixpath.normpath(posixpath.join(_slashes(cwd), _slashes(path))))


def _slashes(path: str) -> str:
    return path.replace("\\", "/") if is_absolute(path) and not path.startswith("/") else path


def _below(parts: PathParts, base: PathParts) -> PathParts | None:
    return parts[len(base) :] if parts[: len(base)] == base else None


def _distinct(*forms: PathParts) -> tuple[PathParts, ...]:
    return tuple(dict.fromkeys(forms))


MAX_PATHS = 200
"""A word that stands for more is not expanded."""


@runtime_checkable
class ListsDirectories(Protocol):
    """An environment that can list a folder."""

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...


async def expand_wildcards(env: object, parts: Sequence[str]) -> list[str] | None:
    """The paths that exist for a word with wildcards.

    Args:
        env: Where the command will run.
        parts: Components from the root, wildcards as unknown pieces.

    Returns:
        Absolute paths; ``None`` if there are too many, or the environment cannot say.
    """
    if not isinstance(env, ListsDirectories):
        return None
    found = [""]
    for part in parts:
        if wildcards.is_literal(part):
            found = [f"{path}/{part}" for path in found]
            continue
        following: list[str] = []
        for path in found:
            following += [f"{path}/{name}" for name in await _names(env, path or "/", part)]
            if len(following) > MAX_PATHS:
                return None
        found = following
    return found


async def _names(env: ListsDirectories, folder: str, part: str) -> list[str]:
    try:
        entries = await env.list_dir(folder)
    except OSError:
        return []
    pattern = part.replace(wildcards.ANY_CHAR, wildcards.ANY_TEXT)
    hidden = part.startswith(".")
    return [e.name for e in entries if (hidden or not e.name.startswith(".")) and wildcards.fullmatch(pattern, e.name)]
