"""Guarded files: files of a project that define programs that run later outside the sandbox."""

from __future__ import annotations

import os
import re
import time
from collections import deque

from msgspec import Struct

from mainspring.env.paths import is_guarded_name, is_inside
from mainspring.env.sandbox.git_folder import (
    HOOKS_FOLDER,
    REPOSITORY,
    SETTLED_NS,
    GitFiles,
    GitFolder,
    find_in_bare_repository,
    find_in_repository,
    fits_layout,
    make_readable,
    read_start,
)

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""Instructions for agents. They are guarded below the project's folder, where users rarely look: an agent that works there reads them."""

_INSTRUCTIONS = frozenset(name.lower() for name in INSTRUCTION_FILES)

_LEFT_OUT = frozenset(("node_modules", "__pycache__", ".venv", "venv", "site-packages"))
_MAX_FOLDERS = 200_000
_MAX_TEXT = 1 << 16

_WORKTREE_SETTING = re.compile(r'^\[core\]\n(?:[ \t].*\n)*?[ \t]+worktree = "?(.+?)"?$', re.MULTILINE)
"""The folder of a submodule, as git writes it."""

_HARMLESS_SECTIONS = frozenset(("user", "branch", "color"))
_HARMLESS_KEYS = frozenset(
    (
        "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase",
        "core.precomposeunicode", "core.symlinks", "core.worktree", "init.defaultbranch", "core.autocrlf", "remote.url", "remote.fetch", "remote.pushurl",
        "submodule.url", "submodule.active", "extensions.objectformat",
    )
)  # fmt: skip


def is_guarded(path: str, root: str) -> bool:
    """Return True if a file of a project defines programs that run later. The file need not exist.

    Args:
        path: The resolved path.
        root: The project's folder.
    """
    if path == root or not is_inside(path, root):
        return False
    parts = path[len(root.rstrip("/")) + 1 :].lower().split("/")  # some file systems ignore case
    if any(map(is_guarded_name, parts)):
        return True
    if ".git" in parts:
        at = len(parts) - parts[::-1].index(".git")
        inner = path.split("/")[len(path.split("/")) - len(parts) + at :]
        return not fits_layout(inner) if inner else os.path.isfile(path) or os.path.islink(path)
    return (len(parts) > 1 and parts[-1] in _INSTRUCTIONS) or _is_guarded_in_bare(path, root)


def _is_guarded_in_bare(path: str, root: str) -> bool:
    """Return True for settings and hooks of a bare repository, and for the file that turns a folder into a repository."""
    above, below = os.path.split(path)
    while is_inside(above, root):
        name = below.split("/")[0]
        missing = [each for each in REPOSITORY if not os.path.lexists(f"{above}/{each}")]
        if missing == [name]:
            return True
        if not missing and path in find_in_bare_repository(above, below):
            return True
        above, last = os.path.split(above)
        if not last:
            break
        below = f"{last}/{below}"
    return False


class Guarded(Struct, frozen=True):
    """The guarded files and folders that exist.

    Attributes:
        names: Those with a guarded name.
        of_git: Settings and hooks of repositories, and files ``.git``. Git itself makes some of them, see `is_harmless`.
        foreign: Links in repositories, and all else that git does not write.
    """

    names: tuple[str, ...] = ()
    of_git: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All guarded files and folders."""
        return (*self.names, *self.of_git, *self.foreign)


class GuardedTree:
    """Finder of the guarded files below a folder. An unchanged folder is not read again.

    Args:
        root: The folder.
        is_repository: Whether it is a git folder itself.
    """

    def __init__(self, root: str, *, is_repository: bool = False) -> None:
        self._root = root
        self._is_repository = is_repository
        self._folders: dict[str, _Folder] = {}
        self._git_folders: dict[str, GitFolder] = {}

    def find(self, changed_since: int | None = None) -> Guarded:
        """Return the outermost guarded files and folders that exist. Blocking.

        Args:
            changed_since: Time in nanoseconds. Folders that changed since then and that their owner cannot read are made readable: a
                program that knows the names in them could still open them.
        """
        names: list[str] = []
        found: list[GitFiles] = []
        known: dict[str, _Folder] = {}
        read: dict[str, GitFolder] = {}
        waiting = deque((self._root,))
        while waiting and len(known) < _MAX_FOLDERS:
            path = waiting.popleft()
            folder = self._read(path, changed_since)
            if folder is None:
                continue
            known[path] = folder
            names += folder.names
            waiting += folder.inner
            found.append(GitFiles(folder.links))
            for git in folder.repositories:
                found += find_in_repository(git, self._git_folders, read, changed_since)
            if folder.is_bare:
                found.append(GitFiles(find_in_bare_repository(path)))
        self._folders = known
        self._git_folders = read
        settings = tuple(p for each in found for p in each.settings)
        return Guarded(tuple(names), settings, tuple(p for each in found for p in each.foreign))

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
        names = [n for n, _ in listed if is_guarded_name(n) or (n.lower() in _INSTRUCTIONS and not is_root)]
        repositories = [n for n, d in listed if d and n.lower() == ".git"]
        if is_root and self._is_repository:
            repositories, inner = [""], []
        else:
            inner = [
                n for n, d in listed if d and n not in _LEFT_OUT and n.lower() != ".git" and not is_guarded_name(n)
            ]
        return _Folder(
            changed if now - changed > SETTLED_NS else -1,
            tuple(os.path.join(path, n) for n in names),
            tuple(os.path.join(path, n) for n, d in listed if not d and n.lower() == ".git"),
            tuple(os.path.join(path, n) for n in inner),
            tuple(os.path.join(path, n).rstrip("/") for n in repositories),
            bool(inner) and {n for n, _ in listed} >= REPOSITORY,
        )


class _Folder(Struct, frozen=True):
    """The state of a folder when it was read."""

    changed: int
    names: tuple[str, ...]
    links: tuple[str, ...]
    inner: tuple[str, ...]
    repositories: tuple[str, ...]
    is_bare: bool


def is_harmless(path: str) -> bool:
    """Return True if a new file of `Guarded.of_git` runs nothing, because ``git init``, ``git clone``, or the like created it."""
    folder, name = os.path.split(path)
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    if name == ".git":
        return _is_own_link(path)
    if os.path.basename(folder) == HOOKS_FOLDER:
        return name.endswith(".sample")
    if name == "config":
        return _is_harmless_config(_text(path))
    if os.path.basename(os.path.dirname(folder)) == "worktrees":
        return _is_worktree(path) if name == "gitdir" else name == "commondir" and _text(path).strip() == "../.."
    return False


def _is_worktree(gitdir: str) -> bool:
    """Return True if a file ``gitdir`` of a new worktree names a file ``.git`` next to the repository or below that folder."""
    link = os.path.realpath(os.path.join(os.path.dirname(gitdir), _text(gitdir).strip()))
    around = gitdir.split("/.git/")[0]
    return os.path.basename(link) == ".git" and is_inside(link, around) and link.split("/").count(".git") == 1


def linked_repository(project: str) -> tuple[str, str] | None:
    """Return the common and the own git folder of a linked worktree or a submodule, if the project and its git folder name each other.

    Any project can have a file ``.git`` that names a foreign repository, which must not become writable. The two folders of a submodule
    are the same.

    Args:
        project: The resolved path of the project's folder.
    """
    link = os.path.join(project, ".git")
    own = _link_target(link)
    if own is None:
        return None
    if os.path.basename(os.path.dirname(own)) == "worktrees":
        common = os.path.dirname(os.path.dirname(own))
        named = os.path.realpath(os.path.join(own, _text(f"{own}/commondir").strip()))
        back = os.path.realpath(os.path.join(own, _text(f"{own}/gitdir").strip()))
        is_mutual = named == common and back == link
    else:
        common = own
        found = (_WORKTREE_SETTING.search(_text(f"{own}/{name}")) for name in ("config.worktree", "config"))
        is_mutual = any(each and os.path.realpath(os.path.join(own, each[1])) == project for each in found)
    complete = all(os.path.exists(f"{common}/{name}") for name in REPOSITORY)
    return (common, own) if complete and is_mutual else None


def _link_target(link: str) -> str | None:
    if os.path.islink(link) or not os.path.isfile(link):
        return None
    line = _text(link).strip()
    return os.path.realpath(os.path.join(os.path.dirname(link), line[8:])) if line.startswith("gitdir: ") else None


def _is_own_link(link: str) -> bool:
    """Return True if a new file ``.git`` belongs to a submodule or worktree of the repository around it."""
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
        if line.endswith("\\") or "::" in value:  # continues in the next line, or names a git program for a URL
            return False
        if section not in _HARMLESS_SECTIONS and key not in _HARMLESS_KEYS:
            return False
    return len(text) <= _MAX_TEXT


def _text(path: str) -> str:
    return read_start(path).decode("utf-8", "replace")
