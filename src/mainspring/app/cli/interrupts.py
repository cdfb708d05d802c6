"""Signals: the first ends the run cleanly, the second leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from mainspring.events import CancelToken

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
        for name in _NAMES:
            number: int | None = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._now()
        self.number = number
        limit = threading.Timer(_LONGEST, self._now)
        limit.daemon = True
        limit.start()
        self._token.cancel(f"stopped by {signal.Signals(number).name}")

    def _now(self) -> None:
        """Leave, whatever else hangs: an output that nobody reads may be in the middle of a write."""
        try:
            leaving = threading.Thread(target=self._leave, args=(self.number,), daemon=True)
            leaving.start()
            leaving.join(_LAST_WORDS)
        finally:
            os._exit(128 + self.number)
