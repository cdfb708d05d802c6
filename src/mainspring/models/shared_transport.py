"""The transport that models share when they are given none of their own."""

from __future__ import annotations

from functools import lru_cache

from mainspring.models.transport import Transport, make_transport


@lru_cache(maxsize=1)
def shared_transport() -> Transport:
    """One pool of connections for the process: connections, not keys, are shared. It closes with each event loop."""
    return make_transport()
