"""`list_files`: list the contents of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.env import FileKind, WalkedPath, WalkResult
from mainspring.env.paths import display_path, to_sort_key
from mainspring.tools.support.paths import failure
from mainspring.tools.support.search.paths import (
    filter_visible,
    hidden_files_note,
    resolve_search_root,
    search_accesses,
)
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

_DEPTH = 2
_LIMIT = 200
_MAX_WALKED = 50_000
_MAX_NAMED = 5
_MARKS: dict[FileKind, str] = {
    "directory": "/",
    "symlink": "@",
    "fifo": " (fifo)",
    "socket": " (socket)",
    "device": " (device)",
}


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    path = arguments.get("path") or "."
    depth, limit = max(1, int(arguments.get("depth", _DEPTH))), int(arguments.get("limit", _LIMIT))
    found = await resolve_search_root(ctx, path, "list")
    if isinstance(found, ToolResult):
        return found
    if found.glob:
        return failure(ToolErrorCode.VALIDATION_ERROR, f"{display_path(path)} is not a folder. For a pattern use glob.")
    if found.stat.kind != "directory":
        return failure(ToolErrorCode.VALIDATION_ERROR, f"{found.name} is a file; use read_file for that.")
    include_ignored = bool(arguments.get("include_ignored", False))
    walk = await ctx.env.walk(
        found.path, depth=depth + 1, include_ignored=include_ignored, limit=_MAX_WALKED, signal=ctx.signal
    )
    near = [e for e in walk.entries if e.path.count("/") < depth]
    seen, withheld = await filter_visible(ctx, found.path, [e.path for e in near])
    visible = set(seen)
    listed = [e for e in near if e.path in visible]
    inside = Counter(e.path.rpartition("/")[0] for e in walk.entries if e.path.count("/") == depth)
    shown = sorted(listed, key=lambda e: e.path.count("/"))[: limit or None]
    lines = _lines(sorted(shown, key=lambda e: to_sort_key(e.path)), inside)
    ignored, more_withheld = await filter_visible(ctx, found.path, walk.ignored)
    withheld += more_withheld
    notes = _notes(walk, ignored, depth, len(listed) - len(shown), sum(inside.values()))
    if withheld:
        notes.append(hidden_files_note(withheld))
    counts = Counter("folder" if e.kind == "directory" else "file" for e in listed)
    head = ", ".join([f"{n} {word}{'' if n == 1 else 's'}" for word, n in sorted(counts.items())]) or "empty folder"
    return ToolResult(
        output="\n".join([*lines, f"({'; '.join([head, *notes])})"]),
        title=f"{found.name}: {head}",
        metadata={
            "path": str(found.path),
            "entries": len(listed),
            "shown": len(shown),
            "deeper": sum(inside.values()),
            "ignored": len(walk.ignored),
            "withheld": withheld,
            "unreadable": list(walk.unreadable),
            "truncated": walk.truncated or len(shown) < len(listed),
        },
    )


def _lines(entries: Sequence[WalkedPath], inside: Mapping[str, int]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        indent = "  " * entry.path.count("/")
        count = f" ({inside[entry.path]} inside)" if entry.path in inside else ""
        lines.append(indent + display_path(entry.path.rpartition("/")[2]) + _MARKS.get(entry.kind, "") + count)
    return lines


def _notes(walk: WalkResult, ignored: Sequence[str], depth: int, cut: int, deeper: int) -> list[str]:
    notes: list[str] = []
    if cut:
        notes.append(f"{cut} more left out by limit")
    if deeper:
        notes.append(
            f"{deeper}{' or more' if walk.truncated else ''} entries further down, depth={depth + 1} shows them"
        )
    if ignored:
        names = ", ".join([display_path(p) for p in ignored[:_MAX_NAMED]])
        more = f" and {len(ignored) - _MAX_NAMED} more" if len(ignored) > _MAX_NAMED else ""
        notes.append(f"ignored: {names}{more}")
    if walk.unreadable:
        notes.append(f"cannot be opened: {'; '.join(walk.unreadable[:_MAX_NAMED])}")
    if walk.truncated:
        notes.append("incomplete: too many files")
    return notes


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return search_accesses(str(arguments.get("path") or "."))


list_files = Tool(
    name="list_files",
    description="Show what is in a folder, as a tree. What .gitignore leaves out is only counted unless include_ignored.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "default": ".", "description": "The folder."},
            "depth": {"type": "integer", "minimum": 1, "default": _DEPTH, "description": "How many levels."},
            "limit": {"type": "integer", "minimum": 0, "default": _LIMIT, "description": "Most entries; 0: all."},
            "include_ignored": {"type": "boolean", "default": False},
        },
        "additionalProperties": False,
    },
    execute=_execute,
    label="List",
    source="builtin",
    idempotent=True,
    access=_access,
    path_params=("path",),
)
"""Show what is in a folder."""
