"""``mainspring mcp``: list, add, remove, and test MCP servers, sign in to them, and read their logs."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring import mcp
from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.exit_codes import ERROR, OK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.mcp_servers import McpDiscovery, add_server, discover_mcp_servers, remove_server
from mainspring.app.workspace.settings import Settings
from mainspring.errors import ConfigError, MainspringError
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.login import logout_mcp
from mainspring.mcp.oauth import logins_path
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer
from mainspring.mcp.server_log import ServerLog, server_log_path
from mainspring.mcp.tool_search import ServerTokenCost, estimate_cost, estimate_search_cost
from mainspring.mcp.types import McpError
from mainspring.messages import ToolDefinition
from mainspring.models.codec.tool_schema import simplify_tool_schema
from mainspring.policies.disclosure import MAX_SCHEMA_TOKENS
from mainspring.redaction import redact_environment, redact_value
from mainspring.text import pluralize

McpServerState = Literal["ready", "failed", "login", "disabled", "not connected"]


class McpToolView(Struct, frozen=True, kw_only=True):
    """A tool of a server.

    Attributes:
        name: Name of the tool for the agent.
        own_name: Name of the tool on the server.
        description: Description.
        tokens: Approximate tokens in a request.
        input_schema: JSON Schema of the arguments, as returned by the server.
    """

    name: str
    own_name: str
    description: str
    tokens: int
    input_schema: dict[str, Any]


class ServerStatus(Struct, frozen=True, kw_only=True):
    """The status of a server.

    Attributes:
        name: Name.
        target: Command line or URL, without secrets.
        place: File that configures the server.
        disclosure: Whether the model receives the tools immediately or finds them by search.
        state: State of the connection.
        error: Reason why the server is not ready.
        seconds: Seconds that connecting took.
        about: Name, version, and protocol, as reported by the server.
        offers: Other features of the server: resources, prompts, and so on.
        cost: Token usage of its tools.
        tools: Tools.
    """

    name: str
    target: str
    place: str
    disclosure: Literal["eager", "lazy", "auto"]
    state: McpServerState
    error: str = ""
    seconds: float = 0.0
    about: str = ""
    offers: tuple[str, ...] = ()
    cost: ServerTokenCost = ServerTokenCost()
    tools: tuple[McpToolView, ...] = ()


class ServerOverview(Struct, frozen=True, kw_only=True):
    """The status of all servers.

    Attributes:
        servers: Servers, by name.
        search: Tokens of the search tool, if any server is lazy.
        auto: The effect of ``auto`` on these servers, without the window of a model.
        notices: Notices for the user: invalid entries and untrusted folders.
    """

    servers: tuple[ServerStatus, ...]
    search: int
    auto: Literal["eager", "lazy"] = "eager"
    notices: tuple[str, ...] = ()


async def inspect_servers(
    place: WorkspaceOptions, names: Sequence[str] = (), *, connect: bool = True, environ: Mapping[str, str] = os.environ
) -> ServerOverview:
    """Connect to all configured servers in parallel, and return their status.

    Args:
        place: Workspace options.
        names: Names of the servers (default: all).
        connect: Whether to connect; otherwise, tools are not listed.
        environ: Environment variables.

    Raises:
        ConfigError: If the settings are invalid, or a server is unknown.
    """
    cwd, settings, found = await asyncio.to_thread(_discover, place, environ)
    requested = [_get_server(found, name) for name in names] if names else sorted(found.servers, key=lambda s: s.name)
    default = settings.config.mcp.disclosure
    keys = mcp.server_prefixes([s.name for s in found.servers])
    home = settings.home.root if settings.home else None
    connector = SdkConnector(environ, logins_path(home) if home else None)
    tasks = [
        McpServer(
            config,
            keys[config.name],
            connector,
            roots=lambda: (cwd,),
            environ=environ,
            log=ServerLog(server_log_path(home, config.name) if home else None),
        )
        for config in requested
    ]
    views = await asyncio.gather(*[_view(server, default, connect) for server in tasks])
    given = settings.config.mcp.schema_budget
    is_over = sum(v.cost.eager for v in views if v.disclosure != "lazy") > (
        MAX_SCHEMA_TOKENS if given is None else given
    )
    lazy = any(v.disclosure == "lazy" or (is_over and v.disclosure == "auto") for v in views)
    return ServerOverview(
        servers=tuple(views),
        search=estimate_search_cost() if lazy else 0,
        auto="lazy" if is_over else "eager",
        notices=found.notices,
    )


async def _log_in(name: str, place: WorkspaceOptions, show: Callable[[str], None], *, browser: bool = True) -> str:
    """Sign in to a server, and return a message.

    Raises:
        ConfigError: If the server is unknown, or is a program.
        McpFailure: If the sign-in failed.
    """
    _, settings, found = await asyncio.to_thread(_discover, place, os.environ)
    config = _get_server(found, name)
    if await mcp.login_mcp(config, _login_file(settings), show=show, environ=os.environ, browser=browser):
        return f"Signed in to {name}"
    return f"{name} does not require sign-in"


async def _log_out(name: str, place: WorkspaceOptions) -> str:
    """Sign out of a server, and return a message.

    Raises:
        ConfigError: If the server is unknown.
    """
    _, settings, found = await asyncio.to_thread(_discover, place, os.environ)
    known = await logout_mcp(_get_server(found, name), _login_file(settings))
    return f"Signed out of {name}" if known else f"Not signed in to {name}"


def read_log(name: str, place: WorkspaceOptions, *, lines: int) -> tuple[Path, list[str]]:
    """Return the log file of a server and its last lines. Blocks.

    Raises:
        ConfigError: If the server is unknown, or the home directory is not found.
    """
    _, settings, found = _discover(place, os.environ)
    _get_server(found, name)
    if settings.home is None:
        raise ConfigError("Server logs are not stored, because your home directory was not found. Set MAINSPRING_HOME.")
    file = server_log_path(settings.home.root, name)
    last: deque[str] = deque(maxlen=lines)
    for part in (file.with_name(f"{file.name}.1"), file):
        with suppress(FileNotFoundError), part.open(encoding="utf-8", errors="replace") as stream:
            last.extend(line.rstrip("\n") for line in stream)
    return file, list(last)


def _discover(place: WorkspaceOptions, environ: Mapping[str, str]) -> tuple[str, Settings, McpDiscovery]:
    cwd, settings = load_rules(place, environ=environ)[:2]
    return cwd, settings, discover_mcp_servers(cwd, settings)


def _get_server(discovery: McpDiscovery, name: str) -> McpServerConfig:
    for server in discovery.servers:
        if server.name == name:
            return server
    known = (
        ", ".join(sorted(s.name for s in discovery.servers)) or "none. Add one with: mainspring mcp add NAME -- COMMAND"
    )
    raise ConfigError("\n".join([f"Unknown MCP server: {name!r}. Available servers: {known}", *discovery.notices]))


def _login_file(settings: Settings) -> Path:
    if settings.home is None:
        raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
    return logins_path(settings.home.root)


async def _view(server: McpServer, default: Literal["eager", "lazy", "auto"], connect: bool) -> ServerStatus:
    config = server.config
    known: dict[str, Any] = {
        "name": config.name,
        "target": describe_target(config),
        "place": config.place,
        "disclosure": config.disclosure or default,
    }
    if not config.enabled:
        return ServerStatus(**known, state="disabled")
    if not connect:
        return ServerStatus(**known, state="not connected")
    try:
        await server.connection()
        specs = [ToolDefinition(t.name, t.description, simplify_tool_schema(t.input_schema)) for t in server.tools]
        return ServerStatus(
            **known,
            state="ready",
            seconds=round(server.seconds, 3),
            about=" ".join(filter(None, (server.info.name, server.info.version, server.info.protocol))),
            offers=tuple(sorted(server.info.capabilities)),
            cost=estimate_cost(specs),
            tools=tuple(_tool_views(server, specs)),
        )
    except MainspringError as error:
        login = isinstance(error, McpError) and error.reason == "login"
        return ServerStatus(**known, state="login" if login else "failed", error=str(error))
    finally:
        await server.aclose()


def _tool_views(server: McpServer, specs: Sequence[ToolDefinition]) -> Iterator[McpToolView]:
    for info, spec in zip(server.tool_infos, specs, strict=True):
        yield McpToolView(
            name=spec.name,
            own_name=info.name,
            description=spec.description,
            tokens=estimate_cost([spec]).eager,
            input_schema=info.input_schema,
        )


def describe_target(config: McpServerConfig) -> str:
    """Format the command line or URL of a server, without secrets."""
    return redact_environment(config.url) or " ".join(redact_value([config.command, *config.args]))


_MARKS = {
    "ready": "ready  ",
    "failed": "failed ",
    "login": "login  ",
    "disabled": "off    ",
    "not connected": "       ",
}
_ACTIONS_WITH_NAME = ("add", "remove", "test", "login", "logout", "logs")


def run(options: argparse.Namespace) -> int:
    """Run an action, and return the exit code.

    Raises:
        UsageError: If the name, or the server to add, is missing.
    """
    if options.action in _ACTIONS_WITH_NAME and not options.name:
        raise UsageError(
            f"mcp {options.action} requires the NAME of a server, for example: mainspring mcp {options.action} docs"
        )
    if options.action == "add":
        options.entry = _entry(options)
    work: dict[str, Callable[[argparse.Namespace, Console], int]] = {
        "list": _list,
        "add": _add,
        "remove": _remove,
        "test": _test,
        "tools": _print_tools,
        "login": _login,
        "logout": _logout,
        "logs": _logs,
    }
    return run_command(options, lambda console: work[options.action](options, console))


# --- inspect --------------------------------------------------------------------------------------------------------


def _inspect(options: argparse.Namespace, console: Console, *, connect: bool = True) -> ServerOverview:
    names = [options.name] if options.name else []
    found = asyncio.run(inspect_servers(workspace_options(options), names, connect=connect))
    for notice in found.notices:
        console.info(notice)
    return found


def _list(options: argparse.Namespace, console: Console) -> int:
    found = _inspect(options, console, connect=not options.no_connect)
    if options.json:
        console.write_json(found)
        return OK
    width = max((len(s.name) for s in found.servers), default=0)
    for server in found.servers:
        console.row(f"{_MARKS[server.state]}  {server.name:{width}}  {_describe(server)}")
    if not found.servers:
        console.info(
            "No MCP servers yet. Add one with: mainspring mcp add NAME -- COMMAND, or: mainspring mcp add NAME URL"
        )
    for line in _total_cost(found):
        console.info(line)
    return OK


def _describe(server: ServerStatus) -> str:
    if server.state == "ready":
        cost = server.cost
        summary = f"{pluralize(cost.tools, 'tool')}, about {cost.eager} tokens in each request ({cost.lazy} if lazy); {server.disclosure}"
        return one_line(f"{summary} ({server.target})", 300)
    return one_line(f"{server.error} ({server.target})".strip(), 400)


def _total_cost(overview: ServerOverview) -> Iterator[str]:
    """Format the token usage of all servers as configured."""
    ready = [s for s in overview.servers if s.state == "ready"]
    if ready:
        modes = [overview.auto if s.disclosure == "auto" else s.disclosure for s in ready]
        costs = [s.cost.eager if mode == "eager" else s.cost.lazy for s, mode in zip(ready, modes, strict=True)]
        now = sum(costs) + overview.search
        eager = sum(s.cost.eager for s in ready)
        yield f"Total: about {now} tokens in each request" + (
            f" ({eager} if all servers were eager)" if overview.search else ""
        )


def _test(options: argparse.Namespace, console: Console) -> int:
    found = _inspect(options, console)
    [server] = found.servers
    if options.json:
        console.write_json(server)
    elif server.state == "ready":
        console.row(f"{server.name} is ready after {server.seconds:.2f}s: {one_line(server.about, 200)}")
        console.row(f"Features: {', '.join(server.offers) or 'none'}")
        console.row(_describe(server))
    else:
        console.fail(_not_ready_message(server))
    return OK if server.state == "ready" else ERROR


def _not_ready_message(server: ServerStatus) -> str:
    return server.error or f"MCP server {server.name!r} is disabled in {server.place or 'its configuration'}"


def _print_tools(options: argparse.Namespace, console: Console) -> int:
    found = _inspect(options, console)
    if options.json:
        tools = [{"server": s.name, **msgspec.to_builtins(t)} for s in found.servers for t in s.tools]
        console.write_json(tools)
    for server in found.servers:
        if server.state != "ready":
            console.fail(_not_ready_message(server))
        for tool in server.tools if not options.json else ():
            console.row(f"{tool.name}  {tool.tokens} tokens  {one_line(tool.description, 100)}")
    return ERROR if options.name and any(s.state != "ready" for s in found.servers) else OK


def _logs(options: argparse.Namespace, console: Console) -> int:
    file, lines = read_log(options.name, workspace_options(options), lines=options.lines)
    console.write_list({"file": str(file), "lines": lines}, lines, as_json=options.json)
    if not options.json:
        console.info(f"{file}" if lines else f"No log output yet in {file}")
    return OK


# --- change ---------------------------------------------------------------------------------------------------------


def _entry(options: argparse.Namespace) -> dict[str, object]:
    """Create the configuration entry of a server to add."""
    words = [*filter(None, [options.target]), *options.command]
    if not words:
        raise UsageError(
            "mcp add requires a command after --, or a URL, for example: mainspring mcp add docs -- npx -y docs-server"
        )
    entry: dict[str, object] = {}
    if words[0].startswith(("http://", "https://")):
        if len(words) > 1:
            raise UsageError(f"A server with a URL takes no arguments: {' '.join(words[1:])!r}")
        entry["url"] = words[0]
    elif "://" in words[0]:
        scheme = words[0].partition(":")[0]
        raise UsageError(f"MCP servers use http:// or https://, not {scheme}://: {words[0]!r}")
    else:
        entry |= {"command": words[0], "args": words[1:]}
    if options.transport:
        entry["transport"] = options.transport
    if options.env:
        entry["env"] = dict(_parse_pair(text, "=", "--env NAME=VALUE") for text in options.env)
    if options.header:
        entry["headers"] = dict(_parse_pair(text, ":", "--header 'NAME: VALUE'") for text in options.header)
    if options.disclosure:
        entry["disclosure"] = options.disclosure
    return entry


def _add(options: argparse.Namespace, console: Console) -> int:
    place = workspace_options(options)
    console.info(add_server(options.name, options.entry, place, project=options.project, force=options.force))
    program = options.entry.get("command")
    if program and "$" not in program and shutil.which(program) is None:
        console.info(
            f"Note: Program {program!r} was not found. If it is not a program, remove the server with: "
            f"mainspring mcp remove {shlex.quote(options.name)}"
        )
    return OK


def _parse_pair(text: str, mark: str, usage: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise UsageError(f"Invalid value {text!r}. Use {usage}.")
    return name.strip(), value.strip() if mark == ":" else value


def _remove(options: argparse.Namespace, console: Console) -> int:
    console.info(remove_server(options.name, workspace_options(options), project=options.project))
    return OK


def _login(options: argparse.Namespace, console: Console) -> int:
    def show(url: str) -> None:
        console.info(f"If no browser opens, sign in at:\n{url}")

    console.info(asyncio.run(_log_in(options.name, workspace_options(options), show, browser=not options.no_browser)))
    return OK


def _logout(options: argparse.Namespace, console: Console) -> int:
    console.info(asyncio.run(_log_out(options.name, workspace_options(options))))
    return OK
