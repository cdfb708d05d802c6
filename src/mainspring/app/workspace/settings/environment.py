"""Values of the environment as typed ones. An empty variable is one that is not set."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mainspring.errors import ConfigError

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


def env_str(environ: Mapping[str, str], name: str) -> str | None:
    """A text."""
    return environ.get(name, "").strip() or None


def env_bool(environ: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A switch: 1, true, yes, on, or 0, false, no, off.

    Raises:
        ConfigError: If it is anything else.
    """
    value = env_str(environ, name)
    if value is None:
        return default
    word = value.lower()
    if word not in _YES | _NO:
        raise ConfigError(f"{name} must be 1 or 0, not {value!r}")
    return word in _YES


def env_int(environ: Mapping[str, str], name: str) -> int | None:
    """A whole number.

    Raises:
        ConfigError: If it is anything else.
    """
    value = env_str(environ, name)
    try:
        return None if value is None else int(value)
    except ValueError:
        raise ConfigError(f"{name} must be a whole number, not {value!r}") from None


def env_float(environ: Mapping[str, str], name: str) -> float | None:
    """A finite number.

    Raises:
        ConfigError: If it is anything else.
    """
    value = env_str(environ, name)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{name} must be a number, not {value!r}")
    return number
