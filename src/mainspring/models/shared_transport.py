"""Which transport models use when they are given none of their own."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

from mainspring.models.transport import Transport


def make_transport() -> Transport:
    """A transport of its own: on aiohttp if that is installed, else on httpx2."""
    if find_spec("aiohttp") is not None:
        from mainspring.models.transport_aiohttp import AiohttpTransport

        return AiohttpTransport()
    from mainspring.models.transport_httpx2 import Httpx2Transport

    return Httpx2Transport()


@lru_cache(maxsize=1)
def shared_transport() -> Transport:
    """One pool of connections for the process: connections, not keys, are shared. It closes with each event loop."""
    return make_transport()
