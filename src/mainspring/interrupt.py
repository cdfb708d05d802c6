"""An abort reaches what is being waited for."""

from __future__ import annotations

import asyncio

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError


class Interrupt:
    """``async with Interrupt(signal)``: when the signal is set, what runs inside is cancelled and AgentAbortedError raised.

    Costs one callback, no task. A cancellation that comes from elsewhere passes through untouched.

    Args:
        signal: What to watch.
        grace: Seconds that what runs inside gets to end by itself; what goes on in spite of a cancellation is cancelled
            again after as long. With 0 nothing is begun any more once the signal is set.
    """

    __slots__ = ("_cancelling", "_grace", "_hits", "_loop", "_remove", "_signal", "_task", "_timer")

    def __init__(self, signal: CancelToken, grace: float = 0) -> None:
        self._signal = signal
        self._grace = grace
        self._hits = 0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        if self._signal.cancelled and not self._grace:
            raise AgentAbortedError(self._signal.reason)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._loop = loop = asyncio.get_running_loop()
        self._remove = self._signal.on_cancel(lambda: loop.call_soon_threadsafe(self._wait))

    def _wait(self) -> None:
        if self._remove is None:
            return
        if self._grace:
            self._timer = self._loop.call_later(self._grace, self._fire)
        else:
            self._fire()

    def _fire(self) -> None:
        if self._remove is not None:
            self._hits += 1
            self._task.cancel()
            if self._grace:
                self._wait()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()
        if self._timer is not None:
            self._timer.cancel()
        if not self._hits:
            return
        if kind is None:
            try:  # The cancellation is on its way: take it here, not in whatever is awaited next.
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                kind = asyncio.CancelledError
        left = self._cancelling
        for _ in range(self._hits):
            left = self._task.uncancel()
        if left <= self._cancelling and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise AgentAbortedError(self._signal.reason) from None
