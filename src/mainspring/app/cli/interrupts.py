"""Signals: the first ends the run cleanly, the second leaves at once."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType

from mainspring.cancellation import CancelToken

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_LONGEST = 15.0
"""Seconds that an orderly end may take."""

_LAST_WORDS = 1.0
"""Seconds in which the last line has to be out."""


class Interrupts:
    """Listens to SIGINT, SIGTERM and SIGHUP while it is entered; those that were ignored stay ignored (``nohup``).

    Args:
        token: Is set by the first signal.
        leave: Called in a thread before the process leaves at once, which does not wait long for it.

    Attributes:
        number: The signal that came first; 0 where none did.
    """

    def __init__(self, token: CancelToken, leave: Callable[[int], object]) -> None:
        self.number = 0
        self._token = token
        self._leave = leave
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        # A handler runs only when the main thread comes to it, which one that is stuck in a write never does. The wake-up
        # pipe is written by the signal itself, and a thread that is there already reads it.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        threading.Thread(target=self._watch, daemon=True, name="interrupts").start()
        for name in _NAMES:
            number: int | None = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
        if not self.number:  # after a signal the limit holds until the process is gone
            os.close(self._wake)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if not self.number:
            self.number = number
            self._token.cancel(f"stopped by {signal.Signals(number).name}")

    def _watch(self) -> None:
        """Wait for a signal, then for a second one or the end of patience."""
        while came := os.read(self._woken, 1):
            if came[0] in self._before:
                select.select([self._woken], [], [], _LONGEST)
                self.number = self.number or came[0]
                self._now()
        os.close(self._woken)

    def _now(self) -> None:
        """Leave, whatever else hangs: an output that nobody reads may be in the middle of a write."""
        try:
            leaving = threading.Thread(target=self._leave, args=(self.number,), daemon=True)
            leaving.start()
            leaving.join(_LAST_WORDS)
        finally:
            os._exit(128 + self.number)
