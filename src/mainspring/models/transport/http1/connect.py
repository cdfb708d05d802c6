"""Connect to a host by the first of its addresses that accepts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

_CONNECTION_ATTEMPT_DELAY = 0.25
"""Seconds after which the next address is tried concurrently: IPv4 or IPv6 may be broken (RFC 8305)."""

_AddressInfo = tuple[int, int, int, str, Any]


async def open_connection(host: str, port: int) -> socket.socket:
    """Return a connected socket.

    Args:
        host: Name or address, in ASCII.
        port: Port.

    Raises:
        OSError: The name is unknown, or no address accepts; the error is the last address's.
    """
    found = await _resolve(host, port)
    if len(found) == 1:
        return await _attempt(found[0])
    running: set[asyncio.Task[socket.socket]] = set()
    try:
        return await _race(found, running)
    finally:
        for task in running:
            task.cancel()
        for done in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(done, socket.socket):
                done.close()


async def _race(addresses: Sequence[_AddressInfo], running: set[asyncio.Task[socket.socket]]) -> socket.socket:
    """Return the first connected socket; ``running`` contains the unfinished attempts."""
    error = OSError(f"no address for {addresses!r}")
    remaining = list(addresses)
    while remaining or running:
        if remaining:
            running.add(asyncio.ensure_future(_attempt(remaining.pop(0))))
        done, _ = await asyncio.wait(
            running, timeout=_CONNECTION_ATTEMPT_DELAY if remaining else None, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            failed = task.exception()
            if failed is None:
                running.remove(task)
                return task.result()
            running.remove(task)
            if not isinstance(failed, OSError):
                raise failed
            error = failed
    raise error


async def _attempt(address: _AddressInfo) -> socket.socket:
    family, kind, protocol, _, target = address
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, target)
    except BaseException:
        connection.close()
        raise
    return connection


async def _resolve(host: str, port: int) -> list[_AddressInfo]:
    """Return the addresses of a host, alternating between families."""
    name = host.encode("ascii")  # As bytes, because text would load the codec of international names.
    try:  # An address needs no lookup, so no thread either.
        return [*socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)]
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found: list[_AddressInfo] = [*await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)]
    first = [a for a in found if a[0] == found[0][0]]
    second = [a for a in found if a[0] != found[0][0]]
    turns: list[_AddressInfo] = []
    for at in range(max(len(first), len(second))):
        turns += first[at : at + 1] + second[at : at + 1]
    return turns
