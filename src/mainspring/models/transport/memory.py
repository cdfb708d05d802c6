"""A transport without a network, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct, field

from mainspring.models.transport.port import Timeouts, TransportResponse


class SentRequest(Struct, frozen=True):
    """A request that was sent."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class MemoryResponse(Struct):
    """An answer to give.

    Attributes:
        body: The body: all at once, or in pieces. An exception among them is raised there, a number is a pause in seconds.
        status: The HTTP status.
        headers: The headers; names in lower case.
        closed: Set when the answer has been let go.
    """

    body: bytes | Sequence[bytes | float | Exception] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as scripted."""
        for piece in [self.body] if isinstance(self.body, bytes) else self.body:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, bytes):
                if piece:
                    yield piece
            else:
                await asyncio.sleep(piece)


class MemoryTransport:
    """Gives scripted answers and keeps what was asked.

    Args:
        answers: One for each request, in order; an exception is raised instead. The last one stays.

    Attributes:
        requests: What was sent.
    """

    def __init__(self, *answers: MemoryResponse | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[SentRequest] = []
        self.closed = False

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Give the next answer."""
        self.requests.append(SentRequest(method, url, dict(headers), body))
        answer: Any = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        try:
            yield answer
        finally:
            answer.closed = True

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True
