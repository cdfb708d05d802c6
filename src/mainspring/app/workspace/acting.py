"""Find the active content of a folder, which runs or applies automatically once the folder is trusted: commands that need no approval,
code that is loaded, and rules that allow more. Trust covers the content at the time the user granted it; see `trust`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.app.workspace.custom_commands.definition import (
    COMMANDS_FOLDER,
    command_files,
    command_name,
    parse_command,
    read_command,
)
from mainspring.app.workspace.custom_commands.expansion import scripts_in
from mainspring.app.workspace.instructions import find_instruction_file, outside_imports
from mainspring.app.workspace.paths import PROJECT_FOLDER, SETTINGS_FILE, find_repository
from mainspring.app.workspace.settings import InstructionSettings
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.lenient_json import JsonError, parse_jsonc
from mainspring.skills.skill import SKILL_FOLDERS
from mainspring.subagents.definition import load_definitions
from mainspring.text import escape_invisible

SERVERS = "mcp.json"
SHARED_SERVERS = ".mcp.json"
_MAX_FOLDERS = 20_000

_PASSIVE_SECTIONS = frozenset(("$schema", "model", "agent", "retry", "compaction", "ui"))
_RESTRICTING_KEYS = frozenset(
    (("permissions", "ask"), ("permissions", "deny"), ("sandbox", "hidden"), ("skills", "disabled"))
)
_PROGRAM_FOLDERS = frozenset((PROJECT_FOLDER, ".agents", ".claude", ".husky"))
_PROJECT = lazy_re(r"^(?:\$\{?(?:CLAUDE_PROJECT_DIR|MAINSPRING_PROJECT_DIR|PWD)\}?/)")
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))


class ActiveContent(Struct, frozen=True):
    """A file with active content.

    Attributes:
        file: Path of the file.
        mark: Fingerprint of the active content; changes whenever its effect may change.
        what: Descriptions of its effects for the user, with the exact commands.
    """

    file: Path
    mark: str
    what: tuple[str, ...]


def find_active_content(folder: Path) -> Iterator[ActiveContent]:
    """Find the active content in one folder. Blocks."""
    seen: set[Path] = set()
    for act in _acts_in(folder):
        if act.file not in seen:
            seen.add(act.file)
            yield act


def _acts_in(folder: Path) -> Iterator[ActiveContent]:
    own = folder / PROJECT_FOLDER
    for file, read in (
        (folder / SHARED_SERVERS, _servers),
        (folder / SERVERS, _servers),
        (own / SERVERS, _servers),
        (own / SETTINGS_FILE, _settings),
    ):
        data = _read(file)
        act = None if data is None else read(file, data)
        if act is not None:
            yield act
    for part in (f"{PROJECT_FOLDER}/extensions", *SKILL_FOLDERS):
        for file in sorted((folder / part).rglob("*.py")):
            if "scripts" not in file.relative_to(folder / part).parts and (data := _read(file)) is not None:
                yield ActiveContent(file, _fingerprint(data), (f"Python code that is loaded, {len(data)} bytes",))
    yield from _commands(own / COMMANDS_FOLDER)
    yield from _definitions(folder)
    yield from _instructions(folder)
    for file in (folder / SHARED_SERVERS, folder / SERVERS, own / SERVERS, own / SETTINGS_FILE):
        yield from _programs(file, folder)


def find_active_content_below(folder: Path) -> Iterator[ActiveContent]:
    """Find the active content in a folder and its subfolders, except in other repositories. Blocks."""
    seen = 0
    for place, names, _ in os.walk(folder):
        seen += 1
        if seen > _MAX_FOLDERS:
            return
        inside = Path(place)
        if inside != folder and os.path.lexists(inside / ".git"):
            names.clear()
            continue
        yield from find_active_content(inside)
        names[:] = sorted(n for n in names if n not in _SKIPPED_FOLDERS and n != PROJECT_FOLDER)


def _commands(folder: Path) -> Iterator[ActiveContent]:
    """Find custom commands that run scripts or allow more; all others are only text."""
    for file in command_files(folder):
        name = command_name(file, folder)
        try:
            command = parse_command(read_command(file), name)
        except (ConfigError, OSError):
            continue  # not a valid command
        lines = [f"/{name} runs {script}" for script in scripts_in(command.body)]
        lines += [f"/{name} allows {rule}" for rule in command.allow_rules]
        if lines:
            yield _act(file, lines)


def _definitions(folder: Path) -> Iterator[ActiveContent]:
    """Find definitions of subagents that choose tools, a model, or limits; all others are only text."""
    for found in load_definitions(project=folder, trusted=True).definitions:
        limits = found.behavior.given
        if found.tools is not None or found.model is not None or limits:
            chosen = {"tools": found.tools, "model": found.model, **limits}
            line = f"subagent {found.name}: {msgspec.json.encode(chosen, enc_hook=str).decode()}"
            yield _act(Path(found.source), [line])


def _instructions(folder: Path) -> Iterator[ActiveContent]:
    """Find instruction files that import files from outside the project into the prompt."""
    for name in InstructionSettings().files:
        file = find_instruction_file(folder, name)
        outside = outside_imports(file, find_repository(folder) or folder) if file else []
        if file and outside:
            yield _act(file, [f"the prompt gets {path}" for path in outside])


def _programs(file: Path, folder: Path) -> Iterator[ActiveContent]:
    """Find programs in agent folders that settings or servers start."""
    data = _read(file)
    try:
        tree: Any = {} if data is None else parse_jsonc(data.decode("utf-8-sig")).to_python()
    except (JsonError, UnicodeDecodeError):
        return
    for word in _words(tree):
        path = Path(os.path.normpath(folder / _PROJECT.sub("", word)))
        below = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
        if below and below[0] in _PROGRAM_FOLDERS and (code := _read(path)) is not None:
            yield ActiveContent(path, _fingerprint(code), (f"program that {file.name} starts, {len(code)} bytes",))


def _words(tree: Any) -> Iterator[str]:
    """Return the words of all strings in a tree."""
    if isinstance(tree, str):
        try:
            yield from shlex.split(tree)
        except ValueError:
            yield from tree.split()
    elif isinstance(tree, dict):
        for value in cast("dict[str, Any]", tree).values():
            yield from _words(value)
    elif isinstance(tree, list):
        for value in cast("list[Any]", tree):
            yield from _words(value)


def _act(file: Path, lines: list[str]) -> ActiveContent:
    return ActiveContent(file, _fingerprint("\n".join(sorted(lines)).encode()), _escape_lines(sorted(lines)))


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError:
        return b"\0"  # unreadable now, but may be readable later


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _settings(file: Path, data: bytes) -> ActiveContent | None:
    """Return the settings that do more than report or restrict, as stored."""
    try:
        tree: Any = parse_jsonc(data.decode("utf-8-sig")).to_python()
    except (JsonError, UnicodeDecodeError):
        return ActiveContent(file, _fingerprint(data), ("invalid settings",))
    sections = cast("dict[str, Any]", tree) if isinstance(tree, dict) else {"settings": tree}
    lines: list[str] = []
    for name, section in sections.items():
        if name in _PASSIVE_SECTIONS:
            continue
        active_settings = (
            {k: v for k, v in cast("dict[str, Any]", section).items() if (name, k) not in _RESTRICTING_KEYS}
            if isinstance(section, dict)
            else section
        )
        if active_settings not in ({}, None):
            lines.append(f"{name}: {msgspec.json.encode(active_settings).decode()}")
    return _act(file, lines) if lines else None


def _servers(file: Path, data: bytes) -> ActiveContent:
    try:
        tree: Any = parse_jsonc(data.decode("utf-8-sig")).to_python()
    except (JsonError, UnicodeDecodeError):
        return ActiveContent(file, _fingerprint(data), ("invalid MCP servers",))
    config = cast("dict[str, Any]", tree) if isinstance(tree, dict) else {"servers": tree}
    found = config.get("mcpServers", config.get("servers", config))
    named = cast("dict[str, Any]", found) if isinstance(found, dict) else {"of a list": found}
    lines = (f"server {name}: {msgspec.json.encode(entry).decode()}" for name, entry in named.items())
    return ActiveContent(file, _fingerprint(data), _escape_lines(lines))


def _escape_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Escape invisible characters, so that the user sees everything before trusting it."""
    return tuple(map(escape_invisible, lines))
