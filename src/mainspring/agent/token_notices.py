"""Renewed tokens of logins, told on the bus of the run whose request had them renewed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.loop.hooks import OAuthRefresh, SessionEnd, SessionStart
from mainspring.models.auth.refreshed import Refreshed, listen

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


class TokenNotices:
    """A plug that fires `oauth:refresh`.

    Models are shared between agents, so a model cannot know whom to tell: each run listens to what its own requests do.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None

    def install(self, agent: CoreAgent) -> None:
        """Listen from the start of each run to its end."""
        bus = agent.bus

        def start(hook: SessionStart) -> None:
            side_call = hook.side_call

            async def told(refreshed: Refreshed) -> None:
                if bus.has(OAuthRefresh):
                    news = OAuthRefresh(refreshed.provider, refreshed.account, refreshed.expires, refreshed.reason)
                    news.side_call = side_call
                    await bus.emit(news)

            self._stop = listen(told)

        def end(hook: SessionEnd) -> None:
            if self._stop is not None:
                self._stop()
                self._stop = None

        agent.on(SessionStart, start, order=-1000)
        agent.on(SessionEnd, end, order=1000)

    def for_child(self) -> None:
        """A sub-agent has its own; one that has none is told of through its parent."""
