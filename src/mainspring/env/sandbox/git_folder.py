"""The layout of a git folder: the files and folders that git writes. All others in it may define programs that run later."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache

from msgspec import Struct

GIT_FILES = (
    "config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates", "objects/info/http-alternates",
)  # fmt: skip
"""Files that name programs, or redirect git to another repository. None of them matches `LAYOUTS`; git reads them by these names."""
HOOKS_FOLDER = "hooks"
REPOSITORY = frozenset(("HEAD", "objects", "refs"))
"""Names that a folder contains if it is a repository."""

SETTLED_NS = 50_000_000
"""A folder that changed less than this before it was read may change again without a new timestamp."""

_SETTING_NAMES = frozenset(name.rpartition("/")[2] for name in GIT_FILES) | {HOOKS_FOLDER}
_REF = re.compile(rb"(ref: refs/|[0-9a-f]{40})")
_RUNS_PROGRAM = re.compile(rb"^[ \t]*(x|exec)[ \t]", re.MULTILINE)
_TODO = "git-rebase-todo"
_MAX_TEXT = 1 << 16


class Layout(Struct, frozen=True):
    """The expected names in one kind of folder.

    Attributes:
        files: Pattern of the names of regular files; ``.lock`` may follow.
        folders: Patterns of the names of folders, with the layout of each.
        is_free: Whether git stores names that the user or a program chose, such as those of branches.
    """

    files: str = ""
    folders: tuple[tuple[str, str], ...] = ()
    is_free: bool = False


LAYOUTS = {
    "repository": Layout(
        r"HEAD|[A-Z_]+_HEAD|[A-Z_]+_(EDITMSG|MSG|MODE|RR)|AUTO_MERGE|BISECT_[A-Z_]+|packed-refs(\.new)?|index(\.[a-z0-9.]+)?"
        r"|sharedindex\.[A-Za-z0-9_.]+|next-index-[0-9]+|shallow|description|locked|gc\.(log|pid)|tmp_[A-Za-z0-9_]+"
        r"|addp-hunk-edit\.diff|ADD_EDIT\.patch",
        (
            ("objects", "objects"),
            ("refs|logs", "names"),
            ("info", "info"),
            ("rebase-merge|rebase-apply|sequencer|rr-cache|reftable|NOTES_MERGE_WORKTREE|lfs|annex", "data"),
            ("branches", "empty"),
            ("modules", "modules"),
            ("worktrees", "worktrees"),
        ),
    ),
    "objects": Layout(
        r"tmp_obj_[A-Za-z0-9_]+",
        (("[0-9a-f][0-9a-f]", "loose"), ("pack", "pack"), ("info", "object-info"), (r"tmp_objdir-.*", "objects")),
    ),
    "loose": Layout(r"[0-9a-f]+|tmp_obj_[A-Za-z0-9_]+"),
    "pack": Layout(r"(pack|loose|multi-pack-index)-[0-9a-f]+\.[a-z]+|multi-pack-index|\.?tmp[-_].*", (("multi-pack-index.d", "data"),)),
    "object-info": Layout(r"packs|commit-graph|tmp_[A-Za-z0-9_]+", (("commit-graphs", "data"),)),
    "info": Layout(r"exclude|sparse-checkout|refs|tmp_[A-Za-z0-9_]+|\.tmp-[0-9]+-.*"),
    "names": Layout(is_free=True),
    "data": Layout(is_free=True),
    "empty": Layout(),
    "modules": Layout(folders=((".*", "modules"),)),
    "worktrees": Layout(folders=((".*", "repository"),)),
}  # fmt: skip
"""Each kind of folder. A folder of ``modules`` that contains ``HEAD`` is a repository."""


class GitFiles(Struct, frozen=True):
    """The files and folders of a repository that may define programs that run later.

    Attributes:
        settings: Settings and hooks at the places where git reads them; git itself creates some of them.
        foreign: Links, and everything else that does not match the layout of a git folder.
    """

    settings: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class GitFolder(Struct, frozen=True):
    """The state of a repository folder when it was read."""

    changed: int
    layout: str
    found: GitFiles
    inner: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]


def fits_layout(parts: list[str]) -> bool:
    """Return True if git writes such a file or folder. The file need not exist.

    Args:
        parts: The path in the git folder.
    """
    layout = "repository"
    for part in parts[:-1]:
        layout = _layout_of_folder(layout, part)
        if layout in ("", "modules", "worktrees"):
            return False
    return bool(_is_expected_file(layout, parts[-1]) or _layout_of_folder(layout, parts[-1]))


def find_in_repository(
    git: str, known: Mapping[str, GitFolder], read: MutableMapping[str, GitFolder], changed_since: int | None = None
) -> Iterator[GitFiles]:
    """Find the paths that may define programs that run later in a git folder, its submodules, and worktrees. Blocking.

    Args:
        git: The git folder.
        known: Folders that were read before. They are not read again unless they changed.
        read: Receives the folders of this repository.
        changed_since: See `make_readable`.
    """
    waiting = [(git, "repository")]
    while waiting:
        path, layout = waiting.pop()
        folder = _read(path, layout, known, changed_since)
        if folder is None:
            continue
        read[path] = folder
        yield folder.found
        yield GitFiles(foreign=tuple(text for text in folder.texts if not _is_expected_text(text)))
        waiting += folder.inner


def find_in_bare_repository(git: str, new: str = "") -> tuple[str, ...]:
    """Find settings and hooks in a folder with the layout of a repository. Other files in it can belong to a project.

    Args:
        git: The folder.
        new: A path in it, which is included although it does not exist yet.
    """
    files = [f"{git}/{name}" for name in GIT_FILES if name == new or os.path.lexists(f"{git}/{name}")]
    hooks = f"{git}/{HOOKS_FOLDER}"
    found = [path for path in files if os.path.islink(path) or not os.path.isdir(path)]
    found += [hooks] if os.path.lexists(hooks) else []
    return (*found, *([f"{git}/{new}"] if new.split("/")[0] == HOOKS_FOLDER else []))


def make_readable(path: str, changed_since: int | None) -> None:
    """Make a folder readable for its owner if a command has made it unreadable.

    Args:
        path: The folder.
        changed_since: Time in nanoseconds. Only folders that changed since then are made readable: a program that knows the names in
            them could still open them.

    Raises:
        OSError: If the folder does not exist, or belongs to another user.
    """
    found = os.stat(path, follow_symlinks=False)
    if changed_since is not None and found.st_ctime_ns > changed_since and found.st_mode & 0o500 != 0o500:
        os.chmod(path, found.st_mode & 0o7777 | 0o500)


def read_start(path: str) -> bytes:
    """Return the start of a regular file; empty if it cannot be read."""
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb"
        ) as file:  # opening a pipe would block
            return file.read(_MAX_TEXT + 1)
    except OSError:
        return b""


def _read(path: str, layout: str, known: Mapping[str, GitFolder], changed_since: int | None) -> GitFolder | None:
    try:
        make_readable(path, changed_since)
        changed = os.stat(path, follow_symlinks=False).st_ctime_ns
        before = known.get(path)
        if before is not None and before.changed == changed and before.layout == layout:
            return before
        now = time.time_ns()
        with os.scandir(path) as entries:
            listed = [(e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False)) for e in entries]
    except OSError:
        return None
    names = {name for name, _, _ in listed}
    kind = "repository" if layout == "modules" and "HEAD" in names else layout
    settings: list[str] = []
    foreign: list[str] = []
    inner: list[tuple[str, str]] = []
    texts: list[str] = []
    for name, is_folder, is_file in listed:
        entry = f"{path}/{name}"
        below = _layout_of_folder(kind, name) if is_folder else ""
        if kind in ("names", "data") and _looks_like_repository(names):
            foreign.append(entry)
        elif below:
            inner.append((entry, below))
        elif is_file and (name == _TODO or (kind == "names" and name.lower() in _SETTING_NAMES)):
            texts.append(entry)
        elif not (is_file and _is_expected_file(kind, name)):
            (settings if kind == "repository" and name.lower() in _SETTING_NAMES else foreign).append(entry)
    return GitFolder(
        changed if now - changed > SETTLED_NS else -1,
        layout,
        GitFiles(tuple(settings), tuple(foreign)),
        tuple(inner),
        tuple(texts),
    )


def _is_expected_file(layout: str, name: str) -> bool:
    kind = LAYOUTS[layout]
    if kind.is_free:
        return _is_free_name(layout, name)
    return bool(kind.files) and _compiled(rf"({kind.files})(\.lock)?").fullmatch(name) is not None


def _layout_of_folder(layout: str, name: str) -> str:
    """Return the layout of a folder in a folder; empty if git creates no folder with that name there."""
    kind = LAYOUTS[layout]
    if kind.is_free:
        return layout if _is_free_name(layout, name) else ""
    return next((below for pattern, below in kind.folders if _compiled(pattern).fullmatch(name)), "")


def _is_free_name(layout: str, name: str) -> bool:
    if layout == "names":  # git rejects branches whose names start with a dot
        return not name.startswith(".")
    return name.lower() not in _SETTING_NAMES and name.lower() != ".git"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def _looks_like_repository(names: set[str]) -> bool:
    lower = {name.lower() for name in names}
    return "head" in lower and ("commondir" in lower or {"objects", "refs"} <= lower)


def _is_expected_text(path: str) -> bool:
    """Return True if a file with the name of a setting is a branch, or its log, or if a rebase runs no program."""
    text = read_start(path)
    if os.path.basename(path) == _TODO:
        return _RUNS_PROGRAM.search(text) is None and len(text) <= _MAX_TEXT
    return _REF.match(text) is not None
