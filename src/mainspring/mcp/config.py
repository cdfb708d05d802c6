"""Configuration of MCP servers: single entries, and files with many entries.

Entries are checked individually, so that a broken entry does not affect the others. Values can contain ``${VAR}`` and
``${VAR:-default}``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from mainspring.errors import ConfigError
from mainspring.globs import matches_any
from mainspring.lazy import lazy_re
from mainspring.redaction import redacted_repr
from mainspring.text import suggest_name

McpTransport = Literal["stdio", "http", "sse"]
DisclosureMode = Literal["eager", "lazy", "auto"]


DEFAULT_CALL_TIMEOUT = 120.0
"""Default maximum seconds of a call without a response or progress."""
DEFAULT_CONNECT_TIMEOUT = 30.0
"""Default maximum seconds to connect."""
_MAX_TIMEOUT = 86_400.0


class McpServerConfig(Struct, frozen=True, kw_only=True):
    """Configuration of a server.

    Texts may contain ``${VAR}`` and ``${VAR:-default}``; they are expanded when the server connects, so that a configuration
    can be shown without its secrets.

    Attributes:
        name: Name of the server, any text. In a mapping of servers, the key is the default.
        transport: ``stdio`` (a program), ``http`` (streamable HTTP), or ``sse`` (the older HTTP transport).
        command: Program of a ``stdio`` server.
        args: Arguments of the program.
        env: Variables of the program, in addition to a base set (``PATH``, ``HOME``, ...); it inherits no others.
        cwd: Working directory of the program (default: the current folder).
        url: URL of an ``http`` or ``sse`` server.
        headers: Additional headers of each request.
        disclosure: Whether the model sees the tools immediately, finds them by search, or finds them by search if all schemas
            together are large (``auto``); ``None`` is the agent's default.
        enabled: Whether the server is used.
        required: Whether a run fails if the server does not start; otherwise, that is a warning.
        timeout: Maximum seconds of a call without a response or progress.
        connect_timeout: Maximum seconds to connect and list the tools.
        include: Names of the tools to offer, with ``*`` for any characters; empty offers all tools.
        exclude: Names of tools not to offer.
        mode: ``auto``; ``legacy`` for a server that fails with the newer protocol; or a protocol version, for example,
            ``2026-07-28``.
        auth: ``auto`` logs in with OAuth if the server requires it, ``none`` never does.
        client_id: Client ID for the login, if the server does not support registration.
        client_secret: Client secret, if the client has one.
        scope: OAuth scope to request (default: the scope that the server names).
        trust_annotations: Whether to trust the server's read-only annotations: such tools need no approval.
        place: Origin of the configuration, for display.
    """

    name: str = ""
    transport: McpTransport = "stdio"
    command: str = ""
    args: Sequence[str] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    disclosure: DisclosureMode | None = None
    enabled: bool = True
    required: bool = False
    timeout: float = DEFAULT_CALL_TIMEOUT
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    mode: str = "auto"
    auth: Literal["auto", "none"] = "auto"
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    trust_annotations: bool = False
    place: str = ""

    def __post_init__(self) -> None:
        for name in ("args", "include", "exclude"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise TypeError(f"{name} must be a list of texts, not the text {given!r:.80}.")
            if type(given) is not tuple:
                force_setattr(self, name, tuple(given))

    def __repr__(self) -> str:
        return redacted_repr(self, "env", "headers", "client_secret")

    def includes_tool(self, tool: str) -> bool:
        """Return True if a tool with this name is offered."""
        return (not self.include or matches_any(tool, self.include)) and not matches_any(tool, self.exclude)


class McpConfig(Struct, frozen=True):
    """Servers of a file or an option.

    Attributes:
        servers: Valid servers, in order; the last of several with the same name.
        problems: Errors, each for an entry that was skipped.
        warnings: Entries and settings that were ignored.
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
"""Names of fields in other programs."""
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
"""Settings of other programs that are ignored with a warning."""
_WRAPPERS = ("mcpServers", "servers", "mcp_servers")
_FIELDS = tuple(f for f in McpServerConfig.__struct_fields__ if f not in ("name", "place"))


def parse_mcp_config(data: Any, *, place: str = "") -> McpConfig:
    """Parse servers from decoded JSON.

    The data is a map of names to entries, a list of entries with a ``name``, or either under ``mcpServers`` or ``servers``.

    Args:
        data: Decoded JSON; `McpServerConfig` objects pass unchanged.
        place: Origin of the data, for messages.
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
            config = (
                _named(name, entry)
                if isinstance(entry, McpServerConfig)
                else _parse_entry(name, entry, place, warnings)
            )
        except ValueError as error:
            problems.append(f"{at}MCP server {name or '(no name)'!r}: {error}")
            continue
        if config.name in found:
            warnings.append(f"{at}Duplicate MCP server name: {config.name!r}. The last entry is used.")
            del found[config.name]
        found[config.name] = config
    return McpConfig(tuple(found.values()), tuple(problems), tuple(warnings))


def merge_configs(*configs: McpConfig) -> McpConfig:
    """Merge configurations; the last of several servers with the same name wins."""
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
    raise ValueError(f"MCP servers must be a map or a list, not {type(data).__name__}")


def _named(name: str, entry: McpServerConfig) -> McpServerConfig:
    """Return a server with the name of its key.

    Raises:
        ValueError: It has no name, or another one than its key.
    """
    if not (entry.name or name):
        raise ValueError(
            'needs a name: McpServerConfig(name="docs", ...), or a mapping: {"docs": McpServerConfig(...)}'
        )
    if name and entry.name and name != entry.name:
        raise ValueError(f"is named {entry.name!r} in its configuration. Leave the name out, or use it as the key.")
    return entry if entry.name else replace(entry, name=name)


def _is_entry(table: Mapping[str, Any]) -> bool:
    """Return True if the data is a single server, not a map of servers."""
    return any(isinstance(table.get(key), str) for key in ("command", "url", "serverUrl", "httpUrl"))


def _parse_entry(name: str, entry: Any, place: str, warnings: list[str]) -> McpServerConfig:
    """Parse an entry.

    Raises:
        ValueError: The entry is invalid; the message continues a text that ends with the server name.
    """
    if not isinstance(entry, Mapping):
        hint = 'McpServerConfig(name="docs", transport="http", url="https://..."), or McpServerConfig(name="docs", command=...)'
        raise ValueError(f"must be an object, not {entry!r:.80}. In Python: {hint}")
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
            warnings.append(
                f"{place + ': ' if place else ''}MCP server {name!r}: {key} is not supported and is ignored"
            )
        else:
            every = f"Available settings: {', '.join(_FIELDS)}."
            hint = suggest_name(key, [*_FIELDS, *_ALIASES, "disabled", "tools"], every)
            raise ValueError(f"Unknown setting: {key!r}. {hint}")
    return _convert_entry(name, given, place)


def _convert_entry(name: str, mapping: dict[str, Any], place: str) -> McpServerConfig:
    _normalize_entry(mapping)
    try:
        config = msgspec.convert({**mapping, "name": name, "place": place}, McpServerConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`", "").replace("$.", "")) from None
    if config.transport == "stdio":
        if not config.command.strip():
            raise ValueError("needs a command (a program) or a url")
    elif not config.url.startswith(("http://", "https://", "${")):
        raise ValueError(
            f"transport {config.transport} requires a url that begins with http:// or https://, not {config.url!r:.200}"
        )
    for key in ("timeout", "connect_timeout"):
        if not 0 < getattr(config, key) <= _MAX_TIMEOUT:
            raise ValueError(f"{key} must be 0 to {_MAX_TIMEOUT:g} seconds, not {getattr(config, key):g}")
    return config


def _normalize_entry(mapping: dict[str, Any]) -> None:
    """Convert settings of other programs to the format of this program, in place."""
    command, args = mapping.get("command"), mapping.get("args")
    if isinstance(args, str):
        raise ValueError(f"args must be a list of texts, for example, {shlex.split(args)!r:.200}")
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
    transport = mapping.get("transport")
    mapping["transport"] = (
        _TRANSPORTS.get(transport, transport) if isinstance(transport, str) else transport or _guess_transport(mapping)
    )


def _guess_transport(mapping: Mapping[str, Any]) -> str:
    if mapping.get("command") or not mapping.get("url"):
        return "stdio"
    return "sse" if str(mapping["url"]).rstrip("/").endswith("/sse") else "http"


def _text(value: Any) -> str:
    """Return a value as text for a program or a header."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"{value!r:.100} must be a text")


_REFERENCE = lazy_re(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}]|\{[^{}]*\})*))?\}")


def expand_variables(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    """Expand ``${NAME}``, and ``${env:NAME}`` of other programs, in a text; names without a value or default are added to ``missing``.

    An empty variable is treated as not set if a default exists. Values are not expanded again.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        current = environ.get(name)
        if default is not None:
            return current or default
        if current is None:
            missing.add(name)
            return ""
        return current

    return _REFERENCE.sub(value, text)


def expand_config(config: McpServerConfig, environ: Mapping[str, str]) -> McpServerConfig:
    """Expand the variables of a configuration.

    Raises:
        ConfigError: A variable is not set and has no default.
    """
    missing: set[str] = set()

    def put(text: str) -> str:
        return expand_variables(text, environ, missing)

    expanded = replace(
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
            f"MCP server {config.name!r} requires the variable{'s' if len(missing) > 1 else ''} {names}, which "
            f"{'are' if len(missing) > 1 else 'is'} not set. Set it, or add a default: ${{{sorted(missing)[0]}:-value}}"
        )
    return expanded
