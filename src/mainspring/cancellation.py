"""Cancellation: one token that stops a run, a wait, a tool, or a download, and interrupts pending waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mainspring.errors import AgentAbortedError

_T = TypeVar("_T")


class CancelToken:
    """A flag that is set once and shared by everything that must stop. Thread-safe.

    Attributes:
        reason: Reason for the cancellation, for messages; empty until then.
    """

    __slots__ = ("_callbacks", "_set", "reason")

    def __init__(self) -> None:
        self._set = False
        self.reason = ""
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Return True if it has been set."""
        return self._set

    def cancel(self, reason: str = "aborted") -> None:
        """Set it; a second call has no effect."""
        if self._set:
            return
        self.reason = reason
        self._set = True
        for callback in self._callbacks[:]:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call ``callback`` when it is set (immediately if it already is), in the thread that sets it.

        Returns:
            A function that removes the callback.
        """
        self._callbacks.append(callback)
        if self._set:
            callback()

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    async def wait(self) -> None:
        """Wait until it is set."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        remove = self.on_cancel(lambda: loop.call_soon_threadsafe(done.set))
        try:
            await done.wait()
        finally:
            remove()


async def sleep(seconds: float, signal: CancelToken | None = None) -> bool:
    """Sleep, or wake early when ``signal`` is set.

    Returns:
        True if the whole time passed, False if it was cut short.
    """
    if signal is None:
        await asyncio.sleep(seconds)
        return True
    try:
        await asyncio.wait_for(signal.wait(), seconds)
    except TimeoutError:
        return True
    return False


async def run_cancellable(work: Callable[[], Awaitable[_T]], signal: CancelToken, grace: float) -> _T:
    """Run ``work``; when ``signal`` is set cancel it, and abandon it if it has not ended ``grace`` seconds later.

    Raises:
        asyncio.CancelledError: If the signal ended it (also if ``work`` swallowed the cancellation).
    """
    if signal.cancelled:
        raise asyncio.CancelledError(signal.reason)
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    over = loop.create_future()  # by the work or by the signal, whichever is first

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(end)
    remove = signal.on_cancel(lambda: loop.call_soon_threadsafe(end))
    try:
        await over
        if task.done():
            return task.result()
        task.cancel(signal.reason)
        await asyncio.wait((task,), timeout=grace)
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()  # It finished after all: return its result instead of hiding it.
        raise asyncio.CancelledError(signal.reason)
    except asyncio.CancelledError:
        if not task.done():  # cancelled from outside: the work gets its grace period, too
            task.cancel()
            await asyncio.wait((task,), timeout=grace)
        raise
    finally:
        remove()
        if not task.done():
            task.add_done_callback(_retrieve_exception)  # An error of an abandoned task is expected.
        else:
            _retrieve_exception(task)


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()


class cancel_scope:
    """Cancel the body when the signal is set and raise AgentAbortedError: ``async with cancel_scope(signal)``.

    Costs one callback, no task. A cancellation from elsewhere is not affected.

    Args:
        signal: The token to watch.
        grace: Seconds that the body gets to finish; a body that ignores a cancellation is cancelled again after the
            same time. With 0 nothing new starts once the signal is set.
    """

    __slots__ = ("_cancelling", "_grace", "_cancel_count", "_loop", "_remove", "_signal", "_task", "_timer")

    def __init__(self, signal: CancelToken, grace: float = 0) -> None:
        self._signal = signal
        self._grace = grace
        self._cancel_count = 0
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
            self._cancel_count += 1
            self._task.cancel()
            if self._grace:
                self._wait()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()
        if self._timer is not None:
            self._timer.cancel()
        if not self._cancel_count:
            return
        if kind is None:
            try:  # The cancellation is already scheduled: consume it here, not in the next await.
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                kind = asyncio.CancelledError
        remaining = self._cancelling
        for _ in range(self._cancel_count):
            remaining = self._task.uncancel()
        if remaining <= self._cancelling and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise AgentAbortedError(self._signal.reason) from None
