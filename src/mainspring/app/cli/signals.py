"""Signals while the screen is shown: the first ends it in good order, a second one or the end of patience at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_PATIENCE = 8.0
"""Seconds that an orderly end may take."""
_RESTORING = 1.0
"""Seconds that the terminal may take then to come back."""


class Signals:
    """Listens while it is entered; signals that were ignored stay ignored.

    Args:
        leave: Ends the screen; is called within the handler.
        restore: Brings the terminal back before the process ends at once.

    Attributes:
        number: The signal that came first; 0 where none did.
    """

    def __init__(self, leave: Callable[[], object], restore: Callable[[], object]) -> None:
        self.number = 0
        self._leave = leave
        self._restore = restore
        self._before: dict[int, Any] = {}
        self._limit: threading.Timer | None = None

    def __enter__(self) -> Self:
        for name in _NAMES:
            number: int | None = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._limit is not None:
            self._limit.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._now()
        self.number = number
        self.hurry()
        self._leave()

    def hurry(self, seconds: float = _PATIENCE) -> None:
        """From now on the end may take so long, whatever hangs."""
        if self._limit is None:
            self._limit = threading.Timer(seconds, self._now)
            self._limit.daemon = True
            self._limit.start()

    def _now(self) -> None:
        restoring = threading.Thread(target=self._restore, daemon=True)  # hangs where nobody reads the terminal
        try:
            restoring.start()
            restoring.join(_RESTORING)
        finally:
            os._exit(128 + self.number if self.number else 1)
