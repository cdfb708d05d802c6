"""``${VAR}`` and ``${VAR:-default}`` in a server's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.mcp.config import McpServerConfig

_REFERENCE = lazy_re(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}]|\{[^{}]*\})*))?\}")


def expand(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    """The text with its variables; those that are not set and have no default go into ``missing``.

    A variable that is empty counts as not set where there is a default. What a variable holds is not looked at again.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        held = environ.get(name)
        if default is not None:
            return held or default
        if held is None:
            missing.add(name)
            return ""
        return held

    return _REFERENCE.sub(value, text)


def expanded(config: McpServerConfig, environ: Mapping[str, str]) -> McpServerConfig:
    """A configuration with its variables put in.

    Raises:
        ConfigError: If one is not set and has no default.
    """
    missing: set[str] = set()

    def put(text: str) -> str:
        return expand(text, environ, missing)

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
