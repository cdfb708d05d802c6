"""List all files below a folder with ripgrep, or by walking if ripgrep is missing, and verify ripgrep's results.

ripgrep opens files by name, and another program can replace a name with a link while it runs. Its output is therefore only
a hint: a line is shown if the file at the real path, opened without following links, contains this line; a name is shown
if the folder at the real path contains it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from msgspec import Struct

from mainspring.env import OutputLimits, ProcessResult, RealPath
from mainspring.env.local_files import FilesBelow
from mainspring.env.paths import to_sort_key
from mainspring.env.protocol import FolderInspector
from mainspring.lazy import lazy_re
from mainspring.tools.support.text_files import detect_bom
from mainspring.tools.tool import ToolContext

MatchedLine = tuple[int, int, bytes]
"""Line number, column of the match (0 if none), and text of the line."""


async def disproved(
    ctx: ToolContext, root: RealPath, matches: Mapping[str, Sequence[MatchedLine]]
) -> tuple[set[str], dict[str, str]]:
    """Return the files below a folder whose lines differ from the results, and the encoding of those that are not UTF-8."""
    if not isinstance(ctx.env, FolderInspector):
        return set(), {}
    return await ctx.env.inspect_folder(root, lambda files: _disproved(files, matches)) or (set(), {})


def _disproved(files: FilesBelow, matches: Mapping[str, Sequence[MatchedLine]]) -> tuple[set[str], dict[str, str]]:
    wrong: set[str] = set()
    encodings: dict[str, str] = {}
    for name, rows in matches.items():
        try:
            with files.open(name) as file:
                mark, encoding = detect_bom(file.read(4))
                if encoding not in ("", "utf-8"):
                    encodings[name] = encoding
                if not _has_lines(file, rows, mark, encoding):
                    wrong.add(name)
        except OSError:
            wrong.add(name)
    return wrong, encodings


def _has_lines(file: BinaryIO, rows: Sequence[MatchedLine], mark: bytes, encoding: str) -> bool:
    if encoding in ("", "utf-8"):
        file.seek(len(mark))
        lines: Iterable[bytes] = file
    else:
        file.seek(len(mark))
        lines = file.read().decode(encoding, "replace").encode().splitlines(keepends=True)
    remaining = iter(rows)
    number, _, text = next(remaining)
    for at, line in enumerate(lines, 1):
        if at < number:
            continue
        if line.removesuffix(b"\n").removesuffix(b"\r") != text:
            return False
        following = next(remaining, None)
        if following is None:
            return True
        number, _, text = following
    return False


async def existing(ctx: ToolContext, root: RealPath, paths: Sequence[str]) -> Sequence[str]:
    """Return the paths below a folder that exist."""
    if not isinstance(ctx.env, FolderInspector):
        return paths
    checked = await ctx.env.inspect_folder(root, lambda files: [path for path in paths if files.exists(path)])
    return paths if checked is None else checked


async def proved(ctx: ToolContext, root: RealPath, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files below a folder that exist; ``paths`` are sorted by their parts."""
    if not isinstance(ctx.env, FolderInspector):
        return tuple(paths)
    checked = await ctx.env.inspect_folder(root, lambda files: _proved(files, paths))
    return tuple(paths) if checked is None else checked


def _proved(files: FilesBelow, paths: Sequence[str]) -> tuple[str, ...]:
    names: dict[str, frozenset[str]] = {}
    proved: list[str] = []
    for folder, group in groupby([(*path.rpartition("/")[::2], path) for path in paths], itemgetter(0)):
        if folder not in names:
            try:
                names[folder] = frozenset([e.name for e in files.list(folder) if e.kind == "file"])
            except OSError:
                names[folder] = frozenset()
        proved += [path for _, name, path in group if name in names[folder]]
    return tuple(proved)


TIME_LIMIT = 30.0
"""Seconds after which a search stops."""


_LIMITS = OutputLimits(head=64 << 20, tail=0, cap=64 << 20)
_MAX_FILES = 500_000
_UNREADABLE = lazy_re(r"^rg: (.+?): (.+?)(?: \(os error \d+\))?$", re.MULTILINE)


RIPGREP_OPTIONS = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-exclude",
    *("-g", "!.git", "-g", "!.hg/", "-g", "!.svn/", "-g", "!.jj/"),
)
"""Options that make ripgrep apply the rules of `ExecutionEnv.walk`."""


class FileList(Struct, frozen=True):
    """Found files.

    Attributes:
        paths: Relative paths, sorted by their parts.
        problems: Reasons why the list is incomplete; empty if it is complete.
    """

    paths: tuple[str, ...]
    problems: tuple[str, ...] = ()


async def ripgrep_ignore_options(ctx: ToolContext, root: RealPath, include_ignored: bool) -> tuple[str, ...]:
    """Return the options for a requested folder: rules that exclude the folder itself are ignored."""
    if include_ignored:
        return (*RIPGREP_OPTIONS, "--no-ignore")
    return (*RIPGREP_OPTIONS, "--no-ignore-parent") if await ctx.env.is_ignored(root) else RIPGREP_OPTIONS


async def list_files_below(
    ctx: ToolContext, root: RealPath, *, include_ignored: bool, depth: int | None = None
) -> FileList:
    """List the files below ``root``; ``depth`` limits their depth."""
    program = await ctx.env.find_program("rg")
    if program is None:
        return await _list_by_walking(ctx, root, include_ignored, depth)
    rules = await ripgrep_ignore_options(ctx, root, include_ignored)
    limit = () if depth is None else ("--max-depth", str(depth))
    result = await ctx.env.run(
        [program, *rules, *limit, "--files", "--null", "."],
        cwd=root,
        timeout=TIME_LIMIT,
        signal=ctx.signal,
        limits=_LIMITS,
    )
    problems = await parse_unreadable(ctx, root, result.stderr.text)
    if result.timed_out:
        problems.append(f"stopped after {TIME_LIMIT:g}s")
    elif result.overflowed:
        problems.append("too many files")
    elif result.cancelled or ctx.is_aborted:
        problems.append("cancelled")
    elif result.exit_code > 1 and not problems:
        problems += find_violations(result)
    names = await asyncio.to_thread(_names, result.stdout.data)
    return FileList(await proved(ctx, root, names), tuple(problems))


def _names(data: bytes) -> tuple[str, ...]:
    names = data.split(b"\0")[:-1]
    paths = [name.removeprefix(b"./").decode("utf-8", "surrogateescape") for name in names]
    return tuple(sorted(paths, key=to_sort_key))


async def _list_by_walking(ctx: ToolContext, root: RealPath, include_ignored: bool, depth: int | None) -> FileList:
    walk = await ctx.env.walk(root, include_ignored=include_ignored, depth=depth, limit=_MAX_FILES, signal=ctx.signal)
    problems = [f"{u}" for u in walk.unreadable]
    if walk.truncated:
        problems.append("cancelled" if ctx.is_aborted else "too many files")
    return FileList(tuple([e.path for e in walk.entries if e.kind == "file"]), tuple(problems))


async def parse_unreadable(ctx: ToolContext, root: RealPath, messages: str) -> list[str]:
    """Return the paths that ripgrep could not open, with reasons."""
    found = [(m[1].removeprefix("./"), m[2].lower()) for m in _UNREADABLE.finditer(messages)]
    problem_by_path = {
        p: reason for p, reason in found if "denied" in reason or "too many" in reason or "i/o" in reason
    }
    return [f"{path}: {problem_by_path[path]}" for path in await existing(ctx, root, list(problem_by_path))]


def find_violations(result: ProcessResult) -> list[str]:
    """Return ripgrep's errors that are not about a single file; vanished files are not errors."""
    messages = result.stderr.text
    text = _UNREADABLE.sub("", messages).strip()
    if not text and _UNREADABLE.search(messages):
        return []
    return [text[:300] or f"ripgrep ended with status {result.exit_code}"]
