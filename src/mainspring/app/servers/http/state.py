"""What the service has while it is up, beside the runs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from mainspring.app.run_service.service import RunService
from mainspring.app.servers.ag_ui.runs import AgUiRunStarter
from mainspring.app.servers.http.metrics import MEDIA_TYPE, Metrics
from mainspring.app.servers.http.responses import retry_later_response
from mainspring.app.servers.http.sse import EventEncoder, EventStreamResponse, StreamTimeouts, WireEvent


class Limits(Struct, frozen=True, kw_only=True):
    """Limits for each tenant.

    Attributes:
        requests: Requests a minute.
        body: Bytes of a request's body.
        followers: Followers of events at the same time.
    """

    requests: int = 600
    body: int = 1_048_576
    followers: int = 1_000


class RateLimiter:
    """So many a minute, with as many at once.

    Args:
        a_minute: How many.
        clock: Seconds on a clock that never goes back.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = float(a_minute)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def acquire(self, tenant: str) -> int:
        """0 if there is one more; else the seconds to wait."""
        now = self._clock()
        left, at = self._left.get(tenant, (self._limit, now))
        left = min(self._limit, left + (now - at) * self._limit / 60)
        if left < 1:
            self._left[tenant] = left, now
            return max(1, math.ceil((1 - left) * 60 / self._limit))
        self._left[tenant] = left - 1, now
        return 0


class ConcurrencyLimit:
    """So many at the same time."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self._register_incoming: dict[str, int] = {}

    @property
    def in_use(self) -> int:
        """How many all tenants have."""
        return sum(self._register_incoming.values())

    def is_full(self, tenant: str) -> bool:
        """Whether there is none left."""
        return self._register_incoming.get(tenant, 0) >= self.most

    @contextmanager
    def slot(self, tenant: str) -> Generator[None]:
        """Have one while this is open."""
        self._register_incoming[tenant] = self._register_incoming.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._register_incoming[tenant] -= 1


class ServerState:
    """What the service has while it is up.

    Args:
        service: The runs.
        limits: What each tenant may ask for.
        timeouts: How long streams wait.

    Attributes:
        shutdown_started: Set when followers are to leave.
        abort_connection: Cuts the connection of a request.
        document: The OpenAPI document.
        ag_ui: Runs of clients of AG-UI.
        event_encoder: Encodes events for all followers.
    """

    def __init__(self, service: RunService, limits: Limits, timeouts: StreamTimeouts) -> None:
        self.service = service
        self.ag_ui = AgUiRunStarter(service)
        self.event_encoder = EventEncoder()
        self.limits = limits
        self.timeouts = timeouts
        self.metrics = Metrics()
        self.followers = ConcurrencyLimit(limits.followers)
        self.shutdown_started = asyncio.Event()
        self.abort_connection: Callable[[Scope], None] = _nothing
        self.document: dict[str, Any] = {}

    def reject_if_full(self, tenant: str) -> ASGIApp | None:
        """The refusal of one more follower, if there is no place for it."""
        if not self.followers.is_full(tenant):
            return None
        self.metrics.add("limited")
        return retry_later_response(
            429, "too_many_followers", f"{self.followers.most} followers are there, and no more may", 5
        )

    def stream(
        self,
        tenant: str,
        events: AsyncGenerator[WireEvent, None],
        *,
        left: Callable[[], Awaitable[None]] | None = None,
        location: str = "",
    ) -> ASGIApp:
        """A stream for one more follower.

        Args:
            tenant: Whose it is.
            events: The events.
            left: Done where the follower leaves before the end.
            location: Where the run is.
        """
        place = self.followers.slot(tenant)
        return EventStreamResponse(
            events, place, self.shutdown_started, self.abort_connection, self.metrics, self.timeouts, left, location
        )

    async def metrics_response(self) -> ASGIApp:
        """The figures as they are now."""
        states = await self.service.count_active_runs()
        text = self.metrics.text(
            {
                "followers": {(): self.followers.in_use},
                "runs": {(("state", state),): count for state, count in states.items()},
                "closing": {(): int(self.service.closing)},
            }
        )
        return Response(text, media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


def _nothing(_: Scope) -> None:
    pass
