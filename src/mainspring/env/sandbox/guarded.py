"""Files of a project that decide what runs later, outside of the sandbox: their names, and where they are."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from mainspring.env.paths import is_inside

NAMES = (
    ".agent", ".agents", ".agentignore", ".claude", ".cursor", ".vscode", ".idea", ".mcp.json", ".husky", ".envrc",
)  # fmt: skip
"""Guarded at any depth: settings, commands, skills, hooks, and servers of this program and of others."""

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
"""Instructions for agents. Guarded below the project's folder: nobody looks there, and they are read when an agent works there."""

_INSTRUCTIONS = frozenset(name.lower() for name in INSTRUCTIONS)

GIT_FILES = (
    "config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates", "objects/info/http-alternates",
)  # fmt: skip
"""Guarded in the folder of a repository: they name programs, or lead git to another repository."""
HOOKS = "hooks"

_LEFT_OUT = frozenset(("node_modules", "__pycache__", ".venv", "venv", "site-packages"))
_REPOSITORY = frozenset(("HEAD", "objects", "refs"))
_MAX_FOLDERS = 200_000
_MAX_TEXT = 1 << 16
_SETTLED_NS = 50_000_000
"""A folder that changed less than this before it was read may change again without another time."""

_HARMLESS_SECTIONS = frozenset(("user", "branch", "color"))
_HARMLESS_KEYS = frozenset(
    (
        "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase",
        "core.precomposeunicode", "core.symlinks", "core.worktree", "init.defaultbranch", "core.autocrlf", "remote.url", "remote.fetch", "remote.pushurl",
        "submodule.url", "submodule.active", "extensions.objectformat",
    )
)  # fmt: skip


def is_guarded(path: str, root: str) -> bool:
    """Return True if a file of a project decides what runs later. The file need not exist.

    Args:
        path: The real path.
        root: The project's folder.
    """
    if path == root or not is_inside(path, root):
        return False
    parts = path[len(root.rstrip("/")) + 1 :].lower().split("/")  # some file systems do not tell cases apart
    if any(part in NAMES for part in parts):
        return True
    if ".git" not in parts:
        return len(parts) > 1 and parts[-1] in _INSTRUCTIONS
    at = len(parts) - parts[::-1].index(".git")
    inner = parts[at:]
    if not inner:
        return os.path.isfile(path) or os.path.islink(path)
    if inner[0] in ("modules", "worktrees"):
        return len(inner) > 1
    text = "/".join(inner)
    return inner[0] == HOOKS or text in GIT_FILES


class Guarded(Struct, frozen=True):
    """The guarded files and folders that exist.

    Attributes:
        names: Those with a guarded name.
        of_git: Those of repositories, and files ``.git``.
    """

    names: tuple[str, ...] = ()
    of_git: tuple[str, ...] = ()


class GuardedTree:
    """Finds the guarded files below a folder. A folder that has not changed is not read again.

    Args:
        root: The folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[str, _Folder] = {}

    def find(self, changed_since: int | None = None) -> Guarded:
        """Return the guarded files and folders that exist, without those in another one. Blocking.

        Args:
            changed_since: Time in nanoseconds. Folders that changed since and that their owner cannot read are made readable: a
                program that knows the names in them could still open them.
        """
        names: list[str] = []
        of_git: list[str] = []
        known: dict[str, _Folder] = {}
        waiting = deque((self._root,))
        while waiting and len(known) < _MAX_FOLDERS:
            path = waiting.popleft()
            folder = self._read(path, changed_since)
            if folder is not None:
                known[path] = folder
                names += folder.names
                of_git += folder.links
                waiting += folder.inner
                for git in folder.repositories:
                    of_git += guarded_in_repository(git, changed_since)
        self._folders = known
        return Guarded(tuple(names), tuple(of_git))

    def _read(self, path: str, changed_since: int | None) -> _Folder | None:
        try:
            make_readable(path, changed_since)
            changed = os.stat(path).st_ctime_ns
            known = self._folders.get(path)
            if known is not None and known.changed == changed:
                return known
            now = time.time_ns()
            with os.scandir(path) as entries:
                listed = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        except OSError:
            return None
        is_root = path == self._root
        names = [n for n, _ in listed if n.lower() in NAMES or (n.lower() in _INSTRUCTIONS and not is_root)]
        repositories = [f"{path}/.git"] if (".git", True) in listed else []
        if {n for n, _ in listed} >= _REPOSITORY:
            repositories.append(path)
            inner = []
        else:
            inner = [n for n, d in listed if d and n not in _LEFT_OUT and n.lower() not in NAMES and n != ".git"]
        return _Folder(
            changed if now - changed > _SETTLED_NS else -1,
            tuple(os.path.join(path, n) for n in names),
            (f"{path}/.git",) if (".git", False) in listed else (),
            tuple(os.path.join(path, n) for n in inner),
            tuple(repositories),
        )


class _Folder(Struct, frozen=True):
    """A folder as it was read."""

    changed: int
    names: tuple[str, ...]
    links: tuple[str, ...]
    inner: tuple[str, ...]
    repositories: tuple[str, ...]


def make_readable(path: str, changed_since: int | None) -> None:
    """Let the owner read a folder that a command has made unreadable.

    Raises:
        OSError: If the folder does not exist, or belongs to another user.
    """
    found = os.stat(path, follow_symlinks=False)
    if changed_since is not None and found.st_ctime_ns > changed_since and found.st_mode & 0o500 != 0o500:
        os.chmod(path, found.st_mode & 0o7777 | 0o500)


def guarded_in_repository(git: str, changed_since: int | None = None) -> Iterator[str]:
    """Find the guarded files in the folder of a repository, and of its submodules and worktrees."""
    for name in ("", "info", "objects", "objects/info"):
        with suppress(OSError):
            make_readable(os.path.join(git, name), changed_since)
    yield from (p for name in (*GIT_FILES, HOOKS) if os.path.lexists(p := f"{git}/{name}"))
    for folder in (*_children(f"{git}/worktrees", changed_since), *_modules(f"{git}/modules", changed_since)):
        yield from guarded_in_repository(folder, changed_since)


def is_harmless(path: str) -> bool:
    """Return True if a new guarded file of a repository runs nothing: ``git init``, ``git clone``, and the like made it."""
    folder, name = os.path.split(path)
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    if name == ".git":
        return _is_own_link(path)
    if os.path.basename(folder) == HOOKS:
        return name.endswith(".sample")
    if name == "config":
        return _is_harmless_config(_text(path))
    if os.path.basename(os.path.dirname(folder)) == "worktrees":
        return name == "gitdir" or (name == "commondir" and _text(path).strip() == "../..")
    return False


def linked_worktree(project: str) -> tuple[str, str] | None:
    """Return the common and the own git folder of a linked worktree, if both folders name each other.

    Any project can have a file ``.git`` that names a foreign repository, which must not become writable.

    Args:
        project: The project's folder; its real path.
    """
    link = os.path.join(project, ".git")
    own = _link_target(link)
    if own is None or os.path.basename(os.path.dirname(own)) != "worktrees":
        return None
    common = os.path.dirname(os.path.dirname(own))
    named = os.path.realpath(os.path.join(own, _text(f"{own}/commondir").strip()))
    back = os.path.realpath(os.path.join(own, _text(f"{own}/gitdir").strip()))
    complete = all(os.path.exists(f"{common}/{name}") for name in _REPOSITORY)
    return (common, own) if complete and named == common and back == link else None


def _children(folder: str, changed_since: int | None) -> list[str]:
    try:
        make_readable(folder, changed_since)
        with os.scandir(folder) as entries:
            return [e.path for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _modules(folder: str, changed_since: int | None, depth: int = 8) -> Iterator[str]:
    """The repositories of submodules; their names can have several parts."""
    for path in _children(folder, changed_since) if depth else ():
        with suppress(OSError):
            make_readable(path, changed_since)
        if os.path.lexists(f"{path}/HEAD"):
            yield path
        else:
            yield from _modules(path, changed_since, depth - 1)


def _link_target(link: str) -> str | None:
    if os.path.islink(link) or not os.path.isfile(link):
        return None
    line = _text(link).strip()
    return os.path.realpath(os.path.join(os.path.dirname(link), line[8:])) if line.startswith("gitdir: ") else None


def _is_own_link(link: str) -> bool:
    """Whether a new file ``.git`` belongs to a submodule or worktree of the repository around it."""
    target = _link_target(link)
    if target is None:
        return False
    parts = target.split("/")
    at = parts.index(".git") if ".git" in parts else len(parts)
    around = "/".join(parts[:at])
    return parts[at + 1 : at + 2] in (["modules"], ["worktrees"]) and is_inside(link, around)


def _is_harmless_config(text: str) -> bool:
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            head, closed, line = line[1:].partition("]")
            section = head.split()[0].lower() if closed and head.strip() else "?"
            line = line.strip()
        if not line or line[0] in "#;":
            if section == "?":
                return False
            continue
        name, _, value = line.partition("=")
        key = f"{section}.{name.strip().lower()}"
        if line.endswith("\\") or "::" in value:  # goes on in the next line, or names a program of git for an address
            return False
        if section not in _HARMLESS_SECTIONS and key not in _HARMLESS_KEYS:
            return False
    return len(text) <= _MAX_TEXT


def _text(path: str) -> str:
    if not os.path.isfile(path):  # reading a pipe would wait
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_TEXT + 1)
    except OSError:
        return ""
