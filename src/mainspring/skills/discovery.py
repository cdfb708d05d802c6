"""Looking through a folder for skills: which files are one, and which folders are none of our business."""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mainspring.env.ignore import Level, is_ignored, load, load_above
from mainspring.frontmatter import read_head
from mainspring.skills.content import read_text
from mainspring.skills.skill import SkillError, SkillProblem

SUFFIX = ".skill.md"
MOST_FOLDERS = 20_000
MOST_SKILLS = 5_000
DEEPEST = 6

_LARGEST_IGNORE_FILE = 1 << 20
_LEADS_OUT = "the link leads out of the project, so it is not followed"

_VENDORED = frozenset({"node_modules", "bower_components", "vendor", "site-packages", "__pycache__", "venv"})
"""Folders of what others wrote and a program fetched: a dependency's skill is not the user's."""


class Place(Struct, frozen=True):
    """A file that should be a skill.

    Attributes:
        file: The file.
        folder: Its folder, if that belongs to the skill; ``None`` for ``*.skill.md``.
        real: What is the same for all links that lead to it.
    """

    file: Path
    folder: Path | None
    real: str


class Places(Struct, frozen=True):
    """What was found in a folder, what lies highest first and then by path, and what is no skill though it looks like one."""

    found: tuple[Place, ...] = ()
    problems: tuple[SkillProblem, ...] = ()


def places_in(
    root: Path, *, within: tuple[str, ...] = (), most: int = MOST_SKILLS, ignore_files: bool = True
) -> Places:
    """Look through a folder. Blocks.

    A folder with a ``SKILL.md`` is a skill, and what lies below it belongs to it. ``*.skill.md`` is a skill in a single file. Other
    folders are looked through, but for hidden ones, those of dependencies, and what an ignore file leaves out. Links are followed,
    each folder once.

    Args:
        root: The folder; nothing is found where there is none.
        within: Real paths of folders that links may not leave; empty lets them lead anywhere.
        most: How many skills are taken.
        ignore_files: Whether ignore files count. The ones above an installed program speak of its folder, not of what is in it.
    """
    return _Scan(root, within, most, ignore_files).run()


class _Scan:
    def __init__(self, root: Path, within: tuple[str, ...], most: int, ignore_files: bool) -> None:
        self._root = root
        self._most = most
        self._within = within
        self._ignore_files = ignore_files
        self._found: list[Place] = []
        self._problems: list[SkillProblem] = []
        self._seen: set[str] = set()
        self._children: list[Path] = []

    def run(self) -> Places:
        if not self._root.is_dir():
            if os.path.lexists(self._root):
                self._tell(self._root, "it is no folder, so there are no skills in it")
            return self._result()
        root = os.path.realpath(self._root)
        if self._leaves(root):
            self._tell(self._root, _LEADS_OUT)
            return self._result()
        above = load_above(root, _read) if self._ignore_files and not is_ignored(root, True, _read) else None
        queue: deque[tuple[Path, int, Level | None]] = deque([(self._root, 0, above)])
        while queue:
            if len(self._seen) >= MOST_FOLDERS or len(self._found) >= self._most:
                self._tell(self._root, f"more than {self._most} skills or {MOST_FOLDERS} folders; the rest is left out")
                break
            queue += self._visit(*queue.popleft())
        self._tell_of_empty_ones()
        return self._result()

    def _result(self) -> Places:
        return Places(tuple(sorted(self._found, key=_by_depth)), tuple(self._problems))

    def _visit(self, folder: Path, depth: int, level: Level | None) -> list[tuple[Path, int, Level | None]]:
        """Look at one folder; the folders in it that are to be looked at next."""
        real = os.path.realpath(folder)
        if real in self._seen:
            return []
        self._seen.add(real)
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            self._tell(folder, f"the folder cannot be read: {error.strerror or error}")
            return []
        skills = [n for n in names if n.lower() == "skill.md" and not (folder / n).is_dir()]
        if skills:
            name = next((n for n in ("SKILL.md", "skill.md") if n in skills), skills[0])
            self._take(folder / name, folder, real)
            return []
        level = load(real, level, _read) if self._ignore_files else None
        further: list[tuple[Path, int, Level | None]] = []
        for name in names:
            path = folder / name
            is_folder = path.is_dir()
            if name.startswith(".") or self._is_left_out(path, is_folder, level, real):
                continue
            if is_folder and depth < DEEPEST:
                further.append((path, depth + 1, level))
            elif name.lower().endswith(SUFFIX):
                self._take(path, None, os.path.realpath(path))
            elif depth == 0:
                self._tell_of_misnamed(path)
        if depth == 0:
            self._children = [path for path, _, _ in further]
        return further

    def _is_left_out(self, path: Path, is_folder: bool, level: Level | None, parent: str) -> bool:
        if is_folder and (path.name in _VENDORED or (path / "pyvenv.cfg").is_file()):
            return True
        if level is not None and level.ignores(posixpath.join(parent, path.name), is_folder):
            if path.name.lower().endswith(SUFFIX) or (is_folder and (path / "SKILL.md").is_file()):
                self._tell(path, "an ignore file leaves it out (.gitignore, .ignore)", level="warning")
            return True
        if not path.is_symlink():
            return False
        if not path.exists():
            self._tell(path, f"it is a link that leads nowhere: {os.readlink(path)}")
            return True
        if self._leaves(os.path.realpath(path)):
            self._tell(path, _LEADS_OUT)
            return True
        return False

    def _take(self, file: Path, folder: Path | None, real: str) -> None:
        try:
            regular = stat.S_ISREG(file.stat().st_mode)
        except OSError as error:
            self._tell(file, f"it cannot be read: {error.strerror or error}")
            return
        if not regular:
            self._tell(file, "it is no file with text in it")
        elif file.is_symlink() and self._leaves(os.path.realpath(file)):
            self._tell(file, _LEADS_OUT)
        else:
            self._found.append(Place(file, folder, real))

    def _leaves(self, real: str) -> bool:
        """Whether a real path lies outside of the folders that may not be left."""
        if not self._within:
            return False
        return not any(real == place or real.startswith(place.rstrip(os.sep) + os.sep) for place in self._within)

    def _tell(self, path: Path, reason: str, *, level: Literal["error", "warning"] = "error") -> None:
        self._problems.append(SkillProblem(str(path), reason, level))

    def _tell_of_misnamed(self, path: Path) -> None:
        """A Markdown file that is written like a skill, but not called like one."""
        if path.suffix.lower() != ".md" or not path.is_file():
            return
        try:
            head = read_head(read_text(path))
        except (SkillError, OSError):
            return
        if head is not None and "description" in head.fields:
            name = path.name[: -len(path.suffix)]
            self._tell(path, f"it is no skill by its name; call it {name}{SUFFIX}, or {name}/SKILL.md")

    def _tell_of_empty_ones(self) -> None:
        taken = {p.file.relative_to(self._root).parts[0] for p in self._found if p.file != self._root}
        told = {Path(p.path).relative_to(self._root).parts[0] for p in self._problems if Path(p.path) != self._root}
        for child in self._children:
            if (
                child.name not in taken
                and child.name not in told
                and os.path.realpath(child) != os.path.realpath(self._root)
            ):
                self._tell(child, "there is no SKILL.md in the folder", level="warning")


def _by_depth(place: Place) -> tuple[int, tuple[str, ...]]:
    return len(place.file.parts) - (place.folder is None), place.file.parts


def _read(path: str) -> bytes | None:
    """A small file's bytes, for ignore rules."""
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_IGNORE_FILE)
    except OSError:
        return None
