"""The MCP servers of the command: find the configured ones, and add or remove entries of ``mcp.json``.

Editing changes only one entry; comments and everything else stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring import mcp
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.paths import PROJECT_FOLDER, UserPaths, find_project_root, find_repository
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.settings.jsonc import edit_jsonc
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.events import Notice
from mainspring.lenient_json import JsonError, JsonNode, parse_jsonc
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import read_regular_file, resolve_project_file, write_text_atomically

if TYPE_CHECKING:
    from mainspring.mcp import McpPlug, McpServerConfig


_FILE = "mcp.json"
"""File name in the user's and the project's agent folder."""
SHARED_FILE = ".mcp.json"
"""File name in the project folder, which other programs read, too."""
UNATTENDED_CONNECT_SECONDS = 10.0
"""Seconds that the only prompt of a run waits for servers, because it may fail without their tools."""
_MAX_BYTES = 1 << 20


class McpDiscovery(Struct, frozen=True):
    """The configured servers.

    Attributes:
        servers: Servers; of several with the same name, the one with the highest precedence.
        notices: Notices for the user: invalid files and entries, and untrusted folders.
    """

    servers: tuple[McpServerConfig, ...] = ()
    notices: tuple[str, ...] = ()


def discover_mcp_servers(cwd: str, settings: Settings, given: Any = None) -> McpDiscovery:
    """Find all servers that are configured for a folder. Those of the project require trust. Blocks.

    Precedence, from lowest to highest: the user's ``mcp.json``, the user's settings, the project's ``.mcp.json``, its
    ``.agent/mcp.json`` (without that file: its ``mcp.json``), its settings, and servers ``given`` by the front end.
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
                f"The MCP servers in {file} are not started, because the folder is not trusted. Run: mainspring trust {_root(file)}"
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
    """Create the plugin with the MCP servers of the agent; None without servers. Blocks.

    Args:
        cwd: Working folder.
        settings: Settings.
        report: Listener for notices.
        unattended: Whether the prompt is the only one, so that it waits longer for servers that are connecting.
        given: Additional servers, as decoded JSON.
        server_filter: Filter by the server part of tool names, for models that are too small for all servers.

    Raises:
        ConfigError: If all servers are required, and one cannot be started because of its configuration or a missing trust.
    """
    if not settings.config.mcp.enabled:
        return None
    found = discover_mcp_servers(cwd, settings, given)
    is_required = settings.config.mcp.required
    if is_required and found.notices:
        raise ConfigError("\n".join([*found.notices, "The run requires all MCP servers (--require-mcp)."]))
    for notice in found.notices:
        report(Notice(notice))
    if not found.servers:
        return None
    keys = mcp.server_prefixes([s.name for s in found.servers])
    servers = [s for s in found.servers if server_filter is None or server_filter(keys[s.name])]
    untrusted = [keys[s.name] for s in found.servers if s.enabled and s not in servers]
    if untrusted:
        allow = " or ".join(f"`mainspring permissions allow mcp__{key}`" for key in untrusted)
        report(Notice(f"MCP servers are disabled, because the model is small. Allow them with {allow}."))
    if not any(s.enabled for s in servers):
        return None
    given = settings.config.mcp.grace_seconds
    startup_wait = given if given is not None else UNATTENDED_CONNECT_SECONDS if unattended else None
    options: dict[str, Any] = {} if startup_wait is None else {"startup_wait": startup_wait}
    home = settings.home.root if settings.home else None
    if is_required:
        servers = [replace(s, required=True) for s in servers]
    return mcp.McpPlug(servers, home=home, **options)


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
    own = _find_own_project_file(folder, inside, home)
    return [*files, own] if own else files


def _find_own_project_file(folder: Path, top: Path, home: UserPaths | None) -> Path | None:
    """Return the closest ``.agent/mcp.json`` of a project, or else the closest plain ``mcp.json`` up to the top of the repository."""
    root = find_project_root(str(folder), _FILE, home)
    if root is not None:
        return root / PROJECT_FOLDER / _FILE
    plain = (p / _FILE for p in (folder, *folder.parents) if p.is_relative_to(top))
    user = os.path.realpath(home.root / _FILE) if home else None
    return next((file for file in plain if os.path.lexists(file) and os.path.realpath(file) != user), None)


def _root(file: Path) -> Path:
    return file.parent.parent if file.parent.name == PROJECT_FOLDER else file.parent


def _read(file: Path, sources: list[tuple[str, Any]], notices: list[str]) -> None:
    """Read a file of servers; an invalid file results in a notice, and does not affect others."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise OSError("larger than 1 MiB")
        text = read_regular_file(file).decode("utf-8-sig")
        sources.append((str(file), parse_jsonc(text).to_python() if text.strip() else None))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except JsonError as error:
        notices.append(f"{file}:{error.line}:{error.column}: {error.reason} Its MCP servers are ignored.")
    except UnicodeDecodeError:
        notices.append(f"{file} is not valid UTF-8. Its MCP servers are ignored.")
    except OSError as error:
        notices.append(f"Cannot read {file}: {error.strerror or error}. Its MCP servers are ignored.")


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
    """Add a server to the user's or the project's ``mcp.json``. Blocks.

    Args:
        name: Name of the server.
        entry: Configuration of the server, in the format of the file.
        place: Workspace options.
        project: Whether to use the project's file.
        force: Whether to replace a server with the same name.
        environ: Environment variables.

    Returns:
        A message about the change, and the next step.

    Raises:
        ConfigError: If the entry is invalid, the name is used, or the file is invalid or cannot be written.
    """
    problems = mcp.parse_mcp_config([{"name": name, **entry}]).problems
    if problems:
        raise ConfigError("\n".join(problems))
    file, home = _file(place, project, environ)

    def change(text: str) -> str:
        path, known = _entry_path(parse_jsonc(text), name, file)
        if known and not force:
            raise ConfigError(f"{file} already has an MCP server {name!r}. To replace it, use --force.")
        return edit_jsonc(text, path, msgspec.json.encode(entry).decode())

    with TrustStore(home).accept_own_changes(file.parent if project else None):
        _rewrite(file, change, private=not project)
    message = f"Added {name} to {file}"
    if project and not TrustStore(home).covers(file.parent):
        message += f"\nTo start it, trust the folder: mainspring trust {_root(file)}"
    return message


def remove_server(
    name: str, place: WorkspaceOptions, *, project: bool = False, environ: Mapping[str, str] = os.environ
) -> str:
    """Remove a server from the user's or the project's ``mcp.json``, and return a message. Blocks.

    Raises:
        ConfigError: If the server is unknown, or the file is invalid or cannot be written.
    """
    file, home = _file(place, project, environ)

    def change(text: str) -> str:
        path, known = _entry_path(parse_jsonc(text), name, file)
        if not known:
            raise ConfigError(f"{file} has no MCP server {name!r}. {_other_file_hint(name, place, project, environ)}")
        return edit_jsonc(text, path, None)

    with TrustStore(home).accept_own_changes(file.parent if project else None):
        _rewrite(file, change, private=not project)
    return f"Removed {name} from {file}"


def _other_file_hint(name: str, place: WorkspaceOptions, project: bool, environ: Mapping[str, str]) -> str:
    """Suggest how to remove an entry that is in another file."""
    cwd, settings = load_rules(place, environ=environ)[:2]
    found = next((s for s in discover_mcp_servers(cwd, settings).servers if s.name == name), None)
    if found is not None:
        file, other = _file(place, not project, environ)[0], "Omit --project." if project else "Add --project."
        return f"It is in {found.place}. {other if found.place == str(file) else 'Remove it there.'}"
    return "For the project's file, add --project." if not project else "For your own file, omit --project."


def _file(place: WorkspaceOptions, project: bool, environ: Mapping[str, str]) -> tuple[Path, Any]:
    cwd, settings = load_rules(place, environ=environ)[:2]
    if project:
        folder = Path(cwd)
        own = _find_own_project_file(folder, find_repository(folder) or folder, settings.home)
        return own or folder / PROJECT_FOLDER / _FILE, settings.home
    if settings.home is None:
        raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME, or add --project.")
    return settings.home.root / _FILE, settings.home


def _entry_path(root: JsonNode, name: str, file: Path) -> tuple[tuple[str, ...], bool]:
    """Return the path of an entry in the file, and whether it exists."""
    if root.members is None:
        raise ConfigError(f"{file} is not a JSON object. Edit it manually.")
    for wrapper in _SERVER_KEYS:
        inner = root.members.get(wrapper)
        if inner is not None and inner.members is None:
            raise ConfigError(f"{wrapper} in {file} is not a JSON object. Edit it manually.")
        if inner is not None and inner.members is not None:
            return (wrapper, name), name in inner.members
    if any(m.members is not None and any(k in m.members for k in _ENTRY) for m in root.members.values()):
        return (name,), name in root.members  # an object of servers without a wrapper
    return (_SERVER_KEYS[0], name), False


def _rewrite(file: Path, change: Any, *, private: bool) -> None:
    try:
        target = Path(os.path.realpath(file)) if private else resolve_project_file(file, _root(file))
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with lock_directory(target.parent):
            text = read_regular_file(target).decode("utf-8-sig") if target.exists() else ""
            write_text_atomically(target, change(text if text.strip() else _EMPTY), private=private)
    except JsonError as error:
        raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason} Your changes were not saved.") from None
    except LockTimeoutError as error:
        raise ConfigError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot change {file}: {getattr(error, 'strerror', None) or error}.") from error
