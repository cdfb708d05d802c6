"""Requests that take their time to arrive, or are nested without end: what is not done for them."""

from __future__ import annotations

import asyncio
import re
from itertools import accumulate
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

DEEPEST = 100
"""Levels of a body: more would only serve to break what handles it later."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


class PromptProtocol(H11Protocol):
    """A connection whose request has to arrive within some seconds; one that trickles in is cut off.

    Args:
        seconds: How long the head of a request may take.
        **options: As uvicorn gives them.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """As in uvicorn."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """As in uvicorn."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """As in uvicorn."""
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._unwatch()  # it is here, and is being answered
        elif self._limit is None and not self.transport.is_closing():
            self._limit = self.loop.call_later(self._seconds, self.transport.abort)

    def _unwatch(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def is_too_deep(body: bytes) -> bool:
    """Whether JSON has more levels than `DEEPEST`, in a time that grows with its length alone."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST
