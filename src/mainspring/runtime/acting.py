"""What a folder brings that acts by itself once the folder is trusted: commands that nobody is asked about, code that is loaded, rules
that loosen. Trust is for what it was when the user gave it; see `runtime.trust`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.runtime.home import FOLDER, SETTINGS
from mainspring.runtime.settings.jsonc import JsonError, parse
from mainspring.skills.skill import LAYOUTS
from mainspring.text import visible

SERVERS = "mcp.json"
SHARED_SERVERS = ".mcp.json"
MOST_FOLDERS = 20_000

_TELLS_ONLY = frozenset(("$schema", "model", "agent", "retry", "compaction", "instructions", "ui"))
_TIGHTENS = frozenset((("permissions", "ask"), ("permissions", "deny"), ("sandbox", "hidden"), ("skills", "disabled")))
_LEFT_OUT = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))


class Act(Struct, frozen=True):
    """A file that acts, or whose settings do.

    Attributes:
        file: Where it is.
        mark: Changes whenever what it does may change.
        what: What it does, for people: the very commands.
    """

    file: Path
    mark: str
    what: tuple[str, ...]


def acts_in(folder: Path) -> Iterator[Act]:
    """What the files for us in one folder do. Blocks."""
    own = folder / FOLDER
    for file, read in ((folder / SHARED_SERVERS, _servers), (own / SERVERS, _servers), (own / SETTINGS, _settings)):
        data = _read(file)
        act = None if data is None else read(file, data)
        if act is not None:
            yield act
    for part in (f"{FOLDER}/extensions", *LAYOUTS):
        for file in sorted((folder / part).rglob("*.py")):
            if "scripts" not in file.relative_to(folder / part).parts and (data := _read(file)) is not None:
                yield Act(file, _mark(data), (f"Python that is loaded, {len(data)} bytes",))


def acts_below(folder: Path) -> Iterator[Act]:
    """The same for a folder and those below it, without other repositories in it. Blocks."""
    seen = 0
    for place, names, _ in os.walk(folder):
        seen += 1
        if seen > MOST_FOLDERS:
            return
        inside = Path(place)
        if inside != folder and os.path.lexists(inside / ".git"):
            names.clear()
            continue
        yield from acts_in(inside)
        names[:] = sorted(n for n in names if n not in _LEFT_OUT and n != FOLDER)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError:
        return b"\0"  # what cannot be read now may be read later


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _settings(file: Path, data: bytes) -> Act | None:
    """The settings that do more than tell or tighten, as they stand there."""
    try:
        tree: Any = parse(data.decode("utf-8-sig")).plain()
    except (JsonError, UnicodeDecodeError):
        return Act(file, _mark(data), ("settings that cannot be read",))
    sections = cast("dict[str, Any]", tree) if isinstance(tree, dict) else {"settings": tree}
    lines: list[str] = []
    for name, section in sections.items():
        if name in _TELLS_ONLY:
            continue
        kept = (
            {k: v for k, v in cast("dict[str, Any]", section).items() if (name, k) not in _TIGHTENS}
            if isinstance(section, dict)
            else section
        )
        if kept not in ({}, None):
            lines.append(f"{name}: {msgspec.json.encode(kept).decode()}")
    return Act(file, _mark("\n".join(sorted(lines)).encode()), _shown(sorted(lines))) if lines else None


def _servers(file: Path, data: bytes) -> Act:
    try:
        tree: Any = parse(data.decode("utf-8-sig")).plain()
    except (JsonError, UnicodeDecodeError):
        return Act(file, _mark(data), ("servers that cannot be read",))
    whole = cast("dict[str, Any]", tree) if isinstance(tree, dict) else {"servers": tree}
    found = whole.get("mcpServers", whole.get("servers", whole))
    named = cast("dict[str, Any]", found) if isinstance(found, dict) else {"of a list": found}
    lines = (f"server {name}: {msgspec.json.encode(entry).decode()}" for name, entry in named.items())
    return Act(file, _mark(data), _shown(lines))


def _shown(lines: Iterable[str]) -> tuple[str, ...]:
    """Lines in which nothing is hidden from whoever looks at them before they trust it."""
    return tuple(map(visible, lines))
