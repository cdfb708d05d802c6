"""Whether git, run in a folder, would run what the repository itself says: its settings can name programs."""

from __future__ import annotations

import posixpath
from typing import Protocol, runtime_checkable

from mainspring.env import DirEntry, Walk
from mainspring.lazy import lazy_re

MAX_BYTES = 1 << 18
MAX_INDEX = 1 << 26
MOST_REPOSITORIES = 40
MOST_WALKED = 50_000
"""Names below a repository that are looked at, for repositories inside it; with more it is not known."""

_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of another repository, as it stands in an index."""

_KEYS = lazy_re(
    r"""(?x)
    core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|quotepath
        |abbrev|compression|preloadindex|untrackedcache|longpaths|protecthfs|protectntfs|checkstat|trustctime|commentchar|whitespace)
    | (?:color|advice|init|user|pull|push|fetch|rebase|branch|column|status|help|grep|feature|index|gc|pack|maintenance|author|committer
        |rerere|tag|versionsort|blame|apply|format|commitgraph|i18n|safe)\.(?:[a-z0-9-]+|.*\.[a-z0-9-]+)
    | branch\..*
    | diff\.(?:renames|algorithm|noprefix|mnemonicprefix|colormoved|context|submodule|wserrorhighlight|renamelimit|indentheuristic)
    | merge\.(?:conflictstyle|ff|log|renames|renamelimit|stat)
    | log\.(?:date|decorate|follow|abbrevcommit|mailmap|excludedecoration)
    | commit\.(?:gpgsign|verbose|cleanup|status)
    | remote\..*\.(?:url|fetch|push|pushurl|tagopt|prune|mirror|promisor|partialclonefilter|skipfetchall|gh-resolved)
    | remote\.pushdefault
    | submodule\.(?:active|recurse|fetchjobs) | submodule\..*\.(?:url|active|branch|path|ignore)
    | extensions\.(?:objectformat|partialclone|worktreeconfig|refstorage|noop) | lfs\.repositoryformatversion | lfs\..*\.access
    | gui\..* | github\..* | gitflow\..*"""
)
"""The settings that run nothing; every other one makes it unknown."""
_HOOKS = ("post-index-change",)
"""Hooks that reading commands run: ``git status`` writes down what it found."""
_HEADER = lazy_re(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:\\.|[^"\\])*)")?\s*\]')
_ENTRY = lazy_re(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=.*)?")


@runtime_checkable
class Looks(Protocol):
    """An environment that can be looked at."""

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file."""
        ...

    async def walk(self, path: str, *, include_ignored: bool = False, limit: int = 200_000) -> Walk:
        """Everything below a folder."""
        ...


class Repository:
    """What git finds from a folder.

    Attributes:
        top: Its folder; empty if there is none.
        problem: Why it is not known that git runs nothing of its own; empty if it is known.
    """

    __slots__ = ("problem", "top")

    def __init__(self, top: str = "", problem: str = "") -> None:
        self.top = top
        self.problem = problem


async def repository(env: object, folder: str) -> Repository:
    """Look for the repository that git would use in a folder.

    Args:
        env: Where the command will run.
        folder: A real path.
    """
    if not isinstance(env, Looks):
        return Repository(problem="the repository's settings cannot be looked at")
    place = folder
    while True:
        kinds = await _names(env, place)
        if ".git" in kinds:
            return Repository(place, await _problem(env, place))
        if "HEAD" in kinds and "objects" in kinds:
            return Repository(place, f"{place} looks like the inside of a repository")
        if place == (place := posixpath.dirname(place)):
            return Repository()


async def _names(env: Looks, folder: str) -> dict[str, str]:
    try:
        return {entry.name: entry.kind for entry in await env.list_dir(folder)}
    except OSError:
        return {}


async def _problem(env: Looks, top: str) -> str:
    """What is wrong with a repository and those inside it, into which git goes."""
    own = posixpath.join(top, ".git")
    if not await _holds_others(env, own):
        return await _folder_problem(env, own)
    try:
        walk = await env.walk(top, include_ignored=True, limit=MOST_WALKED)
    except OSError:
        return f"{top} cannot be looked through"
    inside = [
        posixpath.join(top, path.rstrip("/")) for path in walk.ignored if posixpath.basename(path.rstrip("/")) == ".git"
    ]
    if walk.truncated or len(inside) > MOST_REPOSITORIES:
        return f"{top} is too large to look for settings of git that run something"
    for place in inside:
        problem = await _folder_problem(env, place)
        if problem:
            return problem
    return ""


async def _holds_others(env: Looks, place: str) -> bool:
    """Whether other repositories may be part of this one, by what its index says of the kinds of its files."""
    for folder in await _folders(env, place):
        if any(name.startswith("sharedindex.") for name in await _names(env, folder)):
            return True
        try:
            index = await env.read_bytes(posixpath.join(folder, "index"), limit=MAX_INDEX + 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True
        if len(index) > MAX_INDEX or _GITLINK in index:
            return True
    return False


async def tracked_files(env: Looks, top: str) -> tuple[str, ...] | None:
    """The files that a repository holds by its index, from its folder on, even those that an ignore file names; ``None`` if that is
    not known.
    """
    folder = (await _folders(env, posixpath.join(top, ".git")))[0]
    try:
        index = await env.read_bytes(posixpath.join(folder, "index"), limit=MAX_INDEX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return None
    return paths_of_index(index) if len(index) <= MAX_INDEX else None


def paths_of_index(data: bytes) -> tuple[str, ...] | None:
    """The paths in an index of git; ``None`` if it is of no known form, or only a part of one."""
    if data[:4] != b"DIRC" or not 2 <= _number(data, 4) <= 4:
        return None
    for hash_length in (20, 32):
        found, at = _entries(data, hash_length)
        while at + 8 + hash_length <= len(data) and data[at : at + 1].isupper():  # others say that this is not all
            at += 8 + _number(data, at + 4)
        if at + hash_length == len(data):
            return tuple(found)
    return None


def _number(data: bytes, at: int, length: int = 4) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _entries(data: bytes, hash_length: int) -> tuple[list[str], int]:
    """The paths of an index, and where they end; what is torn ends behind the data."""
    found: list[str] = []
    at, path, shortened = 12, b"", _number(data, 4) == 4
    for _ in range(_number(data, 8)):
        start = at + 40 + hash_length
        start += 4 if _number(data, start, 2) & 0x4000 else 2
        dropped = len(path)
        if shortened:
            dropped, start = _offset(data, start)
        end = data.find(b"\0", start)
        if end < 0:
            return found, len(data)
        path = path[: len(path) - dropped] + data[start:end]
        at = end + 1 if shortened else at + (end - at) // 8 * 8 + 8
        found.append(path.decode("utf-8", "surrogateescape"))
    return found, at


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = -1
    while at < len(data):
        byte = data[at]
        at += 1
        value = (value + 1) << 7 | (byte & 0x7F)
        if not byte & 0x80:
            break
    return value, at


async def rules_from_above(env: Looks, top: str) -> bool:
    """Whether a file ``.gitignore`` lies above a repository: a walk reads it, git and ripgrep do not."""
    place = top
    while place != (place := posixpath.dirname(place)):
        if ".gitignore" in await _names(env, place):
            return True
    return False


async def _folder_problem(env: Looks, place: str) -> str:
    """What is wrong with the settings and hooks of one repository."""
    for folder in await _folders(env, place):
        for name in ("config", "config.worktree"):
            problem = await _config_problem(env, posixpath.join(folder, name))
            if problem:
                return problem
        hooks = await _names(env, posixpath.join(folder, "hooks"))
        if not hooks.keys().isdisjoint(_HOOKS):
            return f"{folder} holds a hook that runs whenever git looks at the files"
    return ""


async def _folders(env: Looks, place: str) -> list[str]:
    """The folders that may hold settings and hooks of a repository, by its ``.git``."""
    try:
        text = (await env.read_bytes(place, limit=4096)).decode("utf-8", "replace")
    except OSError:
        folders = [place]
        modules = posixpath.join(place, "modules")
        if await _names(env, modules):
            walk = await env.walk(modules, include_ignored=True, limit=MOST_WALKED)
            folders += [
                posixpath.join(modules, posixpath.dirname(e.path))
                for e in walk.entries
                if posixpath.basename(e.path) == "HEAD"
            ]
    else:  # a file that says where it is
        real = posixpath.normpath(posixpath.join(posixpath.dirname(place), text.partition("gitdir:")[2].strip()))
        folders = [real]
        try:
            common = (await env.read_bytes(posixpath.join(real, "commondir"), limit=4096)).decode("utf-8", "replace")
            folders.append(posixpath.normpath(posixpath.join(real, common.strip())))
        except OSError:
            pass
    return list(dict.fromkeys(folders))


async def _config_problem(env: Looks, path: str) -> str:
    try:
        data = await env.read_bytes(path, limit=MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return f"{path} cannot be read"
    found = unusual(data.decode("utf-8", "replace")) if len(data) <= MAX_BYTES else "too much"
    return f"{path} holds {found!r}, which may make git run something" if found else ""


def unusual(text: str) -> str:
    """The first setting in the text of a git configuration that is not known to run nothing; empty if there is none."""
    section = ""
    for line in text.removeprefix("\ufeff").split("\n"):  # for git nothing else ends a line
        rest = line.strip()
        header = _HEADER.match(rest)
        if header:
            section = header[1].casefold() + (f".{header[2]}" if header[2] is not None else "")
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(rest)
        if entry is None or rest.endswith("\\"):
            return rest[:80]
        key = f"{section}.{entry[1].casefold()}"
        if not _KEYS.fullmatch(key):
            return key[:80]
    return ""
