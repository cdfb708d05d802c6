"""Writes lines to a log: in order, one write at a time, kept in memory while the log is unavailable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from mainspring.sessions.store import Problem, SessionLog

MAX_INLINE_BYTES = 256 * 1024
"""Maximum bytes that are written in the event loop: there a write takes microseconds, and a thread costs more."""


class LogWriter:
    """The only writer of a log.

    A small append to a fast log happens immediately. Large appends, the first one (which creates the file), and those that wait for the
    disk use a thread; lines that arrive in the meantime are written after them together.

    Args:
        log: Where to write.
        tell: Receives messages for the user.
        retry_after: Seconds after a failure before the next attempt.
    """

    def __init__(self, log: SessionLog, tell: Callable[[Problem], None], *, retry_after: float = 1.0) -> None:
        self.unsaved: list[bytes] = []
        self._log = log
        self._tell = tell
        self._retry_after = retry_after
        self._failed: float | None = None
        self._sync = False
        self._busy: Future[None] | None = None

    async def put(self, lines: Sequence[bytes], *, sync: bool = False) -> bool:
        """Write lines.

        Args:
            lines: One or several, in order.
            sync: Whether to wait until they would survive a power failure.

        Returns:
            Whether they are in the log. If not, they are `unsaved`, and the problem was reported.
        """
        if not self._log.writable:
            return False
        self.unsaved.extend(lines)
        self._sync = self._sync or sync
        while self._busy is not None:
            await asyncio.wrap_future(self._busy)
        if (self.unsaved or self._sync) and not self._is_in_backoff():
            batch, sync = self._take()
            if sync or not self._log.quick or not self._log.exists or sum(map(len, batch)) > MAX_INLINE_BYTES:
                await self._in_thread(batch, sync)
            else:
                self._store(batch, sync)
        return not self.failing

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._failed is not None

    def flush(self) -> None:
        """Write the rest. Blocks."""
        if self._busy is not None:
            self._busy.result()
        if self.unsaved and self._log.writable:
            self._store(*self._take())

    def _take(self) -> tuple[list[bytes], bool]:
        batch, sync = self.unsaved, self._sync
        self.unsaved, self._sync = [], False
        return batch, sync

    def _is_in_backoff(self) -> bool:
        return self._failed is not None and time.monotonic() - self._failed < self._retry_after

    async def _in_thread(self, batch: list[bytes], sync: bool) -> None:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # The caller may be cancelled, the write must not be.
        self._busy = done

        def work() -> None:
            try:
                self._store(batch, sync)
            finally:
                self._busy = None
                done.set_result(None)

        try:
            asyncio.get_running_loop().run_in_executor(None, work)
        except RuntimeError:  # The event loop is shutting down and accepts no more work.
            work()
        await asyncio.wrap_future(done)

    def _store(self, batch: list[bytes], sync: bool) -> None:
        try:
            self._log.append(batch, sync=sync)
        except OSError as error:
            self.unsaved[:0] = batch
            first, self._failed = self._failed is None, time.monotonic()
            if first:
                text = f"cannot save the session to {self._log.place} ({error.strerror or error})"
                self._tell(Problem("unsaved", f"{text}: it continues in memory, and saving will be retried"))
            return
        if self._failed is not None:
            self._failed = None
            self._tell(Problem("saved", f"saving the session to {self._log.place} works again, nothing is missing"))
