"""Work that several callers wait for together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class SharedTask:
    """Work that concurrent callers wait for together, done once in each event loop.

    Args:
        work: The work.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    @property
    def current(self) -> asyncio.Task[None] | None:
        """The task of the running event loop, which may have ended; ``None`` before `start`."""
        task = self._task
        return task if task is not None and task.get_loop() is asyncio.get_running_loop() else None

    def start(self, *, repeat: bool, context: Context | None = None) -> asyncio.Task[None]:
        """Return the task, and start it if needed.

        Args:
            repeat: Whether to start work that has ended again.
            context: Context variables of the task (default: those of the caller).
        """
        task = self.current
        if task is None or (repeat and task.done()):
            self._task = task = asyncio.get_running_loop().create_task(self._work(), context=context)
            # The callers that wait get the failure; if none waits, asyncio must not log the exception as never retrieved.
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
        return task

    def clear(self) -> asyncio.Task[None] | None:
        """Forget the task, so that the next `start` begins again. Return that of the running event loop."""
        task, self._task = self.current, None
        return task
