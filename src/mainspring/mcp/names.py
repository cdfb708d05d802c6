"""The names under which an agent knows the tools of servers: ``mcp__server__tool``.

They are the same after every start, whatever order servers answer in, fit the limits of all providers, and never stand for two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

from mainspring.lazy import lazy_re

PREFIX = "mcp__"
LONGEST = 64
"""Characters that every provider accepts."""
_SERVER = 30
"""Characters of a server's part; rules such as ``mcp__server__*`` need it whole."""

_UNFIT = lazy_re(r"[^A-Za-z0-9_-]+")
_RUNS = lazy_re(r"__+")


def server_keys(servers: Iterable[str]) -> dict[str, str]:
    """For each server the part of names that stands for it: no ``__`` inside, and never the same for two."""
    names = list(dict.fromkeys(servers))
    plain = {name: _RUNS.sub("_", _UNFIT.sub("_", name)).strip("_") for name in names}
    taken = Counter(plain.values())
    keys: dict[str, str] = {}
    for name, key in plain.items():
        if key != name and (not key or taken[key] > 1):
            key = f"{key[: _SERVER - 7] or 'server'}_{_digest(name, 6)}"
        elif len(key) > _SERVER:
            key = f"{key[: _SERVER - 7].rstrip('_')}_{_digest(name, 6)}"
        keys[name] = key
    return keys


def tool_names(key: str, tools: Iterable[str]) -> dict[str, str]:
    """For each tool of the server of this key its name, by its own one."""
    names = list(dict.fromkeys(tools))
    plain = {name: _UNFIT.sub("_", name) or "tool" for name in names}
    taken = Counter(plain.values())
    found: dict[str, str] = {}
    for name, clean in plain.items():
        whole = f"{PREFIX}{key}__{clean}"
        if len(whole) > LONGEST or (clean != name and taken[clean] > 1):
            whole = f"{whole[: LONGEST - 9]}_{_digest(name, 8)}"
        found[name] = whole
    return found


def server_of(name: str, keys: Mapping[str, str]) -> str | None:
    """The server that a tool's name says it is of; ``None`` if it is of none."""
    if not name.startswith(PREFIX):
        return None
    key = name[len(PREFIX) :].partition("__")[0]
    return next((server for server, own in keys.items() if own == key), None)


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
