"""How servers are configured: one entry, and the files that hold many. Entries are checked one by one, so that a broken one
harms no other.

``${VAR}`` and ``${VAR:-default}`` in a server's configuration.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.redaction import redacted_repr

McpTransport = Literal["stdio", "http", "sse"]
DisclosureMode = Literal["eager", "lazy"]


DEFAULT_CALL_TIMEOUT = 120.0
"""How long a call may take without a sign of life, where nobody says otherwise."""
DEFAULT_CONNECT_TIMEOUT = 30.0
"""The same for a connection."""
_MAX_TIMEOUT = 86_400.0


class McpServerConfig(Struct, frozen=True, kw_only=True):
    """One server.

    Texts may hold ``${VAR}`` and ``${VAR:-default}``; they are put in when the server is connected, so that a configuration can
    be shown without its secrets.

    Attributes:
        name: Its name, any text.
        transport: ``stdio`` (a program), ``http`` (streamable HTTP) or ``sse`` (the older HTTP).
        command: The program of a ``stdio`` server.
        args: Its arguments.
        env: Its variables, beside a base set (``PATH``, ``HOME``, ...); nothing else of our environment reaches it.
        cwd: Where it runs; the current folder if not set.
        url: Where a server of ``http`` or ``sse`` is.
        headers: Further headers of each request.
        disclosure: Whether the model is told of its tools at once or finds them by search; ``None`` is the agent's default.
        enabled: Whether it is used.
        timeout: Seconds that a call may take without a sign of life.
        connect_timeout: Seconds until the connection must stand and its tools be known.
        include: The only tools that are offered, by their own names, ``*`` standing for any characters; empty is all.
        exclude: Tools that are not offered.
        mode: ``auto``; ``legacy`` for a server that fails on the newer protocol; or a version of it, as ``2026-07-28``.
        auth: ``auto`` logs in by OAuth where the server asks for it, ``none`` never does.
        client_id: Id of our client at the server's login, where it lets nobody register.
        client_secret: Its secret, if it has one.
        scope: What to ask for at the login; what the server says if not set.
        trust_annotations: Whether its word counts that a tool only reads: then it needs no permission.
        place: Where it was configured, for people.
    """

    name: str
    transport: McpTransport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    disclosure: DisclosureMode | None = None
    enabled: bool = True
    timeout: float = DEFAULT_CALL_TIMEOUT
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    mode: str = "auto"
    auth: Literal["auto", "none"] = "auto"
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    trust_annotations: bool = False
    place: str = ""

    def __repr__(self) -> str:
        return redacted_repr(self, "env", "headers", "client_secret")

    def includes_tool(self, tool: str) -> bool:
        """Whether a tool of this name is offered."""
        requested = not self.include or any(fnmatchcase(tool, pattern) for pattern in self.include)
        return requested and not any(fnmatchcase(tool, pattern) for pattern in self.exclude)


class McpConfig(Struct, frozen=True):
    """What a file or an option says.

    Attributes:
        servers: Those that can be used, in order; of one name the last.
        problems: What is wrong, an entry each; such an entry is left out.
        warnings: What is odd, and was passed over.
    """

    servers: tuple[McpServerConfig, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


_ALIASES = {
    "type": "transport",
    "serverUrl": "url",
    "httpUrl": "url",
    "includeTools": "include",
    "enabledTools": "include",
    "excludeTools": "exclude",
    "disabledTools": "exclude",
    "connectTimeout": "connect_timeout",
    "startupTimeout": "connect_timeout",
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "trustAnnotations": "trust_annotations",
    "workingDirectory": "cwd",
}
"""Names that other programs give to what we have."""
_TRANSPORTS = {
    "local": "stdio",
    "remote": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "streamablehttp": "http",
    "https": "http",
}
_IGNORED_KEYS = frozenset(
    "$schema alwaysAllow autoApprove description gallery icon iconUrl label trust version dev tags note comment".split()
)
"""Settings of other programs that mean nothing here; they are passed over with a warning."""
_WRAPPERS = ("mcpServers", "servers", "mcp_servers")
_FIELDS = tuple(f for f in McpServerConfig.__struct_fields__ if f not in ("name", "place"))


def parse_mcp_config(data: Any, *, place: str = "") -> McpConfig:
    """Servers from decoded JSON: a map of names to entries, a list of entries with a ``name``, or either under ``mcpServers`` or
    ``servers``.

    Args:
        data: What was decoded; or configurations, which pass as they are.
        place: Where it comes from, for messages.
    """
    found: dict[str, McpServerConfig] = {}
    problems: list[str] = []
    warnings: list[str] = []
    at = f"{place}: " if place else ""
    try:
        entries = list(_entries(data))
    except ValueError as error:
        return McpConfig(problems=(f"{at}{error}",))
    for name, entry in entries:
        try:
            made = entry if isinstance(entry, McpServerConfig) else _parse_entry(name, entry, place, warnings)
        except ValueError as error:
            problems.append(f"{at}MCP server {name or '(no name)'!r}: {error}")
            continue
        if made.name in found:
            warnings.append(f"{at}two MCP servers are named {made.name!r}; the last one counts")
            del found[made.name]
        found[made.name] = made
    return McpConfig(tuple(found.values()), tuple(problems), tuple(warnings))


def merge_configs(*configs: McpConfig) -> McpConfig:
    """All of them; of one name the last."""
    named = {server.name: server for config in configs for server in config.servers}
    return McpConfig(
        tuple(named.values()),
        tuple([p for c in configs for p in c.problems]),
        tuple([w for c in configs for w in c.warnings]),
    )


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    if data is None:
        return
    if isinstance(data, McpServerConfig):
        yield data.name, data
        return
    if isinstance(data, Mapping):
        table = cast("Mapping[str, Any]", data)
        inner = next((table[key] for key in _WRAPPERS if isinstance(table.get(key), dict | list)), None)
        if inner is None and isinstance(table.get("mcp"), Mapping):
            inner = table["mcp"]
        if inner is not None and not _is_entry(table):
            yield from _entries(inner)
            return
        if _is_entry(table):
            yield str(table.get("name") or ""), table
            return
        for name, entry in table.items():
            if name != "$schema" and not (name in _WRAPPERS and entry is None):
                yield name, entry
        return
    if isinstance(data, list | tuple | set | frozenset):
        for entry in cast("list[Any]", data):
            if isinstance(entry, McpServerConfig):
                yield entry.name, entry
            else:
                name = cast("Mapping[str, Any]", entry).get("name") if isinstance(entry, Mapping) else None
                yield name if isinstance(name, str) else "", entry
        return
    raise ValueError(f"MCP servers are a map or a list, not {type(data).__name__}")


def _is_entry(table: Mapping[str, Any]) -> bool:
    """Whether it is one server itself, not a map of servers."""
    return any(isinstance(table.get(key), str) for key in ("command", "url", "serverUrl", "httpUrl"))


def _parse_entry(name: str, entry: Any, place: str, warnings: list[str]) -> McpServerConfig:
    """One entry.

    Raises:
        ValueError: If it is none; the text goes on from its name.
    """
    if not isinstance(entry, Mapping):
        raise ValueError(f"must be an object, not {type(entry).__name__}")
    if not name.strip():
        raise ValueError('needs a name: {"name": "docs", ...}')
    given: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", entry).items():
        if key == "name" or value is None:
            continue
        if key == "disabled":
            given["enabled"] = not value
        elif key == "tools" and isinstance(value, Mapping):
            given |= {k: v for k, v in cast("Mapping[str, Any]", value).items() if k in ("include", "exclude")}
        elif key == "tools":
            given["include"] = value
        elif (field := _ALIASES.get(key, key)) in _FIELDS:
            given[field] = value
        elif key in _IGNORED_KEYS or key.startswith("x-"):
            warnings.append(f"{place + ': ' if place else ''}MCP server {name!r}: {key} means nothing here")
        else:
            near = difflib.get_close_matches(key, [*_FIELDS, *_ALIASES, "disabled", "tools"], 1)
            raise ValueError(
                f"there is no setting {key!r}; "
                + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_FIELDS)}")
            )
    return _convert_entry(name, given, place)


def _convert_entry(name: str, mapping: dict[str, Any], place: str) -> McpServerConfig:
    _normalize_entry(mapping)
    try:
        made = msgspec.convert({**mapping, "name": name, "place": place}, McpServerConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`", "").replace("$.", "")) from None
    if made.transport == "stdio":
        if not made.command.strip():
            raise ValueError("needs a command (a program) or a url")
    elif not made.url.startswith(("http://", "https://", "${")):
        raise ValueError(
            f"transport {made.transport} needs a url that begins with http:// or https://, not {made.url!r:.200}"
        )
    for key in ("timeout", "connect_timeout"):
        if not 0 < getattr(made, key) <= _MAX_TIMEOUT:
            raise ValueError(f"{key} is in seconds, 0 to {_MAX_TIMEOUT:g}, not {getattr(made, key):g}")
    return made


def _normalize_entry(mapping: dict[str, Any]) -> None:
    """Bring what other programs write into our form, in place."""
    command, args = mapping.get("command"), mapping.get("args")
    if isinstance(args, str):
        raise ValueError(f"args must be a list of texts, as in {shlex.split(args)!r:.200}")
    if isinstance(command, list) and command:
        mapping["command"], *args = [*cast("list[Any]", command), *(args or ())]
    if isinstance(args, list):
        mapping["args"] = [_text(a) for a in cast("list[Any]", args)]
    for key in ("include", "exclude"):
        if isinstance(mapping.get(key), str):
            mapping[key] = [mapping[key]]
    for key in ("env", "headers"):
        if isinstance(mapping.get(key), Mapping):
            table = cast("Mapping[str, Any]", mapping[key])
            mapping[key] = {k: _text(v) for k, v in table.items() if v is not None}
    said = mapping.get("transport")
    mapping["transport"] = _TRANSPORTS.get(said, said) if isinstance(said, str) else said or _guess_transport(mapping)


def _guess_transport(mapping: Mapping[str, Any]) -> str:
    if mapping.get("command") or not mapping.get("url"):
        return "stdio"
    return "sse" if str(mapping["url"]).rstrip("/").endswith("/sse") else "http"


def _text(value: Any) -> str:
    """A value as a program or a header takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"{value!r:.100} must be a text")


_REFERENCE = lazy_re(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}]|\{[^{}]*\})*))?\}")


def expand_variables(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    """The text with its variables; those that are not set and have no default go into ``missing``.

    A variable that is empty counts as not set where there is a default. What a variable holds is not looked at again.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        held = environ.get(name)
        if default is not None:
            return held or default
        if held is None:
            missing.add(name)
            return ""
        return held

    return _REFERENCE.sub(value, text)


def expand_config(config: McpServerConfig, environ: Mapping[str, str]) -> McpServerConfig:
    """A configuration with its variables put in.

    Raises:
        ConfigError: If one is not set and has no default.
    """
    missing: set[str] = set()

    def put(text: str) -> str:
        return expand_variables(text, environ, missing)

    made = replace(
        config,
        command=put(config.command),
        args=tuple([put(a) for a in config.args]),
        env={name: put(value) for name, value in config.env.items()},
        cwd=None if config.cwd is None else put(config.cwd),
        url=put(config.url),
        headers={name: put(value) for name, value in config.headers.items()},
        client_id=put(config.client_id),
        client_secret=put(config.client_secret),
    )
    if missing:
        names = ", ".join(sorted(missing))
        raise ConfigError(
            f"MCP server {config.name!r} needs the variable{'s' if len(missing) > 1 else ''} {names}, which "
            f"{'are' if len(missing) > 1 else 'is'} not set; set it, or give a default: ${{{sorted(missing)[0]}:-value}}"
        )
    return made
