"""Saving and closing a session, blocking or not."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from mainspring.sessions.journal import SessionWriter, check_blocking


class SessionLifetime:
    """The part of a `Session` that saves and closes it. A context manager for ``with`` and ``async with``."""

    journal: SessionWriter
    on_close: list[Callable[[], None]]

    def save(self) -> None:
        """Store everything now, even a session without messages. Blocks; see also `asave`.

        Raises:
            SessionError: If it is closed, or in an asynchronous store.
        """
        self.journal.check_open()
        self.journal.save()

    async def asave(self) -> None:
        """Store everything now, even a session without messages. Works with every store.

        Raises:
            SessionError: If it is closed.
        """
        self.journal.check_open()
        await self.journal.flush(durable=True)

    def close(self) -> None:
        """Store the rest and release it for other writers. Blocks; see also `aclose`.

        It can still be read; new messages are rejected.

        Raises:
            SessionError: If it is in an asynchronous store; it stays open.
        """
        check_blocking(self.journal.log)
        self._call_on_close()
        self.journal.close()

    async def aclose(self) -> None:
        """Store the rest and release it for other writers, without blocking the event loop. Works with every store."""
        self._call_on_close()
        await self.journal.aclose()

    def _call_on_close(self) -> None:
        closing, self.on_close = self.on_close, []
        for close in closing:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
