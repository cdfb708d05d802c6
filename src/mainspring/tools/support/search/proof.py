"""Checks what ripgrep found against the files at the judged paths.

ripgrep opens files by name, and another program can put a link in the place of a name meanwhile. So its output only says where
to look: a line is shown if the file at the real path, opened without following a link, has this line; a name is shown if the
folder at the real path has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from mainspring.env import RealPath
from mainspring.env.local_files import LocalFiles
from mainspring.env.protocol import OnFiles
from mainspring.tools.support.text_files import detect_bom
from mainspring.tools.tool import ToolContext

Row = tuple[int, int, bytes]
"""Number of a line, column of its match (0 if there is none), and its text."""


async def disproved(ctx: ToolContext, root: RealPath, found: Mapping[str, Sequence[Row]]) -> set[str]:
    """Return the files below a folder whose lines are not what was found."""
    if not isinstance(ctx.env, OnFiles):
        return set()
    return await ctx.env.on_files(lambda files: _disproved(files, root, found)) or set()


def _disproved(files: LocalFiles, root: RealPath, found: Mapping[str, Sequence[Row]]) -> set[str]:
    wrong: set[str] = set()
    if not files.is_local(root):
        return wrong
    for name, rows in found.items():
        try:
            with files.open(root / name) as file:
                if not _has_lines(file, rows):
                    wrong.add(name)
        except OSError:
            wrong.add(name)
    return wrong


def _has_lines(file: BinaryIO, rows: Sequence[Row]) -> bool:
    mark, encoding = detect_bom(file.read(4))
    if encoding in ("", "utf-8"):
        file.seek(len(mark))
        lines: Iterable[bytes] = file
    else:
        file.seek(len(mark))
        lines = file.read().decode(encoding, "replace").encode().splitlines(keepends=True)
    left = iter(rows)
    number, _, text = next(left)
    for at, line in enumerate(lines, 1):
        if at < number:
            continue
        if line.removesuffix(b"\n").removesuffix(b"\r") != text:
            return False
        following = next(left, None)
        if following is None:
            return True
        number, _, text = following
    return False


async def existing(ctx: ToolContext, root: RealPath, paths: Sequence[str]) -> Sequence[str]:
    """Return those of some paths below a folder under which there is anything."""
    if not isinstance(ctx.env, OnFiles):
        return paths
    checked = await ctx.env.on_files(lambda files: [path for path in paths if files.exists(root / path)])
    return paths if checked is None else checked


async def proved(ctx: ToolContext, root: RealPath, paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of the files below a folder that are there; ``paths`` are sorted by their parts."""
    if not isinstance(ctx.env, OnFiles):
        return tuple(paths)
    checked = await ctx.env.on_files(lambda files: _proved(files, root, paths))
    return tuple(paths) if checked is None else checked


def _proved(files: LocalFiles, root: RealPath, paths: Sequence[str]) -> tuple[str, ...]:
    if not files.is_local(root):
        return tuple(paths)
    names: dict[str, frozenset[str]] = {}
    kept: list[str] = []
    for folder, group in groupby([(*path.rpartition("/")[::2], path) for path in paths], itemgetter(0)):
        if folder not in names:
            try:
                names[folder] = frozenset([e.name for e in files.list(root / folder) if e.kind == "file"])
            except OSError:
                names[folder] = frozenset()
        kept += [path for _, name, path in group if name in names[folder]]
    return tuple(kept)
