"""The files of a folder or of a commit, listed before any of them is read: nothing is checked out, and nothing is run."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct

from mainspring.skills.fetch import Git
from mainspring.skills.skill import SkillError

MOST_FILES = 2_000
MOST_BYTES = 50 << 20
"""Of one skill, all of its files together."""

_MOST_LISTED = 200_000
_LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store", ".hg", ".svn"})


class Item(Struct, frozen=True, kw_only=True):
    """A file.

    Attributes:
        path: Its path from the top on, with ``/``.
        size: Its bytes.
        link: What it points to, for a link.
        executable: Whether it may be run.
        key: What its reader knows it by.
    """

    path: str
    size: int
    link: bool = False
    executable: bool = False
    key: str = ""


class Tree(Protocol):
    """Files that can be listed and read."""

    commit: str
    """The commit they are of; empty for a folder."""

    async def items(self) -> Sequence[Item]:
        """All files.

        Raises:
            SkillError: If they cannot be listed, or one is of a kind that cannot be installed.
        """
        ...

    async def read(self, items: Sequence[Item]) -> Mapping[str, bytes]:
        """What is in files, by path; of a link, where it points to.

        Raises:
            SkillError: If they cannot be read.
        """
        ...


class FolderTree:
    """The files of a folder on this machine."""

    commit = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def items(self) -> Sequence[Item]:
        """All files but those of version control."""
        return await asyncio.to_thread(self._list)

    async def read(self, items: Sequence[Item]) -> Mapping[str, bytes]:
        """What is in files."""
        return await asyncio.to_thread(self._read, items)

    def _list(self) -> list[Item]:
        found: list[Item] = []
        stack = [self._folder]
        while stack:
            folder = stack.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                raise SkillError(f"{folder}: cannot be read: {error.strerror or error}") from None
            for entry in entries:
                if entry.name in _LEFT_OUT:
                    continue
                path = PurePosixPath(Path(entry.path).relative_to(self._folder)).as_posix()
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    stack.append(Path(entry.path))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    link, runs = stat.S_ISLNK(status.st_mode), bool(status.st_mode & stat.S_IXUSR)
                    found.append(Item(path=path, size=status.st_size, link=link, executable=runs and not link))
                else:
                    raise SkillError(f"{path} is neither a file nor a folder, so it cannot be installed")
                if len(found) > _MOST_LISTED:
                    raise SkillError(
                        f"{self._folder} holds more than {_MOST_LISTED} files; name the skill's own folder"
                    )
        return sorted(found, key=lambda item: item.path)

    def _read(self, items: Sequence[Item]) -> dict[str, bytes]:
        read: dict[str, bytes] = {}
        for item in items:
            path = self._folder / item.path
            try:
                if item.link:
                    read[item.path] = os.fsencode(os.readlink(path))
                    continue
                with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
                    data = file.read(item.size + 1)
            except OSError as error:
                raise SkillError(f"{item.path}: cannot be read: {error.strerror or error}") from None
            if len(data) > item.size:
                raise SkillError(f"{item.path}: it grew while it was read; try again")
            read[item.path] = data
        return read


class CommitTree:
    """The files of a commit in a repository that was fetched."""

    def __init__(self, git: Git, commit: str) -> None:
        self._git = git
        self.commit = commit

    async def items(self) -> Sequence[Item]:
        """All files; submodules are none."""
        found: list[Item] = []
        out = await self._git.run("ls-tree", "-r", "-z", "-l", "--full-tree", self.commit)
        for row in out.split(b"\0"):
            if not row:
                continue
            facts, _, name = row.partition(b"\t")
            mode, kind, key, size = facts.split()
            if kind != b"blob":
                continue
            try:
                path = name.decode()
            except UnicodeDecodeError:
                raise SkillError(f"the name {name!r} is not UTF-8") from None
            found.append(
                Item(path=path, size=int(size), link=mode == b"120000", executable=mode == b"100755", key=key.decode())
            )
            if len(found) > _MOST_LISTED:
                raise SkillError(f"the repository holds more than {_MOST_LISTED} files")
        return found

    async def read(self, items: Sequence[Item]) -> Mapping[str, bytes]:
        """What is in files."""
        if not items:
            return {}
        out = await self._git.run("cat-file", "--batch", piped="".join(f"{item.key}\n" for item in items).encode())
        read: dict[str, bytes] = {}
        at = 0
        for item in items:
            line, _, _ = out[at : at + 200].partition(b"\n")
            parts = line.split()
            if len(parts) != 3 or parts[1] != b"blob":
                raise SkillError(f"{item.path}: it is missing in what was fetched")
            start = at + len(line) + 1
            read[item.path] = out[start : start + int(parts[2])]
            at = start + int(parts[2]) + 1
        return read
