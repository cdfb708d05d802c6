"""Signal handling: the first signal stops the run or the screen gracefully; a second signal or a timeout exits immediately."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from mainspring.cancellation import CancelToken

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SCREEN_GRACE_SECONDS = 8.0
"""Seconds that a graceful shutdown of the screen may take."""
_RESTORE_SECONDS = 1.0
"""Seconds that restoring the terminal may take after that."""


class ScreenShutdown:
    """Context manager that handles signals while the screen is shown. Signals that were ignored stay ignored.

    Args:
        before_exit: Callback that closes the screen; called in the signal handler.
        restore: Callback that restores the terminal before the process exits immediately.

    Attributes:
        number: Number of the first signal, or 0.
    """

    def __init__(self, before_exit: Callable[[], object], restore: Callable[[], object]) -> None:
        self.number = 0
        self._before_exit = before_exit
        self._restore = restore
        self._before: dict[int, Any] = {}
        self._limit: threading.Timer | None = None

    def __enter__(self) -> Self:
        for name in _NAMES:
            number: int | None = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._limit is not None:
            self._limit.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._exit_now()
        self.number = number
        self.start_deadline()
        self._before_exit()

    def start_deadline(self, seconds: float = _SCREEN_GRACE_SECONDS) -> None:
        """Start the shutdown timeout: the process exits after it, even if something blocks."""
        if self._limit is None:
            self._limit = threading.Timer(seconds, self._exit_now)
            self._limit.daemon = True
            self._limit.start()

    def _exit_now(self) -> None:
        restoring = threading.Thread(target=self._restore, daemon=True)  # blocks if the terminal is not read
        try:
            restoring.start()
            restoring.join(_RESTORE_SECONDS)
        finally:
            os._exit(128 + self.number if self.number else 1)


_GRACE_SECONDS = 15.0
"""Seconds that a graceful shutdown may take."""


_CLEANUP_SECONDS = 1.0
"""Seconds that writing the last line may take."""


class GracefulShutdown:
    """Context manager that handles SIGINT, SIGTERM, and SIGHUP. Signals that were ignored stay ignored (``nohup``).

    Args:
        token: Cancellation token; the first signal cancels it.
        before_exit: Callback that runs in a thread before the process exits immediately. The process does not wait long for it.

    Attributes:
        number: Number of the first signal, or 0.
    """

    def __init__(self, token: CancelToken, before_exit: Callable[[int], object]) -> None:
        self.number = 0
        self._token = token
        self._before_exit = before_exit
        self._before: dict[int, object] = {}

    def __enter__(self) -> GracefulShutdown:
        # A signal handler runs only in the main thread, which may be blocked in a write. The signal itself writes to
        # the wake-up pipe, which a running thread reads.
        self._woken, self._wakeup_fd = os.pipe()
        os.set_blocking(self._wakeup_fd, False)
        threading.Thread(target=self._watch, daemon=True, name="interrupts").start()
        for name in _NAMES:
            number: int | None = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
        if not self.number:  # the timeout applies after a signal until the process exits
            os.close(self._wakeup_fd)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.number:
            self.number = number
            self._token.cancel(f"Stopped by {signal.Signals(number).name}")

    def _watch(self) -> None:
        """Wait for a signal, then for a second signal or the timeout."""
        while came := os.read(self._woken, 1):
            if came[0] in self._before:
                select.select([self._woken], [], [], _GRACE_SECONDS)
                self.number = self.number or came[0]
                self._exit_now()
        os.close(self._woken)

    def _exit_now(self) -> None:
        """Exit immediately, even if a write to an unread pipe blocks."""
        try:
            leaving = threading.Thread(target=self._before_exit, args=(self.number,), daemon=True)
            leaving.start()
            leaving.join(_CLEANUP_SECONDS)
        finally:
            os._exit(128 + self.number)
