"""Walking a tree of folders with ignore rules; the same for every environment that can list a folder."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mainspring.env.ignore import IgnoreRules, is_vcs_entry, load_parent_rules, load_rules
from mainspring.env.paths import explain
from mainspring.env.types import DirEntry, WalkedPath, WalkResult


class WalkSource(Protocol):
    """What a walk needs, blocking."""

    def list(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...

    def read(self, path: str) -> bytes | None:
        """A small file's bytes; ``None`` if it cannot be read."""
        ...


class DirectoryWalker:
    """One walk, level by level, so that a limit cuts off what lies deepest."""

    def __init__(
        self, folders: WalkSource, root: str, *, depth: int | None, limit: int, stopped: Callable[[], bool]
    ) -> None:
        self._folders = folders
        self._root = root
        self._depth = depth
        self._limit = limit
        self._stopped = stopped
        self._entries: list[WalkedPath] = []
        self._ignored: list[str] = []
        self._unreadable: list[str] = []
        self._queue: deque[tuple[str, int, IgnoreRules | None]] = deque()

    def walk(self, *, use_rules: bool, use_rules_above: bool) -> WalkResult:
        """Walk. Without ``use_rules_above`` only ignore files inside the folder count."""
        folders = self._folders
        folders.list(self._root)  # Fails here if it is no folder.
        above = load_parent_rules(self._root, folders.read) if use_rules and use_rules_above else None
        self._queue.append(("", 1, above))
        truncated = False
        while self._queue and not truncated:
            truncated = self._stopped() or not self._visit(*self._queue.popleft(), use_rules)
        self._entries.sort(key=_sort_key)
        return WalkResult(tuple(self._entries), tuple(sorted(self._ignored)), tuple(self._unreadable), truncated)

    def _visit(self, folder: str, depth: int, level: IgnoreRules | None, use_rules: bool) -> bool:
        """List one folder; False once the limit is reached."""
        full = posixpath.join(self._root, folder) if folder else self._root
        try:
            entries = self._folders.list(full)
        except OSError as e:
            self._unreadable.append(f"{folder}: {explain(e)}")
            return True
        if use_rules:
            level = load_rules(full, level, self._folders.read)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.kind == "directory"
            if is_vcs_entry(entry.name, entry.kind) or (
                level and level.ignores(posixpath.join(full, entry.name), is_folder)
            ):
                self._ignored.append(path + "/" if is_folder else path)
                continue
            if len(self._entries) >= self._limit:
                return False
            self._entries.append(WalkedPath(path, entry.kind))
            if is_folder and (self._depth is None or depth < self._depth):
                self._queue.append((path, depth + 1, level))
        return True


def _sort_key(entry: WalkedPath) -> list[str]:
    return entry.path.split("/")
