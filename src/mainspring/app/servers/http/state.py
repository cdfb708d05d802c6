"""What the service has while it is up, beside the runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from mainspring.app.run_service.service import RunService
from mainspring.app.servers.ag_ui.runs import AgUiRunStarter
from mainspring.app.servers.http.limits import ConcurrencyLimit, Limits
from mainspring.app.servers.http.metrics import MEDIA_TYPE, Metrics
from mainspring.app.servers.http.responses import retry_later_response
from mainspring.app.servers.http.sse import EventEncoder, EventStream, StreamTimeouts, WireEvent


class ServerState:
    """What the service has while it is up.

    Args:
        service: The runs.
        limits: What each tenant may ask for.
        patience: How long streams wait.

    Attributes:
        closing: Set when followers are to leave.
        cut: Cuts the connection of a request.
        document: The OpenAPI document.
        ag_ui: Runs of clients of AG-UI.
        wire: Encodes events for all followers.
    """

    def __init__(self, service: RunService, limits: Limits, patience: StreamTimeouts) -> None:
        self.service = service
        self.ag_ui = AgUiRunStarter(service)
        self.wire = EventEncoder()
        self.limits = limits
        self.patience = patience
        self.metrics = Metrics()
        self.followers = ConcurrencyLimit(limits.followers)
        self.closing = asyncio.Event()
        self.cut: Callable[[Scope], None] = _nothing
        self.document: dict[str, Any] = {}

    def full(self, tenant: str) -> ASGIApp | None:
        """The refusal of one more follower, if there is no place for it."""
        if not self.followers.full(tenant):
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
        place = self.followers.one(tenant)
        return EventStream(events, place, self.closing, self.cut, self.metrics, self.patience, left, location)

    async def figures(self) -> ASGIApp:
        """The figures as they are now."""
        states = await self.service.going()
        text = self.metrics.text(
            {
                "followers": {(): self.followers.taken},
                "runs": {(("state", state),): count for state, count in states.items()},
                "closing": {(): int(self.service.closing)},
            }
        )
        return Response(text, media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


def _nothing(_: Scope) -> None:
    pass
