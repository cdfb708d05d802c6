"""The events of a run in this process, for several readers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Generic, cast

from mainspring.durable.feed import FeedEvent, FeedItem, MemoryFeed
from mainspring.durable.feed_writer import FeedWriter
from mainspring.errors import AgentError
from mainspring.events import AttemptStart
from mainspring.loop import RunHandle, RunResult
from mainspring.type_variables import AgentOutputT


class RunFeed(Generic[AgentOutputT]):
    """The events of a run in this process, for several readers, each from an event number.

    The events and numbers are those of a durable run (`FeedEvent`): text comes in chunks, and `AgentEnd` is the last event. The run
    starts immediately and does not depend on its readers; a reader that disconnects can resume by number as long as this object
    exists.

    ```python
    feed = RunFeed(conversation.stream("Hello"))
    async for item in feed.follow(after=0):
        send(item.number, item.data)     # item.event is the event itself
    ```

    Args:
        run: The run: ``agent.stream(...)`` or ``conversation.stream(...)``.
        run_id: ID of the run in `AgentEnd` (default: generated).
        interval_seconds: Seconds for which text is collected.
    """

    def __init__(self, run: RunHandle[AgentOutputT], *, run_id: str = "", interval_seconds: float = 0.05) -> None:
        self.run_id = run_id or uuid.uuid4().hex
        self._run = run
        self._feed = MemoryFeed()
        self._writer = FeedWriter(self, interval_seconds, lambda: False)
        self._writer.publish(AttemptStart(self.attempt))
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._run_to_end())
        self._recording = loop.create_task(self._record())

    async def follow(self, after: int = 0) -> AsyncGenerator[FeedItem]:
        """Iterate over the events until the run has ended, from the beginning or after a known event.

        Args:
            after: Number of the last event that the reader has.
        """
        while True:
            items = await self._feed.read(self.run_id, after)
            for item in items:
                after = item.number
                yield item
            if not items and self._recording.done():
                return
            if not items:
                waiting = asyncio.ensure_future(self._feed.wait(self.run_id, after))
                try:
                    await asyncio.wait({waiting, self._recording}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()

    async def result(self) -> RunResult[AgentOutputT]:
        """Wait for the end of the run and return its result.

        Raises:
            AgentError: As `CoreAgent.run`.
        """
        return await asyncio.shield(self._running)

    @property
    def ended(self) -> bool:
        """Return True if the run has ended."""
        return self._recording.done()

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run."""
        self._run.abort(reason)

    async def _run_to_end(self) -> RunResult[AgentOutputT]:
        async with self._run as run:
            async for event in run:
                self._writer(event)
            return await run.result()

    async def _record(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.write())
            try:
                [ended] = cast("list[Any]", await asyncio.gather(self._running, return_exceptions=True))
                if isinstance(ended, AgentError) and ended.outcome is not None:
                    ended = cast("RunResult[Any]", ended.outcome).with_error(ended)
                self._writer.publish_end(self.run_id, ended)
            finally:
                self._writer.close()

    # --- see `FeedLog` ----------------------------------------------------------------------------------------------

    attempt = 1

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        """See `FeedLog.read_feed`."""
        return await self._feed.read(self.run_id, after)

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """See `FeedLog.emit`."""
        await self._feed.append(self.run_id, events)
