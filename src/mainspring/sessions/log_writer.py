"""Lines on their way into a log: in order, one write at a time, kept in memory while the log cannot take them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from mainspring.sessions.store import Problem, SessionLog

MAX_INLINE_BYTES = 256 * 1024
"""Bytes up to which a write is made in the event loop: it takes microseconds there, and a thread costs more."""


class LogWriter:
    """The only one who writes to a log.

    A small append to a quick log is made at once. Large ones, the first one (which makes the file) and those that wait for the disk go
    through a thread, and whatever comes meanwhile is written after them together.

    Args:
        log: Where to write.
        tell: Gets what people should know.
        retry_after: Seconds after a failure before the next try.
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
            Whether they are in the log. If not, they are `unsaved`, and the trouble was told.
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
        """Whether the last write did not work out."""
        return self._failed is not None

    def flush(self) -> None:
        """Write what is left, and block meanwhile."""
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
        done.set_running_or_notify_cancel()  # who waits for it may be cancelled, the write is not
        self._busy = done

        def work() -> None:
            try:
                self._store(batch, sync)
            finally:
                self._busy = None
                done.set_result(None)

        try:
            asyncio.get_running_loop().run_in_executor(None, work)
        except RuntimeError:  # the loop is closing down and takes no more work
            work()
        await asyncio.wrap_future(done)

    def _store(self, batch: list[bytes], sync: bool) -> None:
        try:
            self._log.append(batch, sync=sync)
        except OSError as error:
            self.unsaved[:0] = batch
            first, self._failed = self._failed is None, time.monotonic()
            if first:
                text = f"the session cannot be saved to {self._log.place} ({error.strerror or error})"
                self._tell(Problem("unsaved", f"{text}: it goes on in memory, and saving is tried again"))
            return
        if self._failed is not None:
            self._failed = None
            self._tell(Problem("saved", f"the session is saved again to {self._log.place}, nothing is missing"))
