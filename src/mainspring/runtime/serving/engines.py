"""Which engine keeps the runs of a service."""

from __future__ import annotations

from importlib import import_module

from mainspring.durable import Engine, MemoryEngine
from mainspring.errors import ConfigError


def engine_of(url: str | None, *, version: str = "1", keep: int = 1_000) -> Engine:
    """The engine at an address; without one, one that lives and dies with this process.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Of the code that makes the agents.
        keep: How many runs that are over are kept in memory.

    Raises:
        ConfigError: If what it needs is not installed.
    """
    if url is None:
        return MemoryEngine(version, keep=keep)
    try:
        made = import_module("mainspring.durable.dbos").DbosEngine
    except ImportError as error:
        raise ConfigError(f"--url needs the extra durable: pip install 'mainspring[durable]' ({error})") from error
    return made(url, version=version)
