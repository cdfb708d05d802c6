"""Helpers for tests of the direct transport."""

from collections.abc import AsyncGenerator

import pytest

from mainspring.models.transport.http1.client import Http1Transport
from mainspring.models.transport.port import Timeouts

SOON = Timeouts(connect=120, first_byte=120, idle=120)


@pytest.fixture
async def transport() -> AsyncGenerator[Http1Transport]:
    """Return a transport that is closed after the test."""
    http_transport = Http1Transport()
    yield http_transport
    await http_transport.aclose()


async def ask(
    transport: Http1Transport, url: str, body: bytes = b"x", limits: Timeouts = SOON, method: str = "POST"
) -> tuple[int, bytes]:
    """Send a request and return the status and the whole body."""
    async with transport.open(method, url, {}, body, limits) as answer:
        return answer.status, b"".join([chunk async for chunk in answer.chunks()])
