"""State of the HTTP service, in addition to the runs."""

from __future__ import annotations

import asyncio
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
        requests: Requests per minute.
        body: Bytes of a request body.
        followers: Followers of events at the same time.
    """

    requests: int = 600
    body: int = 1_048_576
    followers: int = 1_000


class ConcurrencyLimit:
    """Limits the number of slots at the same time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._in_use: dict[str, int] = {}

    @property
    def in_use(self) -> int:
        """Return the number of slots that all tenants use."""
        return sum(self._in_use.values())

    def is_full(self, tenant: str) -> bool:
        """Return True if the tenant uses all of its slots."""
        return self._in_use.get(tenant, 0) >= self.limit

    @contextmanager
    def slot(self, tenant: str) -> Generator[None]:
        """Use a slot while the context is open."""
        self._in_use[tenant] = self._in_use.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._in_use[tenant] -= 1


class ServerState:
    """State of the HTTP service while it is running.

    Args:
        service: The run service.
        limits: Limits for each tenant.
        timeouts: Time limits of streams.

    Attributes:
        shutdown_started: Event that is set when followers must disconnect.
        abort_connection: Function that aborts the connection of a request.
        document: The OpenAPI document.
        ag_ui: Runs of AG-UI clients.
        event_encoder: Encoder of events for all followers.
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
        self.abort_connection: Callable[[Scope], None] = _do_nothing
        self.document: dict[str, Any] = {}

    def reject_if_full(self, tenant: str) -> ASGIApp | None:
        """Return an error response if the tenant has too many followers, or ``None``."""
        if not self.followers.is_full(tenant):
            return None
        self.metrics.add("limited")
        return retry_later_response(
            429,
            "too_many_followers",
            f"Too many event streams. The limit is {self.followers.limit}. Close one and try again.",
            5,
        )

    def stream(
        self,
        tenant: str,
        events: AsyncGenerator[WireEvent, None],
        *,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
        location: str = "",
    ) -> EventStreamResponse:
        """Return a stream for one follower.

        Args:
            tenant: Tenant of the follower.
            events: The events.
            on_disconnect: Callback for a follower that disconnects before the end.
            location: URL of the run.
        """
        place = self.followers.slot(tenant)
        return EventStreamResponse(
            events,
            place,
            self.shutdown_started,
            self.abort_connection,
            self.metrics,
            self.timeouts,
            on_disconnect,
            location,
        )

    async def metrics_response(self) -> ASGIApp:
        """Return the current metrics."""
        states = await self.service.count_active_runs()
        text = self.metrics.text(
            {
                "followers": {(): self.followers.in_use},
                "runs": {(("state", state),): count for state, count in states.items()},
                "closing": {(): int(self.service.closing)},
            }
        )
        return Response(text, media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


def _do_nothing(_: Scope) -> None:
    pass
