"""Servers on this machine: Ollama, LM Studio, llama.cpp, vLLM, Docker Model Runner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from mainspring.errors import ModelError
from mainspring.models.transport.default import DefaultTransport
from mainspring.models.transport.port import Timeouts, Transport


class LocalServer(Struct, frozen=True):
    """A server that was found: its name, address, and models."""

    name: str
    base_url: str
    models: tuple[str, ...] = ()


KNOWN_SERVERS = (
    LocalServer("Ollama", "http://localhost:11434/v1"),
    LocalServer("LM Studio", "http://localhost:1234/v1"),
    LocalServer("llama.cpp", "http://localhost:8080/v1"),
    LocalServer("vLLM", "http://localhost:8000/v1"),
    LocalServer("Docker Model Runner", "http://localhost:12434/engines/llama.cpp/v1"),
    LocalServer("Docker Model Runner", "http://model-runner.docker.internal/engines/llama.cpp/v1"),
)
"""Default addresses of common servers."""


class _Entry(Struct):
    id: str = ""


class _Models(Struct):
    data: list[_Entry] | None = None


_decode = msgspec.json.Decoder(_Models).decode


async def detect_local_servers(
    servers: Sequence[LocalServer] = KNOWN_SERVERS, *, timeout: float = 0.5, transport: Transport | None = None
) -> list[LocalServer]:
    """Return the running servers with their models.

    Args:
        servers: Servers to check.
        timeout: Time limit of each server in seconds; all are checked concurrently.
        transport: Transport for the requests.
    """
    own = transport or DefaultTransport()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_probe(own, server, timeout)) for server in servers]
        return [found for task in tasks if (found := task.result()) is not None]
    finally:
        if transport is None:
            await own.aclose()


async def _probe(transport: Transport, server: LocalServer, timeout: float) -> LocalServer | None:
    limits = Timeouts(timeout, timeout, timeout, timeout)
    headers = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(timeout),
            transport.open("GET", f"{server.base_url}/models", headers, b"", limits) as answer,
        ):
            body = b"".join([chunk async for chunk in answer.chunks()])
        if answer.status != 200:
            return None
        models = _decode(body).data
    except (ModelError, TimeoutError, msgspec.DecodeError, OSError):
        return None
    return None if models is None else LocalServer(server.name, server.base_url, tuple(m.id for m in models if m.id))
