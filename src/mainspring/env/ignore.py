"""Ignore files: ``.gitignore``, ``.ignore`` and ``.rgignore``, read the way ripgrep reads them with ``--no-require-git``.

A rule of an ``.rgignore`` file beats one of an ``.ignore`` file, and that one of a ``.gitignore`` file; within a kind the file
that lies deepest decides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from mainspring.env.types import FileKind

IGNORE_FILE_NAMES = (".rgignore", ".ignore", ".gitignore")
VCS_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".jj"})
"""Version control folders: never walked or searched unless they are named."""

FileReader = Callable[[str], bytes | None]
"""Reads a file; ``None`` if there is none or it cannot be read."""


class IgnoreRules:
    """The ignore files of one folder, and through ``above`` those of the folders that hold it."""

    __slots__ = ("_folder", "_specs", "above")

    def __init__(self, folder: str, above: IgnoreRules | None, files: dict[str, bytes]) -> None:
        self._folder = folder.rstrip("/") + "/"
        self.above = above
        self._specs = {kind: compile_rules(rule_lines(data)) for kind, data in files.items()}

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether a rule leaves out ``path``, an absolute path below this folder."""
        for kind in IGNORE_FILE_NAMES:
            level: IgnoreRules | None = self
            while level is not None:
                verdict = level.verdict(kind, path, is_folder)
                if verdict is not None:
                    return verdict
                level = level.above
        return False

    def verdict(self, kind: str, path: str, is_folder: bool) -> bool | None:
        """What this folder's file of one kind says of ``path``: left out, kept, or nothing."""
        spec = self._specs.get(kind)
        if spec is None:
            return None
        return spec.check_file(path[len(self._folder) :] + ("/" if is_folder else "")).include


def load_rules(folder: str, above: IgnoreRules | None, read: FileReader) -> IgnoreRules | None:
    """The level of ``folder``; that of the folder above if this one adds nothing."""
    files = {kind: data for kind in IGNORE_FILE_NAMES if (data := read(posixpath.join(folder, kind)))}
    return IgnoreRules(folder, above, files) if files else above


def load_parent_rules(folder: str, read: FileReader) -> IgnoreRules | None:
    """The levels of all folders that hold ``folder``."""
    level = None
    for parent in _parents(folder):
        level = load_rules(parent, level, read)
    return level


def is_ignored(path: str, is_folder: bool, read: FileReader) -> bool:
    """Whether ``path`` or a folder that holds it is left out by a rule."""
    steps = [*_parents(path), path]
    files: dict[str, dict[str, bytes]] = {}
    for parent in steps[:-1]:
        files[parent] = {kind: data for kind in IGNORE_FILE_NAMES if (data := read(posixpath.join(parent, kind)))}
    names = [posixpath.basename(step) for step in steps[1:]]
    if not any(
        _could_match(line, names) for found in files.values() for data in found.values() for line in rule_lines(data)
    ):
        return False
    level = None
    for parent, child in zip(steps[:-1], steps[1:], strict=True):
        level = IgnoreRules(parent, level, files[parent])
        if level.ignores(child, is_folder or child != path):
            return True
    return False


def is_vcs_entry(name: str, kind: FileKind) -> bool:
    """Whether a name is left out because it belongs to version control."""
    return name in VCS_DIRECTORIES and (kind == "directory" or name == ".git")


def rule_lines(data: bytes) -> list[str]:
    """The rules in an ignore file."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip() and not line.startswith("#")]


def _could_match(rule: str, names: list[str]) -> bool:
    """Whether a rule could leave out one of these names; errs towards yes, and spares loading the matcher."""
    last = rule.rstrip().rstrip("/").rpartition("/")[2]
    return not rule.startswith("!") and ("\\" in last or any(fnmatchcase(name, last) for name in names))


def _parents(path: str) -> list[str]:
    found: list[str] = []
    while path != (parent := posixpath.dirname(path)):
        found.append(parent)
        path = parent
    return found[::-1]


def compile_rules(lines: list[str]) -> Any:
    """The matcher of an ignore file's rules; a line that is no rule is passed over, as git does."""
    from pathspec import GitIgnoreSpec  # 60 ms and more: only where there is something to match

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_valid(line)])


def _is_valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
