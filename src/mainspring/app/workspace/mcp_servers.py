"""The MCP servers of the command: where they are configured, and which of that counts.

Adding servers to ``mcp.json`` and taking them out: only that entry changes, comments and all else stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mainspring import mcp
from mainspring.app.run.events import Notice, RunEventHandler
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.paths import PROJECT_FOLDER, UserPaths, find_project_root, find_repository
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.settings.jsonc import JsonError, JsonNode, edit_jsonc, parse_jsonc
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import resolve_project_file, write_text_atomically

if TYPE_CHECKING:
    from mainspring.mcp import McpPlug, McpServerConfig


_FILE = "mcp.json"
"""In the user's and the project's folder."""
SHARED_FILE = ".mcp.json"
"""In the project itself, as other programs read it too."""
UNATTENDED_CONNECT_SECONDS = 10.0
"""How long a prompt waits for servers where it is the only one: without their tools it may be answered wrongly."""
_LARGEST = 1 << 20


class McpDiscovery(Struct, frozen=True):
    """What was found.

    Attributes:
        servers: The servers, of one name the one that counts.
        notices: What people should know: broken files and entries, what is not trusted.
    """

    servers: tuple[McpServerConfig, ...] = ()
    notices: tuple[str, ...] = ()


def discover_mcp_servers(cwd: str, settings: Settings, given: Any = None) -> McpDiscovery:
    """Every server that is configured for a folder. What a project brings counts only once the user trusts it. Blocks.

    From the weakest to the strongest: the user's ``mcp.json``, the user's settings, the project's ``.mcp.json``, its
    ``.agent/mcp.json``, its settings; at last what the front end was ``given``.
    """
    sources: list[tuple[str, Any]] = []
    notices: list[str] = []
    home = settings.home
    if home is not None:
        _read(home.root / _FILE, sources, notices)
    user = str(home.settings) if home else ""
    sources += [(place, data) for place, data in settings.mcp_servers if place == user]
    for file in _project_files(cwd, home):
        if TrustStore(home).covers(file.parent):
            _read(file, sources, notices)
        else:
            notices.append(
                f"{file}: its MCP servers are not started until you trust the folder: mainspring trust {_root(file)}"
            )
    sources += [(place, data) for place, data in settings.mcp_servers if place != user]
    if given:
        sources.append(("the front end", given))
    if not sources:
        return McpDiscovery(notices=tuple(notices))
    found = mcp.merge_configs(*[mcp.parse_mcp_config(data, place=place) for place, data in sources])
    return McpDiscovery(found.servers, (*notices, *found.problems, *found.warnings))


def build_mcp_plug(
    cwd: str,
    settings: Settings,
    report: RunEventHandler,
    unattended: bool = False,
    given: Any = None,
    server_filter: Callable[[str], bool] | None = None,
) -> McpPlug | None:
    """The servers of the command's agent; ``None`` where there are none. Blocks.

    Args:
        cwd: The folder.
        settings: The settings.
        report: Is told what people should know.
        unattended: Whether nobody is there to ask again: then the prompt waits longer for servers that are still on their way.
        given: Further servers, as decoded JSON.
        server_filter: Says by the part of its tools' names that stands for a server whether it is offered, where the model is too
            small for all of them.
    """
    if not settings.config.mcp.enabled:
        return None
    found = discover_mcp_servers(cwd, settings, given)
    for notice in found.notices:
        report(Notice(notice))
    keys = mcp.server_prefixes([s.name for s in found.servers])
    servers = [s for s in found.servers if server_filter is None or server_filter(keys[s.name])]
    left = [keys[s.name] for s in found.servers if s.enabled and s not in servers]
    if left:
        allow = " ".join(f"--allow mcp__{key}" for key in left)
        report(Notice(f"a model this small is offered no MCP servers; to offer them all the same: {allow}"))
    if not any(s.enabled for s in servers):
        return None
    given = settings.config.mcp.grace_seconds
    grace = given if given is not None else UNATTENDED_CONNECT_SECONDS if unattended else None
    options: dict[str, Any] = {} if grace is None else {"grace": grace}
    home = settings.home.root if settings.home else None
    plug = mcp.McpPlug(servers, home=home, **options)
    plug.on_notice = lambda text: report(Notice(text))
    return plug


def _project_files(cwd: str, home: UserPaths | None) -> list[Path]:
    files: list[Path] = []
    folder = Path(cwd)
    inside = find_repository(folder) or folder
    for place in (folder, *folder.parents):
        if os.path.lexists(place / SHARED_FILE):
            files.append(place / SHARED_FILE)
            break
        if place == inside:
            break
    root = find_project_root(cwd, _FILE, home)
    return [*files, root / PROJECT_FOLDER / _FILE] if root else files


def _root(file: Path) -> Path:
    return file.parent.parent if file.parent.name == PROJECT_FOLDER else file.parent


def _read(file: Path, sources: list[tuple[str, Any]], notices: list[str]) -> None:
    """Read a file of servers; a broken one is told of and harms no other."""
    try:
        if file.stat().st_size > _LARGEST:
            raise OSError("is larger than 1 MiB, which no such file should be")
        text = file.read_text("utf-8-sig")
        sources.append((str(file), parse_jsonc(text).to_python() if text.strip() else None))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except JsonError as error:
        notices.append(f"{file}:{error.line}:{error.column}: {error.reason}; its MCP servers are left out")
    except UnicodeDecodeError:
        notices.append(f"{file}: is not UTF-8; its MCP servers are left out")
    except OSError as error:
        notices.append(f"{file}: cannot be read: {error.strerror or error}; its MCP servers are left out")


_SERVER_KEYS = ("mcpServers", "servers", "mcp_servers")
_EMPTY = '{\n  "mcpServers": {\n  }\n}\n'
_ENTRY = ("command", "url", "transport", "type")


def add_server(
    name: str,
    entry: Mapping[str, Any],
    place: WorkspaceOptions,
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
        path, known = _entry_path(parse_jsonc(text), name, file)
        if known and not force:
            raise ConfigError(f"{file} has an MCP server {name!r} already; --force replaces it")
        return edit_jsonc(text, path, msgspec.json.encode(entry).decode())

    with TrustStore(home).accept_own_changes(file.parent if project else None):
        _rewrite(file, change, private=not project)
    told = f"added {name} to {file}"
    if project and not TrustStore(home).covers(file.parent):
        told += f"\nit is started once you trust the folder: mainspring trust {file.parent.parent}"
    return told


def remove_server(
    name: str, place: WorkspaceOptions, *, project: bool = False, environ: Mapping[str, str] = os.environ
) -> str:
    """Take a server out of the user's ``mcp.json``, or the project's; what was done. Blocks.

    Raises:
        ConfigError: If it is not there, or the file is broken or cannot be written.
    """
    file, home = _file(place, project, environ)

    def change(text: str) -> str:
        path, known = _entry_path(parse_jsonc(text), name, file)
        if not known:
            raise ConfigError(f"{file} has no MCP server {name!r}; {_other_file_hint(name, place, project, environ)}")
        return edit_jsonc(text, path, None)

    with TrustStore(home).accept_own_changes(file.parent if project else None):
        _rewrite(file, change, private=not project)
    return f"removed {name} from {file}"


def _other_file_hint(name: str, place: WorkspaceOptions, project: bool, environ: Mapping[str, str]) -> str:
    """Where an entry that is to be taken out stands instead, and what to do about it."""
    cwd, settings = load_rules(place, {}, environ)[:2]
    found = next((s for s in discover_mcp_servers(cwd, settings).servers if s.name == name), None)
    if found is not None:
        file, other = _file(place, not project, environ)[0], "leave out --project" if project else "add --project"
        return f"it is in {found.place}: {other if found.place == str(file) else 'take it out there'}"
    return "for the project's file add --project" if not project else "for your own file leave out --project"


def _file(place: WorkspaceOptions, project: bool, environ: Mapping[str, str]) -> tuple[Path, Any]:
    cwd, settings = load_rules(place, {}, environ)[:2]
    if project:
        return (find_project_root(cwd, _FILE, settings.home) or Path(cwd)) / PROJECT_FOLDER / _FILE, settings.home
    if settings.home is None:
        raise ConfigError("there is no home folder for this; set MAINSPRING_HOME to one, or add --project")
    return settings.home.root / _FILE, settings.home


def _entry_path(root: JsonNode, name: str, file: Path) -> tuple[tuple[str, ...], bool]:
    """Where the entry stands or is to stand, and whether it is there."""
    if root.members is None:
        raise ConfigError(f"{file}: is no object, so it cannot be changed from here; edit it by hand")
    for wrapper in _SERVER_KEYS:
        inner = root.members.get(wrapper)
        if inner is not None and inner.members is None:
            raise ConfigError(f"{file}: {wrapper} is no object, so it cannot be changed from here; edit it by hand")
        if inner is not None and inner.members is not None:
            return (wrapper, name), name in inner.members
    if any(m.members is not None and any(k in m.members for k in _ENTRY) for m in root.members.values()):
        return (name,), name in root.members  # a plain map of servers
    return (_SERVER_KEYS[0], name), False


def _rewrite(file: Path, change: Any, *, private: bool) -> None:
    try:
        target = Path(os.path.realpath(file)) if private else resolve_project_file(file, file.parent.parent)
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with lock_directory(target.parent):
            text = target.read_text(encoding="utf-8-sig") if target.exists() else ""
            write_text_atomically(target, change(text if text.strip() else _EMPTY), private=private)
    except JsonError as error:
        raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason}; nothing was changed") from None
    except LockTimeoutError as error:
        raise ConfigError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be changed: {getattr(error, 'strerror', None) or error}") from error
