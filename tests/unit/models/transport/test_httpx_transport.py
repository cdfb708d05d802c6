"""The transport for proxies: many concurrent requests."""

import asyncio

import pytest

from mainspring.models.transport.httpx_transport import HttpxTransport
from tests.unit.models.direct_transport import SOON
from tests.unit.models.server import plain, serve


async def test_idle_connections_of_a_burst_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = HttpxTransport()

    async def ask(url: str) -> bytes:
        async with transport.open("POST", url, {}, b"x", SOON) as response:
            return b"".join([chunk async for chunk in response.chunks()])

    async with serve([0.3, *plain()]) as server:
        assert await asyncio.gather(*(ask(server.url) for _ in range(60))) == [b"ok"] * 60
        assert server.most_open == server.open_connections == 60
        monkeypatch.setattr("mainspring.models.transport.httpx_transport._KEEP_ALIVE", -1.0)
        async with asyncio.timeout(10):
            for _ in range(5):
                await ask(server.url)
            while server.open_connections > 16:
                server.lost.clear()
                await server.lost.wait()
    await transport.aclose()

    assert server.connections <= 60 + 5
