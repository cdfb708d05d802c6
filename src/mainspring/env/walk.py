"""Walk a folder with ignore rules, in every environment that can list a folder.

Ignore files are ``.gitignore``, ``.ignore``, and ``.rgignore``, read as ripgrep reads them with ``--no-require-git``.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Callable, Container
from typing import Any, Protocol

from mainspring.env.paths import explain, to_sort_key
from mainspring.env.types import DirEntry, FileKind, WalkedPath, WalkResult
from mainspring.globs import PLAIN, translate_name
from mainspring.lazy import lazy_re

IGNORE_FILE_NAMES = (".rgignore", ".ignore", ".gitignore")
VCS_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".jj"})
"""Version control folders: never walked or searched unless they are named."""


_SPECIAL = lazy_re(r"[\\\[].*", re.DOTALL)
"""An escape or a set of characters in a rule, and everything after it, which git reads in its own way."""


FileReader = Callable[[str], bytes | None]
"""Function that reads a file; ``None`` if it does not exist or cannot be read."""


class IgnoreRules:
    """The ignore files of one folder, and, through ``parent``, those of its parent folders."""

    __slots__ = ("_folder", "_names", "_rules", "_specs", "parent")

    def __init__(self, folder: str, parent: IgnoreRules | None, files: dict[str, bytes]) -> None:
        self._folder = folder.rstrip("/") + "/"
        self.parent = parent
        self._rules = {kind: rule_lines(data) for kind, data in files.items()}
        self._names = compile_names([rule for rules in self._rules.values() for rule in rules])
        self._specs: dict[str, Any] = {}

    def mentions(self, name: str) -> bool:
        """Return True if a rule of this folder or a parent folder might apply to this name; it is much faster than `ignores`."""
        return bool(self._names(name)) or (self.parent is not None and self.parent.mentions(name))

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Return True if a rule excludes ``path``, an absolute path below this folder whose parents are not excluded."""
        if not self.mentions(posixpath.basename(path)):
            return False
        for kind in IGNORE_FILE_NAMES:
            level: IgnoreRules | None = self
            while level is not None:
                verdict = level.match(kind, path, is_folder)
                if verdict is not None:
                    return verdict
                level = level.parent
        return False

    def match(self, kind: str, path: str, is_folder: bool) -> bool | None:
        """Return whether this folder's file of one kind excludes ``path``, includes it, or does not mention it."""
        if kind not in self._rules:
            return None
        spec = self._specs.get(kind)
        if spec is None:
            spec = self._specs[kind] = compile_rules(self._rules[kind])
        return spec.check_file(path[len(self._folder) :] + ("/" if is_folder else "")).include


def load_rules(
    folder: str, parent: IgnoreRules | None, read: FileReader, names: Container[str] = IGNORE_FILE_NAMES
) -> IgnoreRules | None:
    """Return the rules of ``folder``; those of the folder above if this one adds none. ``names`` are its known content."""
    files = {kind: data for kind in IGNORE_FILE_NAMES if kind in names and (data := read(posixpath.join(folder, kind)))}
    return IgnoreRules(folder, parent, files) if files else parent


def load_parent_rules(folder: str, read: FileReader) -> IgnoreRules | None:
    """Return the rules of all parents of ``folder``."""
    level = None
    for parent in _parents(folder):
        level = load_rules(parent, level, read)
    return level


def is_ignored(path: str, is_folder: bool, read: FileReader) -> bool:
    """Return True if a rule excludes ``path`` or one of its parents."""
    steps = [*_parents(path), path]
    level = None
    for parent, child in zip(steps[:-1], steps[1:], strict=True):
        level = load_rules(parent, level, read)
        if level and level.ignores(child, is_folder or child != path):
            return True
    return False


def is_vcs_entry(name: str, kind: FileKind) -> bool:
    """Return True if a name is excluded because it belongs to version control."""
    return name in VCS_DIRECTORIES and (kind == "directory" or name == ".git")


def rule_lines(data: bytes) -> list[str]:
    """Return the rules in an ignore file."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip() and not line.startswith("#")]


def compile_names(rules: list[str]) -> Callable[[str], object]:
    """Return a function that is false for a name to which no rule applies; other names may still not match the whole rule.

    Most names match no rule, and this avoids loading and running the matcher for them.
    """
    lasts = {rule.removeprefix("!").rstrip().rstrip("/").rpartition("/")[2] for rule in rules}
    names = {translate_name(_SPECIAL.sub("*", last), PLAIN) for last in lasts}
    return re.compile("|".join(sorted(names)), re.DOTALL).fullmatch


def _parents(path: str) -> list[str]:
    found: list[str] = []
    while path != (parent := posixpath.dirname(path)):
        found.append(parent)
        path = parent
    return found[::-1]


def compile_rules(lines: list[str]) -> Any:
    """Compile the rules of an ignore file; an invalid line is skipped, like in git."""
    from pathspec import GitIgnoreSpec  # takes 60 ms or more to import: only if a rule may match

    try:
        return GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):
        return GitIgnoreSpec.from_lines([line for line in lines if _is_valid(line)])


def _is_valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


class WalkSource(Protocol):
    """The file operations of a walk, blocking."""

    def list(self, path: str) -> list[DirEntry]:
        """Return the names in a folder."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return a small file's bytes; ``None`` if it cannot be read."""
        ...


class DirectoryWalker:
    """One walk, level by level, so that a limit drops the deepest entries."""

    def __init__(
        self, folders: WalkSource, root: str, *, depth: int | None, limit: int, is_cancelled: Callable[[], bool]
    ) -> None:
        self._folders = folders
        self._root = root
        self._depth = depth
        self._limit = limit
        self._stopped = is_cancelled
        self._entries: list[WalkedPath] = []
        self._ignored: list[str] = []
        self._unreadable: list[str] = []
        self._queue: deque[tuple[str, int, IgnoreRules | None]] = deque()

    def walk(self, *, use_rules: bool, use_rules_above: bool) -> WalkResult:
        """Walk the folder. Without ``use_rules_above`` only ignore files inside the folder apply."""
        folders = self._folders
        folders.list(self._root)  # Fails here if the path is not a folder.
        above = load_parent_rules(self._root, folders.read) if use_rules and use_rules_above else None
        self._queue.append(("", 1, above))
        truncated = False
        while self._queue and not truncated:
            truncated = self._stopped() or not self._visit(*self._queue.popleft(), use_rules)
        self._entries.sort(key=lambda entry: to_sort_key(entry.path))
        return WalkResult(tuple(self._entries), tuple(sorted(self._ignored)), tuple(self._unreadable), truncated)

    def _visit(self, folder: str, depth: int, level: IgnoreRules | None, use_rules: bool) -> bool:
        """List one folder; return False once the limit is reached."""
        full = posixpath.join(self._root, folder) if folder else self._root
        try:
            entries = self._folders.list(full)
        except OSError as e:
            self._unreadable.append(f"{folder}: {explain(e)}")
            return True
        if use_rules:
            level = load_rules(full, level, self._folders.read, {entry.name for entry in entries})
        prefix = f"{folder}/" if folder else ""
        found = self._entries
        for entry in entries:
            name, kind = entry.name, entry.kind
            path = prefix + name
            is_folder = kind == "directory"
            if (name in VCS_DIRECTORIES and is_vcs_entry(name, kind)) or (
                level and level.mentions(name) and level.ignores(posixpath.join(full, name), is_folder)
            ):
                self._ignored.append(path + "/" if is_folder else path)
                continue
            if len(found) >= self._limit:
                return False
            found.append(WalkedPath(path, kind))
            if is_folder and (self._depth is None or depth < self._depth):
                self._queue.append((path, depth + 1, level))
        return True
