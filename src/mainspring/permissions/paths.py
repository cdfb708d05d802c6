"""Resolve paths, and expand the wildcards of shell words."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.env.walk import compile_rules
from mainspring.lazy import lazy_re
from mainspring.permissions.command_patterns import fixed_part
from mainspring.permissions.path_patterns import ANY_DEPTH, PathPattern, is_absolute, matches, split_path
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

IGNORE_FILE_NAME = ".agentignore"
"""Name of the ignore file, in the project's folder or in any folder below or above it."""


MAX_BYTES = 1 << 20
"""Maximum size of an ignore file in bytes; with a larger one its whole folder is ignored."""


_CACHE_SECONDS = 1.0
"""Seconds for which a cached file is used, so that a search through many folders reads each file once."""


PARENT_CACHE_SECONDS = 30.0
"""The same for files above the project's folder, which rarely change."""


_SHALLOW = 16
"""Levels of folders that are searched for ignore files without a check that they exist: most paths have fewer."""


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

    Git's rules apply: a deeper file overrides one above it, later lines override earlier ones, and the content of an ignored
    folder stays ignored. Case is ignored, since on some systems both spellings name the same file.

    Args:
        env: Environment with the files; without access to files it has no ignore files.
        root: Components of the project's folder.
        clock: Clock in seconds, for the age of cached files.
    """

    def __init__(self, env: object, root: PathParts = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._env = env if isinstance(env, ReadsFiles) else None
        self._root = root
        self._clock = clock
        self._cached_rules: dict[PathParts, tuple[float, Any]] = {}

    async def ignored_by(self, *forms: PathParts) -> str:
        """Return the ignore file that hides a path; empty if none does.

        Args:
            forms: Components of the path from the root: the resolved path, and the path as spelled.
        """
        if self._env is not None:
            for parts in dict.fromkeys(forms):
                found = await self._file_for(parts)
                if found:
                    return found
        return ""

    async def _file_for(self, parts: PathParts) -> str:
        files: list[tuple[int, Any]] = []
        is_missing = False
        for depth in range(len(parts)):
            is_missing = is_missing or depth > _SHALLOW and not await self._exists(parts[:depth])
            rules = None if is_missing else await self._rules(parts[:depth])
            if rules is not None:
                files.append((depth, rules))
            for at, spec in reversed(files):
                is_hidden = match_rules(spec, parts[at : depth + 1], is_folder=depth + 1 < len(parts))
                if is_hidden:
                    return "/" + "/".join((*parts[:at], IGNORE_FILE_NAME))
                if is_hidden is not None:
                    break
        return ""

    async def _exists(self, folder: PathParts) -> bool:
        """Return True if a folder may exist: one that does not contains no ignore file, and neither do the folders below it."""
        stat = getattr(self._env, "stat", None)
        try:
            return stat is None or bool(await stat("/" + "/".join(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError):
            return True

    async def _rules(self, folder: PathParts) -> Any:
        now = self._clock()
        cached = self._cached_rules.get(folder)
        above = len(folder) < len(self._root) and self._root[: len(folder)] == folder
        if cached is not None and now - cached[0] < (PARENT_CACHE_SECONDS if above else _CACHE_SECONDS):
            return cached[1]
        if len(self._cached_rules) >= _MAX_CACHED:
            self._cached_rules.clear()
        rules = await self._read(folder)
        self._cached_rules[folder] = (now, rules)
        return rules

    async def _read(self, folder: PathParts) -> Any:
        assert self._env is not None
        path = "/" + "/".join((*folder, IGNORE_FILE_NAME))
        try:
            data = await self._env.read_bytes(path, limit=MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):  # the file exists, but its content is unknown
            return compile_rules([_EVERYTHING])
        return parse_rules(data)


def parse_rules(data: bytes) -> Any:
    """Parse the rules of a file; None if it contains none."""
    if len(data) > MAX_BYTES:
        return compile_rules([_EVERYTHING])
    lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    rules = [fold(line) for line in lines if line.strip() and not line.startswith("#")]
    return compile_rules(rules) if rules else None


def match_rules(spec: Any, below: Sequence[str], *, is_folder: bool) -> bool | None:
    """Return whether the file's rules hide a path, include it, or do not mention it.

    The last name may be that of a folder.
    """
    path = "/".join(fold(part) for part in below)
    if is_folder:
        return spec.check_file(path + "/").include
    return spec.check_file(path).include or spec.check_file(path + "/").include


MAX_BOUNDS = 200
"""Maximum number of words that are compared with path patterns; with more, none is covered."""


PathParts = tuple[str, ...]


_MAX_LEVELS = 200
"""Maximum number of names in a path. Each folder is checked for links and ignore files, so the time is quadratic in it."""

_MAX_CHARS = 4096  # the limit of Linux


TOO_LONG = f"it has more than {_MAX_LEVELS} levels or {_MAX_CHARS} characters"


def is_too_long(path: str) -> bool:
    """Return True if a path has too many levels or characters to be checked."""
    return len(path) > _MAX_CHARS or path.count("/") > _MAX_LEVELS


_PROC_LINKS = frozenset(("cwd", "root", "fd", "map_files"))


class ResolvesPaths(Protocol):
    """An environment that resolves paths, links included, even if nothing exists there."""

    async def realpath(self, path: str) -> str:
        """Return the resolved, absolute path; a relative one starts at the environment's folder."""
        ...


class ProjectPaths(Struct, frozen=True):
    """The project and the user's home folder.

    Attributes:
        root: Components of the project's resolved folder.
        roots: The same, and the spelled form.
        cwd: The resolved folder in which tools work.
        home_spellings: Components of the home folder, resolved and as spelled.
        ignore_files: The ignore files, which hide paths from every tool.
    """

    root: PathParts
    roots: tuple[PathParts, ...]
    cwd: str
    home_spellings: tuple[PathParts, ...]
    ignore_files: IgnoreFiles

    @classmethod
    async def find(cls, env: ResolvesPaths, *, root: str | None, home: str | None) -> ProjectPaths:
        """Find the folders of an environment.

        Args:
            env: Environment in which tools work.
            root: The project's folder (default: the environment's own).
            home: The user's home folder (default: the environment's own).
        """
        cwd = await env.realpath(".")
        spelled = posixpath.normpath(posixpath.join(_slashes(cwd), _slashes(root or ".")))
        real = split_path(await env.realpath(spelled))
        home_real = await env.realpath(home or "~")
        homes = _distinct(split_path(home_real), split_path(_slashes(home or home_real)))
        return cls(real, _distinct(real, split_path(spelled)), cwd, homes, IgnoreFiles(env, real))


class ResolvedPath(Struct, frozen=True):
    """The target of one spelling of a path.

    Attributes:
        spelled: The path as written.
        lexical: Components without following links.
        real: Components with links followed, in the names that rules use; unknown pieces are unchanged.
        path: The resolved path; empty if a piece of it is unknown.
        unknown: Whether it may lead anywhere.
        hidden: The ignore file that hides it; empty if none does.
    """

    spelled: str
    lexical: PathParts
    real: PathParts
    path: str
    unknown: bool = False
    hidden: str = ""

    def is_inside(self, place: ProjectPaths) -> bool:
        """Return True if the path certainly leads into the project."""
        return not self.unknown and self.real[: len(place.root)] == place.root

    def relative_parts(self, place: ProjectPaths) -> PathParts:
        """Return the components below the project's folder, or all of them if the path is outside."""
        return self.real[len(place.root) :] if self.real[: len(place.root)] == place.root else self.real

    def matches_exactly(self, pattern: PathPattern, place: ProjectPaths) -> bool:
        """Return True if a pattern matches the resolved path literally, including case."""
        if self.unknown or pattern.problem:
            return False
        bases = {"project": place.root, "root": (), "home": place.home_spellings[0]}
        rest = _below(self.real, bases[pattern.anchor])
        if rest is None or not all(wildcards.is_literal(p) for p in rest):
            return False
        return matches(pattern.parts, rest)

    def matches_loosely(self, pattern: PathPattern, place: ProjectPaths, *, maybe: bool = False) -> bool:
        """Return True if a pattern matches the path in either form, or a folder above it, ignoring case."""
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

    def contains_matches(self, pattern: PathPattern, place: ProjectPaths) -> bool:
        """Return True if the part of a pattern before its first wildcard leads to or below the path, ignoring case."""
        bases = {"project": place.roots, "root": ((),), "home": place.home_spellings}[pattern.anchor]
        names = tuple(takewhile(wildcards.is_literal, takewhile(ANY_DEPTH.__ne__, pattern.loose)))
        ends = [(*map(fold, base), *names) for base in bases]
        forms = [tuple(map(fold, parts)) for parts in _distinct(self.real, self.lexical)]
        return any(end[: len(parts)] == parts for end in ends for parts in forms)


async def resolve_path(env: ResolvesPaths, spelled: str, place: ProjectPaths) -> ResolvedPath:
    """Resolve a path of a tool's argument, as the tool itself would.

    Args:
        env: Environment in which the tool will work.
        spelled: The path as spelled in the call.
        place: The project and the home folder.

    Raises:
        OSError: If it cannot be resolved.
        ValueError: If it is not a path.
    """
    if is_too_long(spelled):
        raise ValueError(TOO_LONG)
    path = await env.realpath(spelled)
    if is_too_long(path):
        raise ValueError(TOO_LONG)
    at_home = spelled == "~" or spelled.startswith("~/")
    lexical = lexical_parts("/".join(("", *place.home_spellings[-1], spelled[2:])) if at_home else spelled, place.cwd)
    real = split_path(_name(env, path))
    return ResolvedPath(spelled, lexical, real, path, hidden=await place.ignore_files.ignored_by(real, lexical))


async def resolve_word(env: ResolvesPaths, text: str, place: ProjectPaths, cwd: str | None) -> ResolvedPath:
    """Resolve a word of a command, if known.

    Args:
        env: Environment in which the command will run.
        text: The word, unknown pieces marked.
        place: The project and the home folder.
        cwd: The folder in which the command runs; ``None`` if unknown.
    """
    parts = word_parts(text, place, cwd)
    if parts is None:
        return _unknown_path(text)
    spelled = text
    known = next((i for i, p in enumerate(parts) if not wildcards.is_literal(p)), len(parts))
    unknown = any(wildcards.ANY_TEXT in p for p in parts) or ".." in parts[known:]
    base = "/" + "/".join(parts[:known])
    try:
        path = await env.realpath(base)
    except (OSError, ValueError):  # circular links
        return ResolvedPath(spelled, parts, parts, "", unknown=True)
    if known == len(parts):
        real, lexical = split_path(_name(env, path)), lexical_parts(base, "/")
        return ResolvedPath(spelled, lexical, real, path, hidden=await place.ignore_files.ignored_by(real, lexical))
    above, real = split_path(posixpath.normpath(base)), split_path(_name(env, path))
    hidden = await place.ignore_files.ignored_by(real, above)
    return ResolvedPath(spelled, above + parts[known:], real + parts[known:], "", unknown, hidden)


def spell_word(text: str, place: ProjectPaths, cwd: str | None) -> ResolvedPath:
    """Return the path of a word without access to files, as if it contained no link. See `resolve_word`."""
    parts = word_parts(text, place, cwd)
    if parts is None:
        return _unknown_path(text)
    parts = split_path(posixpath.normpath("/" + "/".join(parts)))
    return ResolvedPath(text, parts, parts, "/" + "/".join(parts))


def word_parts(text: str, place: ProjectPaths, cwd: str | None) -> PathParts | None:
    """Return the components of a word from the root; None if they are too many."""
    if is_too_long(text):
        return None
    home = "/" + "/".join(place.home_spellings[0])
    text = text.replace(wildcards.HOME, home).replace(wildcards.CWD, cwd or wildcards.ANY_TEXT)
    if not is_absolute(text) and not text.startswith(wildcards.ANY_TEXT):
        text = f"{cwd or wildcards.ANY_TEXT}/{text}"
    return None if is_too_long(text) else _mask_proc_links(split_path(_slashes(text)))


def _unknown_path(spelled: str) -> ResolvedPath:
    return ResolvedPath(spelled, (wildcards.ANY_TEXT,), (wildcards.ANY_TEXT,), "", unknown=True)


async def find_escapes(
    env: ResolvesPaths, place: ProjectPaths, bounds: Collection[tuple[str, str]], folders: Sequence[str | None]
) -> frozenset[tuple[str, str]]:
    """Return the path patterns that do not cover their word, because the word leads outside the path.

    A path of the project whose folder is a link that leads out of the project covers nothing.

    Args:
        env: Environment in which the command will run.
        place: The project and the home folder; paths of patterns start in the folder where tools work.
        bounds: Paths of patterns, each with a word that it may cover.
        folders: The folders in which the command may run; ``None`` for an unknown one.
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
    """Return the positions in a word at which a path may begin: in ``--file=src/x`` after any character of the first component."""
    if not _NOT_A_NAME.search(first):
        return (0,)
    return range(len(first) + (first[-1] in "=:,@"))


_NOT_A_NAME = lazy_re(r"^-|[=:,@]")


def _name(env: ResolvesPaths, path: str) -> str:
    # `isinstance` takes as long as all the rest.
    naming: Callable[[str], str] | None = getattr(env, "display_name", None)
    return path if naming is None else naming(path)


def _matches_suffix(pattern: PathPattern, parts: PathParts) -> bool:
    """Return True if the known end after an unknown piece matches a pattern, wherever the piece leads."""
    unknown = [i for i, part in enumerate(parts) if wildcards.ANY_TEXT in part]
    tails = [parts[i + 1 :] for i in unknown]
    return any(
        tail and matches(("**", *pattern.loose), tail, include_descendants=True, allow_unknown=True) for tail in tails
    )


def _mask_proc_links(parts: PathParts) -> PathParts:
    """Return the components with links that differ for each program, such as ``/proc/self/cwd``, as an unknown piece."""
    if parts[:1] != ("proc",):
        return parts
    link = next((i for i, part in enumerate(parts[2:5], 2) if part in _PROC_LINKS), None)
    return parts if link is None else (wildcards.ANY_TEXT, *parts[link + 1 :])


def lexical_parts(path: str, cwd: str) -> PathParts:
    """Return the components of a path from the root, without following links."""
    return split_path(posixpath.normpath(posixpath.join(_slashes(cwd), _slashes(path))))


def _slashes(path: str) -> str:
    return path.replace("\\", "/") if is_absolute(path) and not path.startswith("/") else path


def _below(parts: PathParts, base: PathParts) -> PathParts | None:
    return parts[len(base) :] if parts[: len(base)] == base else None


def _distinct(*forms: PathParts) -> tuple[PathParts, ...]:
    return tuple(dict.fromkeys(forms))
