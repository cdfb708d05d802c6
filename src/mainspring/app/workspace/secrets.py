"""The secrets in the settings, which every output of the command redacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from mainspring.app.workspace.settings import Settings
from mainspring.redaction import Redactor, environment_secrets

HIDDEN = frozenset({"apiKey", "env", "headers", "token", "clientSecret", "client_secret"})
"""Settings whose values are never shown."""


def redactor_of(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Create a redactor that knows the secrets of the environment and the settings."""
    plain: Any = msgspec.to_builtins(
        [{".".join(path): value for path, value in settings.values.items()}, *(s for _, s in settings.mcp_servers)],
        enc_hook=str,
    )
    named = {f"{name} {number}": text for number, (name, text) in enumerate(_texts("", plain))}
    return Redactor.of(environ, environment_secrets(named))


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return all strings with the name of their field; the arguments of a command are one line."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _texts(key.rpartition(".")[2], inner)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        yield name, " ".join(item for item in items if isinstance(item, str))
        for item in items:
            yield from _texts(name, item)
