"""Which engine keeps the runs of a service."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring.durable import Engine, MemoryEngine

if TYPE_CHECKING:
    from mainspring.durable.dbos.engine import DbosEngine


def create_engine(url: str | None, *, version: str = "1", keep: int = 1_000) -> Engine:
    """The engine at an address; without one, one that lives and dies with this process.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Of the code that makes the agents.
        keep: How many runs that are over are kept in memory.

    Raises:
        ConfigError: If what it needs is not installed.
    """
    return MemoryEngine(version, keep=keep) if url is None else create_durable_engine(url, version=version)


def create_durable_engine(url: str, **options: Any) -> DbosEngine:
    """The engine at an address.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        options: As `DbosEngine` takes them.

    Raises:
        ConfigError: If what it needs is not installed, or it is no such address.
    """
    return import_module("mainspring.durable.dbos.engine").DbosEngine(url, **options)
