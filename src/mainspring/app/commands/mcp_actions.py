"""MCP servers: which there are and what they cost; add and remove, try, log in, read what they said."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from mainspring import mcp
from mainspring.app.run.options import Place
from mainspring.app.workspace.load import load
from mainspring.app.workspace.mcp_servers import FoundServers, find_servers
from mainspring.app.workspace.settings import Settings
from mainspring.errors import ConfigError, MainspringError
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.costs import ServerCost, cost_of, search_cost
from mainspring.mcp.login import logout_mcp
from mainspring.mcp.oauth import logins_folder
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer
from mainspring.mcp.server_log import ServerLog, log_file
from mainspring.mcp.types import McpFailure
from mainspring.messages import ToolSpec
from mainspring.models.codec.tool_schema import lowered
from mainspring.redaction import redact, redact_value

State = Literal["ready", "failed", "login", "disabled", "not tried"]


class ToolView(Struct, frozen=True, kw_only=True):
    """A tool of a server.

    Attributes:
        name: The name under which an agent has it.
        own_name: The server's name for it.
        description: What it does.
        tokens: What it costs in a request, about.
        input_schema: Its schema, as the server gives it.
    """

    name: str
    own_name: str
    description: str
    tokens: int
    input_schema: dict[str, Any]


class ServerView(Struct, frozen=True, kw_only=True):
    """A server.

    Attributes:
        name: Its name.
        target: Its command line or address, without secrets.
        place: Where it is configured.
        disclosure: Whether the model gets its tools at once or finds them by search.
        state: How it stands.
        error: Why it is not ready.
        seconds: How long connecting took.
        about: What it says of itself: name, version and protocol.
        offers: What else it has: resources, prompts and so on.
        cost: What its tools cost.
        tools: Its tools.
    """

    name: str
    target: str
    place: str
    disclosure: Literal["eager", "lazy"]
    state: State
    error: str = ""
    seconds: float = 0.0
    about: str = ""
    offers: tuple[str, ...] = ()
    cost: ServerCost = ServerCost()
    tools: tuple[ToolView, ...] = ()


class Servers(Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        servers: The servers, by name.
        search: What the search tool costs, where any of them is lazy.
        notices: What people should know: broken entries, folders that are not trusted.
    """

    servers: tuple[ServerView, ...]
    search: int
    notices: tuple[str, ...] = ()


async def look_at_servers(
    place: Place, names: Sequence[str] = (), *, connect: bool = True, environ: Mapping[str, str] = os.environ
) -> Servers:
    """The servers that are configured here, each connected to for a moment, all at once.

    Args:
        place: Where the command works.
        names: Only these; all if left out.
        connect: Whether to connect; without it nothing is known of their tools.
        environ: Variables.

    Raises:
        ConfigError: If the settings are broken, or there is no server of a name.
    """
    cwd, settings, found = await asyncio.to_thread(_found, place, environ)
    wanted = [_of_name(found, name) for name in names] if names else sorted(found.servers, key=lambda s: s.name)
    default = settings.config.mcp.disclosure
    keys = mcp.server_keys([s.name for s in found.servers])
    home = settings.home.root if settings.home else None
    connector = SdkConnector(environ, logins_folder(home) if home else None)
    made = [
        McpServer(
            config,
            keys[config.name],
            connector,
            roots=lambda: (cwd,),
            environ=environ,
            log=ServerLog(log_file(home, config.name) if home else None),
        )
        for config in wanted
    ]
    views = await asyncio.gather(*[_view(server, default, connect) for server in made])
    lazy = any(v.disclosure == "lazy" for v in views)
    return Servers(servers=tuple(views), search=search_cost() if lazy else 0, notices=found.notices)


async def log_in(
    name: str,
    place: Place,
    show: Callable[[str], None],
    *,
    browser: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Log in at a server; what was done.

    Raises:
        ConfigError: If there is no such server, or it is a program.
        McpFailure: If nobody logged in.
    """
    _, settings, found = await asyncio.to_thread(_found, place, environ)
    config = _of_name(found, name)
    if await mcp.login_mcp(config, _logins(settings), show=show, environ=environ, browser=browser):
        return f"logged in at {name}"
    return f"{name} wants no login"


async def log_out(name: str, place: Place, environ: Mapping[str, str] = os.environ) -> str:
    """Forget the login at a server; what was done.

    Raises:
        ConfigError: If there is no such server.
    """
    _, settings, found = await asyncio.to_thread(_found, place, environ)
    known = await logout_mcp(_of_name(found, name), _logins(settings))
    return f"the login at {name} is forgotten" if known else f"there is no login at {name}"


def read_log(name: str, place: Place, *, lines: int, environ: Mapping[str, str] = os.environ) -> tuple[Path, list[str]]:
    """The last lines that a server wrote beside the protocol, and the file that has them. Blocks.

    Raises:
        ConfigError: If there is no such server, or no home folder.
    """
    _, settings, found = _found(place, environ)
    _of_name(found, name)
    if settings.home is None:
        raise ConfigError("there is no home folder, so nothing is kept of what servers write")
    file = log_file(settings.home.root, name)
    last: deque[str] = deque(maxlen=lines)
    for part in (file.with_name(f"{file.name}.1"), file):
        with suppress(FileNotFoundError), part.open(encoding="utf-8", errors="replace") as stream:
            last.extend(line.rstrip("\n") for line in stream)
    return file, list(last)


def _found(place: Place, environ: Mapping[str, str]) -> tuple[str, Settings, FoundServers]:
    cwd, settings = load(place, {}, environ)[:2]
    return cwd, settings, find_servers(cwd, settings)


def _of_name(found: FoundServers, name: str) -> McpServerConfig:
    for server in found.servers:
        if server.name == name:
            return server
    known = ", ".join(sorted(s.name for s in found.servers)) or "none; add one: mainspring mcp add NAME -- COMMAND"
    raise ConfigError("\n".join([f"there is no MCP server {name!r}; there are {known}", *found.notices]))


def _logins(settings: Settings) -> Path:
    if settings.home is None:
        raise ConfigError("there is no home folder to keep logins in; set MAINSPRING_HOME to one")
    return logins_folder(settings.home.root)


async def _view(server: McpServer, default: Literal["eager", "lazy"], connect: bool) -> ServerView:
    config = server.config
    known: dict[str, Any] = {
        "name": config.name,
        "target": target_of(config),
        "place": config.place,
        "disclosure": config.disclosure or default,
    }
    if not config.enabled:
        return ServerView(**known, state="disabled")
    if not connect:
        return ServerView(**known, state="not tried")
    try:
        await server.connection()
        specs = [ToolSpec(t.name, t.description, lowered(t.input_schema)) for t in server.tools]
        return ServerView(
            **known,
            state="ready",
            seconds=round(server.seconds, 3),
            about=" ".join(filter(None, (server.facts.name, server.facts.version, server.facts.protocol))),
            offers=tuple(sorted(server.facts.capabilities)),
            cost=cost_of(specs),
            tools=tuple(_tools(server, specs)),
        )
    except MainspringError as error:
        login = isinstance(error, McpFailure) and error.reason == "login"
        return ServerView(**known, state="login" if login else "failed", error=str(error))
    finally:
        await server.aclose()


def _tools(server: McpServer, specs: Sequence[ToolSpec]) -> Iterator[ToolView]:
    for info, spec in zip(server.infos, specs, strict=True):
        yield ToolView(
            name=spec.name,
            own_name=info.name,
            description=spec.description,
            tokens=cost_of([spec]).eager,
            input_schema=info.input_schema,
        )


def target_of(config: McpServerConfig) -> str:
    """The command line or address of a server, without secrets."""
    return redact(config.url) or " ".join(redact_value([config.command, *config.args]))
