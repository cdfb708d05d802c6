"""Find the repository that git uses in a folder, and the contents that could make a read-only command run or fetch something."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from mainspring.env import DirEntry, WalkResult
from mainspring.lazy import lazy_re
from mainspring.permissions.git_config import GitSettings, is_harmless_setting, read_settings
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ResolvesPaths

_GITLINK_MODE = 0o160000
GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a submodule, as bytes of an index."""


def parse_index(data: bytes) -> tuple[str, ...] | None:
    """Return the paths in a git index; None if its format is unknown, or the file is incomplete."""
    entries = _parse(data)
    return None if entries is None else tuple(path for path, _ in entries)


def submodules_of_index(data: bytes) -> tuple[str, ...] | None:
    """Return the paths of submodules in a git index.

    Return None in the same cases as for `parse_index`.
    """
    if GITLINK not in data:
        return ()
    entries = _parse(data)
    return None if entries is None else tuple(path for path, mode in entries if mode == _GITLINK_MODE)


def _parse(data: bytes) -> list[tuple[str, int]] | None:
    if data[:4] != b"DIRC" or not 2 <= _read_uint(data, 4) <= 4:
        return None
    for hash_length in (20, 32):
        found, at = _entries(data, hash_length)
        while at + 8 + hash_length <= len(data) and data[at : at + 1].isupper():  # other extensions change the meaning
            at += 8 + _read_uint(data, at + 4)
        if at + hash_length == len(data):
            return found
    return None


def _read_uint(data: bytes, at: int, length: int = 4) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _entries(data: bytes, hash_length: int) -> tuple[list[tuple[str, int]], int]:
    """Return the paths and modes of an index, and the offset of their end.

    The offset is the length of the data if the index is truncated.
    """
    found: list[tuple[str, int]] = []
    at, path, is_shortened = 12, b"", _read_uint(data, 4) == 4
    for _ in range(_read_uint(data, 8)):
        mode = _read_uint(data, at + 24)
        start = at + 40 + hash_length
        start += 4 if _read_uint(data, start, 2) & 0x4000 else 2
        dropped = len(path)
        if is_shortened:
            dropped, start = _read_varint(data, start)
        end = data.find(b"\0", start)
        if end < 0:
            return found, len(data)
        path = path[: len(path) - dropped] + data[start:end]
        at = end + 1 if is_shortened else at + (end - at) // 8 * 8 + 8
        found.append((path.decode("utf-8", "surrogateescape"), mode))
    return found, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length. Return it with the offset of its end."""
    value = -1
    while at < len(data):
        byte = data[at]
        at += 1
        value = (value + 1) << 7 | (byte & 0x7F)
        if not byte & 0x80:
            break
    return value, at


_MAX_BYTES = 1 << 18
MAX_INDEX = 1 << 26
MAX_REPOSITORIES = 100
MAX_ALTERNATES = 8
_MAX_WALKED = 50_000
"""Maximum number of names below a repository that are listed to find nested repositories if its index cannot be read."""


MAX_GIT_FILES = 200_000
"""Maximum number of names below a git folder that are checked for links."""


_HOOK = "post-index-change"
"""The hook that read-only commands run: ``git status`` updates the index."""


_LINKS_ALLOWED = frozenset(("config", "hooks", "description", "COMMIT_EDITMSG", "lfs", "branches"))
"""Names in a git folder that may be symbolic links.

Git opens every other one as part of this very repository.
"""


_HEAD = lazy_re(r"ref: refs/\S|[0-9a-f]{40}")
"""The beginning of the file ``HEAD``.

Without it, git searches for a repository in the parent folders.
"""


_FOLDERS_WITHOUT_LINKS = (
    "objects", "refs", "logs", "worktrees", "info", "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""Folders whose files git displays: references, messages, steps of a rebase.

A link in them would display another file.
"""


_REDIRECTIONS = frozenset(
    "GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE "
    "GIT_SHALLOW_FILE GIT_GRAFT_FILE GIT_REPLACE_REF_BASE GIT_EXTERNAL_DIFF GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_ATTR_SOURCE "
    "GIT_REF_PARANOIA".split()
)
"""Variables that redirect git to another repository, or to a program."""


_FOLDERS = ("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
"""Variables that name files or folders of the user; they must not be in the project."""


NEUTRAL_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.askPass": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "interactive.diffFilter": "cat",
    "protocol.allow": "never",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "log.showSignature": "false",
    "log.follow": "false",
    "diff.submodule": "short",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
"""Settings that override those of the repository while a command runs that is allowed because it only reads."""


_NEUTRAL_VARIABLES = {
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SSH": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PROTOCOL_FROM_USER": "0",
}


@runtime_checkable
class ReadsFolders(Protocol):
    """An environment whose files can be read."""

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved."""
        ...

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file."""
        ...

    async def walk(self, path: str, *, include_ignored: bool = False, limit: int = 200_000) -> WalkResult:
        """Everything below a folder."""
        ...


@runtime_checkable
class _StartsLocally(Protocol):
    """An environment whose programs inherit the variables of this process."""

    def variable_overrides(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables that differ from those of this process."""
        ...


class GitRepository(Struct, frozen=True):
    """The repository that git finds from a folder.

    Attributes:
        top: Its working folder; empty if git finds none.
        problem: Why a read-only command may run or show something else; empty if it cannot.
        fetches: Whether git fetches missing objects from a remote, which only the neutral environment prevents.
    """

    top: str = ""
    problem: str = ""
    fetches: bool = False


def neutral_environment(env: object) -> dict[str, str]:
    """Return the variables with which git runs no program and connects to no host that a repository names.

    The user's own settings in variables remain in force.

    Args:
        env: Environment in which the command will run.
    """
    count = _given_settings(get_variables(env) or {}) or ()
    found = {**_NEUTRAL_VARIABLES, "GIT_CONFIG_COUNT": str(len(count) + len(NEUTRAL_SETTINGS))}
    for number, (key, value) in enumerate(NEUTRAL_SETTINGS.items(), len(count)):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


async def find_git_repository(env: ResolvesPaths, folder: str, root: tuple[str, ...]) -> GitRepository:
    """Find the repository that git would use in a folder, and check it.

    Args:
        env: Environment in which the command will run.
        folder: A resolved path.
        root: Components of the project's folder.
    """
    if not isinstance(env, ReadsFolders):
        return GitRepository(problem="the repository's settings cannot be read")
    problem = await _problem_of_variables(env, root)
    if problem:
        return GitRepository(problem=problem)
    return await _Search(env, root).from_folder(folder)


class _Checkout(Struct, frozen=True):
    """A working folder and its git folders.

    Attributes:
        top: The working folder.
        own: Its git folder.
        common: The git folder that it shares with other working folders; else the same as ``own``.
        names: The names in the git folder.
    """

    top: str
    own: str
    common: str
    names: Mapping[str, str]


class _ProblemError(Exception):
    """A reason why a repository is not known to be harmless."""


class _Search:
    """Checker of a repository and its submodules."""

    def __init__(self, env: ReadsFolders, root: tuple[str, ...]) -> None:
        self._env = env
        self._root = root
        self._seen: set[str] = set()
        self._fetches = False

    async def from_folder(self, folder: str) -> GitRepository:
        """Return the first repository from a folder upward, as git finds it.

        Git skips a damaged one. In the project, where every file may be planted, each repository on the way is checked.
        """
        place, top, is_found = folder, "", False
        try:
            while True:
                names = await self._listed(place)
                if ".git" in names:
                    top = top or place
                    is_found = await self._judge(place, names[".git"]) or is_found
                if _is_bare(names):
                    raise _ProblemError(f"{place} has the layout of a repository")
                if any(name != ".git" and name.casefold() == ".git" for name in names):
                    raise _ProblemError(f"{place} contains another spelling of .git")
                is_in_project = len(split_path(place)) > len(self._root)
                if (is_found and not is_in_project) or place == (place := posixpath.dirname(place)):
                    return GitRepository(top, "", self._fetches)
        except _ProblemError as error:
            return GitRepository(top, str(error), self._fetches)

    async def _judge(self, top: str, kind: str) -> bool:
        """Check the repository of a working folder.

        Return False if git does not accept it and searches the parent folders.
        """
        if len(self._seen) >= MAX_REPOSITORIES:
            raise _ProblemError("it contains too many nested repositories to check")
        self._seen.add(top)
        checkout = await self._checkout(top, kind)
        common_names = checkout.names if checkout.common == checkout.own else await self._listed(checkout.common)
        self._check_links(checkout.own, checkout.names)
        self._check_links(checkout.common, common_names)
        for folder, entries in {checkout.own: checkout.names, checkout.common: common_names}.items():
            for name in _FOLDERS_WITHOUT_LINKS:
                if name in entries:
                    await self._check_links_below(posixpath.join(folder, name))
        await self._judge_settings(checkout)
        await self._judge_objects(posixpath.join(checkout.common, "objects"), 0)
        await self._judge_submodules(checkout)
        is_whole = all(common_names.get(name) == "directory" for name in ("objects", "refs"))
        head = await self._text(posixpath.join(checkout.own, "HEAD"))
        return kind != "directory" or (is_whole and _HEAD.match(head or "") is not None)

    async def _checkout(self, top: str, kind: str) -> _Checkout:
        dot = posixpath.join(top, ".git")
        if kind == "directory":
            names = await self._listed(dot)
            if "commondir" in names:
                raise _ProblemError(f"'commondir' in {dot} names another repository")
            return _Checkout(top, dot, dot, names)
        text = await self._text(dot) if kind == "file" else None
        if text is None or not text.startswith("gitdir: "):
            raise _ProblemError(f"{dot} leads elsewhere, which may be another repository")
        own = await self._real(top, text.removeprefix("gitdir: ").rstrip("\r\n"))
        names = await self._listed(own)
        common = await self._linked(top, own) if "commondir" in names else own
        checkout = _Checkout(top, own, common, names)
        if common == own:
            await self._check_back(checkout)
        return checkout

    async def _linked(self, top: str, own: str) -> str:
        """Return the repository of a linked working folder, if that repository lists the folder."""
        common = await self._real(own, (await self._text(posixpath.join(own, "commondir")) or "").rstrip("\r\n"))
        back = (await self._text(posixpath.join(own, "gitdir")) or "").rstrip("\r\n")
        folder = posixpath.dirname(own)
        is_worktree = posixpath.basename(folder) == "worktrees" and common == posixpath.dirname(folder)
        if not is_worktree or not back or await self._real(own, back) != posixpath.join(top, ".git"):
            raise _ProblemError(f"{own} does not list {top} as a worktree")
        return common

    async def _check_back(self, checkout: _Checkout) -> None:
        """Check that a git folder elsewhere, for example, of a submodule, names this working folder."""
        settings = await self._settings(posixpath.join(checkout.own, "config"))
        if not settings.unusual and not settings.worktrees:
            raise _ProblemError(f"{checkout.own} does not name {checkout.top} as its working folder")

    def _check_links(self, folder: str, names: Mapping[str, str]) -> None:
        for name, kind in names.items():
            if kind == "symlink" and name not in _LINKS_ALLOWED:
                raise _ProblemError(f"{folder}/{name} is a link, which may lead to another repository")

    async def _check_links_below(self, folder: str) -> None:
        try:
            walk = await self._env.walk(folder, include_ignored=True, limit=MAX_GIT_FILES)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError):
            raise _ProblemError(f"{folder} cannot be read") from None
        if walk.truncated or walk.unreadable or walk.ignored:
            raise _ProblemError(f"{folder} contains files that cannot be checked")
        link = next((entry.path for entry in walk.entries if entry.kind == "symlink"), None)
        if link is not None:
            raise _ProblemError(f"{folder}/{link} is a link, which may lead to another repository")

    async def _judge_settings(self, checkout: _Checkout) -> None:
        is_linked = checkout.own != checkout.common
        shared = await self._settings(posixpath.join(checkout.common, "config"))
        found = [(checkout.common, replace(shared, worktrees=()) if is_linked else shared)]
        folders = dict.fromkeys((checkout.common, checkout.own))
        found += [(folder, await self._settings(posixpath.join(folder, "config.worktree"))) for folder in folders]
        hooks = [posixpath.join(checkout.common, "hooks"), posixpath.join(checkout.own, "hooks")]
        for folder, settings in found:
            if settings.unusual:
                raise _ProblemError(f"{folder} sets {settings.unusual!r}, which may make git run a program")
            for worktree in settings.worktrees:
                if await self._real(folder, worktree) != checkout.top:
                    raise _ProblemError(f"{folder} sets 'core.worktree' to another folder")
            hooks += [path for named in settings.hook_folders for path in self._hook_folders(named, checkout)]
            self._fetches = self._fetches or settings.fetches
        for folder in dict.fromkeys(hooks):
            if _HOOK in await self._listed(folder, is_needed=False):
                raise _ProblemError(f"{folder} contains a hook that runs whenever git reads the files")

    def _hook_folders(self, named: str, checkout: _Checkout) -> list[str]:
        return [posixpath.normpath(posixpath.join(base, named)) for base in (checkout.top, checkout.own)]

    async def _judge_objects(self, folder: str, depth: int) -> None:
        """Check that the objects of a repository are in it, or at least in the project."""
        if depth:
            await self._check_links_below(folder)
        alternates = await self._text(posixpath.join(folder, "info/alternates"))
        for line in (alternates or "").split("\n"):
            if not line or line.startswith("#"):
                continue
            place = "" if line.startswith('"') else await self._real(folder, line)
            if depth >= MAX_ALTERNATES or split_path(place)[: len(self._root)] != self._root:
                raise _ProblemError(f"{folder}/info/alternates adds the objects of another repository")
            await self._judge_objects(place, depth + 1)

    async def _judge_submodules(self, checkout: _Checkout) -> None:
        for path in await self._submodules(checkout):
            place = posixpath.join(checkout.top, path)
            try:
                is_inside = await self._env.realpath(place) == place
            except (OSError, ValueError):
                is_inside = False
            names = await self._listed(place) if is_inside else {}
            if ".git" in names and place not in self._seen:
                await self._judge(place, names[".git"])

    async def _submodules(self, checkout: _Checkout) -> list[str]:
        """Return the folders where git runs another git, from the index.

        If the index cannot be read, return every folder with a nested repository.
        """
        index = await self._bytes(posixpath.join(checkout.own, "index"), MAX_INDEX)
        is_split = any(name.startswith("sharedindex.") for name in checkout.names)
        found = None if is_split else submodules_of_index(index or b"")
        if found is not None:
            return list(found)
        try:
            walk = await self._env.walk(checkout.top, include_ignored=True, limit=_MAX_WALKED)
        except OSError:
            raise _ProblemError(f"{checkout.top} cannot be searched for submodules") from None
        if walk.truncated:
            raise _ProblemError(f"{checkout.top} is too large to search for submodules")
        places = [posixpath.dirname(path.rstrip("/")) for path in walk.ignored if path.rstrip("/").endswith("/.git")]
        return list(places)

    async def _settings(self, path: str) -> GitSettings:
        data = await self._bytes(path, _MAX_BYTES)
        return GitSettings() if data is None else read_settings(data.decode("utf-8", "replace"))

    async def _text(self, path: str) -> str | None:
        data = await self._bytes(path, _MAX_BYTES)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    async def _bytes(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            data = await self._env.read_bytes(path, limit=limit + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            raise _ProblemError(f"{path} cannot be read") from None
        if len(data) > limit:
            raise _ProblemError(f"{path} is too large to check")
        return data

    async def _listed(self, folder: str, *, is_needed: bool = True) -> dict[str, str]:
        """Return the names in a folder and their kinds."""
        try:
            return {entry.name: entry.kind for entry in await self._env.list_dir(folder)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError):
            if is_needed:
                raise _ProblemError(f"{folder} cannot be read") from None
            return {}

    async def _real(self, folder: str, path: str) -> str:
        try:
            return await self._env.realpath(posixpath.join(folder, path) if path else "")
        except (OSError, ValueError):
            raise _ProblemError(f"a path in {folder} cannot be resolved") from None


def _is_bare(names: Mapping[str, str]) -> bool:
    lowered = {name.casefold() for name in names}
    return "head" in lowered and not lowered.isdisjoint(("objects", "commondir"))


def get_variables(env: object) -> Mapping[str, str] | None:
    """Return the variables of programs in an environment; None if they are unknown, for example, in a container."""
    return {**os.environ, **env.variable_overrides({})} if isinstance(env, _StartsLocally) else None


def _given_settings(variables: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """Return the git settings in variables; None if they are incomplete."""
    try:
        numbers = range(int(variables.get("GIT_CONFIG_COUNT") or 0))
        return [(variables[f"GIT_CONFIG_KEY_{i}"], variables[f"GIT_CONFIG_VALUE_{i}"]) for i in numbers[:_MAX_BYTES]]
    except (KeyError, ValueError):
        return None


async def _problem_of_variables(env: ReadsFolders, root: tuple[str, ...]) -> str:
    """Return why variables of the process may redirect git; empty if they do not."""
    variables = get_variables(env) or {}
    found = next((name for name in _REDIRECTIONS if variables.get(name)), "")
    if found:
        return f"the variable {found} is set"
    for name in _FOLDERS:
        value = variables.get(name)
        if value and split_path(await env.realpath(value))[: len(root)] == root:
            return f"the variable {name} leads into the project"
    settings = _given_settings(variables)
    unusual = "GIT_CONFIG_COUNT" if settings is None else ""
    for key, value in settings or ():
        head, _, name = key.rpartition(".")
        section, dot, middle = head.partition(".")
        if not is_harmless_setting(f"{section.casefold()}{dot}{middle}.{name.casefold()}", value):
            unusual = key
    return f"variables set {unusual!r}, which may make git run a program" if unusual else ""


async def read_tracked_files(env: ReadsFolders, top: str) -> tuple[str, ...] | None:
    """Return the files in the index of a repository, including ignored ones.

    Return None if they are unknown.
    """
    folder = posixpath.join(top, ".git")
    try:
        text = (await env.read_bytes(folder, limit=_MAX_BYTES)).decode("utf-8", "surrogateescape")
        folder = posixpath.join(top, text.removeprefix("gitdir: ").rstrip("\r\n"))
    except OSError:
        pass  # it is a folder, or does not exist
    try:
        index = await env.read_bytes(posixpath.join(folder, "index"), limit=MAX_INDEX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return None
    return parse_index(index) if len(index) <= MAX_INDEX else None


async def has_rules_above(env: ReadsFolders, top: str) -> bool:
    """Return True if a ``.gitignore`` file exists above a repository: a walk reads it, git and ripgrep do not."""
    place = top
    while place != (place := posixpath.dirname(place)):
        try:
            names = await env.list_dir(place)
        except OSError:
            continue
        if any(entry.name == ".gitignore" for entry in names):
            return True
    return False
