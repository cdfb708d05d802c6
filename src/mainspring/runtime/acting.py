"""What a folder brings that acts by itself once the folder is trusted: commands that nobody is asked about, code that is loaded, rules
that loosen. Trust is for what it was when the user gave it; see `runtime.trust`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.runtime.home import FOLDER, SETTINGS
from mainspring.runtime.settings.jsonc import JsonError, parse
from mainspring.runtime.settings.load import parse_settings
from mainspring.skills.skill import LAYOUTS

SERVERS = "mcp.json"
SHARED_SERVERS = ".mcp.json"
MOST_FOLDERS = 20_000

_TELLS_ONLY = frozenset(("model", "agent", "retry", "compaction", "instructions", "ui"))
_TIGHTENS = frozenset((("permissions", "ask"), ("permissions", "deny"), ("sandbox", "hidden"), ("skills", "disabled")))
_LEFT_OUT = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))
_LONGEST = 300


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
    """The settings that do more than tell or tighten."""
    try:
        values = parse_settings(data.decode("utf-8-sig"), str(file)).values
    except (ConfigError, UnicodeDecodeError):
        return Act(file, _mark(data), ("settings that cannot be read",))
    acting = {path: value for path, value in values.items() if path[0] not in _TELLS_ONLY and path not in _TIGHTENS}
    if not acting:
        return None
    lines = tuple(sorted(f"{'.'.join(path)}: {msgspec.json.encode(value).decode()}" for path, value in acting.items()))
    return Act(file, _mark("\n".join(lines).encode()), tuple(map(_short, lines)))


def _servers(file: Path, data: bytes) -> Act:
    try:
        tree: Any = parse(data.decode("utf-8-sig")).plain()
    except (JsonError, UnicodeDecodeError):
        return Act(file, _mark(data), ("servers that cannot be read",))
    whole = cast("dict[str, Any]", tree) if isinstance(tree, dict) else {"servers": tree}
    found = whole.get("mcpServers", whole.get("servers", whole))
    named = cast("dict[str, Any]", found) if isinstance(found, dict) else {"of a list": found}
    lines = (f"server {name}: {msgspec.json.encode(entry).decode()}" for name, entry in named.items())
    return Act(file, _mark(data), tuple(map(_short, lines)))


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … ({len(line)} characters)"
