"""Adding servers to ``mcp.json`` and taking them out: only that entry changes, comments and all else stay."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mainspring import mcp
from mainspring.app.run.options import Place
from mainspring.app.workspace.load import load
from mainspring.app.workspace.mcp_servers import FILE, find_servers
from mainspring.app.workspace.paths import FOLDER, project_root
from mainspring.app.workspace.settings.jsonc import JsonError, Node, edit, parse
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.folder_lock import FolderLockedError, locked_folder
from mainspring.state_files import replace_text, target_in_project

_WRAPPERS = ("mcpServers", "servers", "mcp_servers")
_EMPTY = '{\n  "mcpServers": {\n  }\n}\n'
_ENTRY = ("command", "url", "transport", "type")


def add_server(
    name: str,
    entry: Mapping[str, Any],
    place: Place,
    *,
    project: bool = False,
    force: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Put a server into the user's ``mcp.json``, or the project's. Blocks.

    Args:
        name: Its name.
        entry: Its settings, as in the file.
        place: Where the command works.
        project: Into the project's file.
        force: Whether one of this name may be replaced.
        environ: Variables.

    Returns:
        What was done, and what is left to do.

    Raises:
        ConfigError: If the entry is none, the name is taken, or the file is broken or cannot be written.
    """
    problems = mcp.parse_mcp_config([{"name": name, **entry}]).problems
    if problems:
        raise ConfigError("\n".join(problems))
    file, home = _file(place, project, environ)

    def change(text: str) -> str:
        path, known = _path(parse(text), name, file)
        if known and not force:
            raise ConfigError(f"{file} has an MCP server {name!r} already; --force replaces it")
        return edit(text, path, msgspec.json.encode(entry).decode())

    with TrustStore(home).keeping(file.parent if project else None):
        _rewrite(file, change, private=not project)
    told = f"added {name} to {file}"
    if project and not TrustStore(home).covers(file.parent):
        told += f"\nit is started once you trust the folder: mainspring trust {file.parent.parent}"
    return told


def remove_server(name: str, place: Place, *, project: bool = False, environ: Mapping[str, str] = os.environ) -> str:
    """Take a server out of the user's ``mcp.json``, or the project's; what was done. Blocks.

    Raises:
        ConfigError: If it is not there, or the file is broken or cannot be written.
    """
    file, home = _file(place, project, environ)

    def change(text: str) -> str:
        path, known = _path(parse(text), name, file)
        if not known:
            raise ConfigError(f"{file} has no MCP server {name!r}; {_elsewhere(name, place, project, environ)}")
        return edit(text, path, None)

    with TrustStore(home).keeping(file.parent if project else None):
        _rewrite(file, change, private=not project)
    return f"removed {name} from {file}"


def _elsewhere(name: str, place: Place, project: bool, environ: Mapping[str, str]) -> str:
    """Where an entry that is to be taken out stands instead, and what to do about it."""
    cwd, settings = load(place, {}, environ)[:2]
    found = next((s for s in find_servers(cwd, settings).servers if s.name == name), None)
    if found is not None:
        file, other = _file(place, not project, environ)[0], "leave out --project" if project else "add --project"
        return f"it is in {found.place}: {other if found.place == str(file) else 'take it out there'}"
    return "for the project's file add --project" if not project else "for your own file leave out --project"


def _file(place: Place, project: bool, environ: Mapping[str, str]) -> tuple[Path, Any]:
    cwd, settings = load(place, {}, environ)[:2]
    if project:
        return (project_root(cwd, FILE, settings.home) or Path(cwd)) / FOLDER / FILE, settings.home
    if settings.home is None:
        raise ConfigError("there is no home folder for this; set MAINSPRING_HOME to one, or add --project")
    return settings.home.root / FILE, settings.home


def _path(root: Node, name: str, file: Path) -> tuple[tuple[str, ...], bool]:
    """Where the entry stands or is to stand, and whether it is there."""
    if root.members is None:
        raise ConfigError(f"{file}: is no object, so it cannot be changed from here; edit it by hand")
    for wrapper in _WRAPPERS:
        inner = root.members.get(wrapper)
        if inner is not None and inner.members is None:
            raise ConfigError(f"{file}: {wrapper} is no object, so it cannot be changed from here; edit it by hand")
        if inner is not None and inner.members is not None:
            return (wrapper, name), name in inner.members
    if any(m.members is not None and any(k in m.members for k in _ENTRY) for m in root.members.values()):
        return (name,), name in root.members  # a plain map of servers
    return (_WRAPPERS[0], name), False


def _rewrite(file: Path, change: Any, *, private: bool) -> None:
    try:
        target = Path(os.path.realpath(file)) if private else target_in_project(file, file.parent.parent)
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with locked_folder(target.parent):
            text = target.read_text(encoding="utf-8-sig") if target.exists() else ""
            replace_text(target, change(text if text.strip() else _EMPTY), private=private)
    except JsonError as error:
        raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason}; nothing was changed") from None
    except FolderLockedError as error:
        raise ConfigError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be changed: {getattr(error, 'strerror', None) or error}") from error
