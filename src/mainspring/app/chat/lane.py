"""Commands that take their turn: one after the other, each of them stoppable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct

from mainspring.app.chat.command_results import Shown
from mainspring.app.chat.events import ChatEvent, CommandDone
from mainspring.errors import MainspringError


class Work(Struct, frozen=True):
    """A command that waits for its turn.

    Attributes:
        id: The receipt's.
        name: What it is called when it is done; empty where nothing is told of that.
        do: Does it.
    """

    id: str
    name: str
    do: Callable[[], Awaitable[Shown | None]]


class Lane:
    """Does commands in the order in which they came.

    Args:
        tell: Is told what became of each.
        idle: Called when nothing waits any more.
    """

    def __init__(self, tell: Callable[[ChatEvent], None], idle: Callable[[], None]) -> None:
        self._tell = tell
        self._idle = idle
        self._waiting: deque[Work] = deque()
        self._wake = asyncio.Event()
        self._doing: asyncio.Task[Shown | None] | None = None
        self._now: Work | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is being done or waits."""
        return self._now is not None or bool(self._waiting)

    def put(self, work: Work) -> None:
        """One more."""
        self._waiting.append(work)
        self._wake.set()

    def stop(self) -> bool:
        """Stop the one that is being done. Says whether there was one."""
        if self._doing is not None and not self._doing.done():
            self._doing.cancel()
            return True
        return False

    async def work(self) -> None:
        """Do them, until this is cancelled."""
        while True:
            while self._waiting:
                self._now = self._waiting.popleft()
                await self._do(self._now)
                self._now = None
                if not self._waiting:
                    self._idle()
            self._wake.clear()
            await self._wake.wait()

    async def _do(self, work: Work) -> None:
        shown: Shown | None = None
        error = ""
        self._doing = task = asyncio.ensure_future(work.do())
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:  # the chat is being closed
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            self._doing = None
        try:
            shown = task.result()
        except asyncio.CancelledError:
            error = "stopped"
        except Exception as failed:  # whatever a command raises, the chat goes on
            known = isinstance(failed, MainspringError | OSError | ValueError)
            error = str(failed) if known and str(failed) else f"{type(failed).__name__}: {failed}"
        if work.name:
            self._tell(CommandDone(work.id, work.name, shown, error))
