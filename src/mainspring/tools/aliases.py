"""Other names of tools at the model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from mainspring.errors import ConfigError
from mainspring.tools.registry import NAME

_LONGEST = 64
"""Characters that every host takes in a name; some take twice as many."""


def wire_names(tools: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """The aliases that are of use: for each of these tools that has another name at the model, that name. A name that some host
    would not take (too long, or begun by a digit or ``-``) gets one that all take, the same after every start.

    Args:
        tools: The tools' own names. An alias of a tool that is not among them does nothing.
        aliases: By a tool's own name the other one.

    Raises:
        ConfigError: If an alias is no name of a tool, or two tools would have the same name at the model.
    """
    taken: dict[str, str] = {}
    found: dict[str, str] = {}
    for tool in tools:
        wire = aliases.get(tool) or _fitting(tool)
        if not NAME.fullmatch(wire):
            raise ConfigError(f"the alias {wire!r} of {tool} must be 1 to 128 letters, digits, '_' or '-'")
        if wire in taken:
            raise ConfigError(f"the model would know both {taken[wire]} and {tool} as {wire!r}; change an alias")
        taken[wire] = tool
        if wire != tool:
            found[tool] = wire
    return found


def _fitting(name: str) -> str:
    """The name as all hosts take it."""
    plain = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[: _LONGEST - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
