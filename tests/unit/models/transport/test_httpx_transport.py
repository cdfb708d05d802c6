"""The transport for proxies: many concurrent requests."""

import asyncio

import pytest

from mainspring.errors import NetworkError
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
        for _ in range(5):
            await ask(server.url)
        while server.open_connections > 16:
            server.lost.clear()
            await server.lost.wait()
    await transport.aclose()

    assert server.connections <= 60 + 5


@pytest.mark.parametrize(
    ("status", "advice", "retryable"),
    [
        ("407 Proxy Authentication Required", "HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT", False),
        ("403 Forbidden", "does not connect to host.test: 403 Forbidden", False),
        ("502 Bad Gateway", "does not connect to host.test: 502 Bad Gateway", True),
    ],
)
async def test_refusal_of_a_proxy_says_what_to_do(
    status: str, advice: str, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(plain(b"", status)) as server:
        monkeypatch.setenv("HTTPS_PROXY", server.url)
        transport = HttpxTransport()
        with pytest.raises(NetworkError, match=advice) as failure:
            async with transport.open("POST", "https://host.test/v1", {}, b"x", SOON):
                pass
        await transport.aclose()

    assert (failure.value.reason, failure.value.retryable) == ("proxy", retryable)
