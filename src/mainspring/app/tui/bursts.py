"""Tells pasting from typing where the terminal does not: a paste comes faster than anybody types."""

from __future__ import annotations

_PAUSE = 0.02
_READ_AT_ONCE = 1_000


class Bursts:
    """Is told of each key, and says of Enter whether it is part of a paste."""

    def __init__(self) -> None:
        self._last = -1.0
        self._keys = 0
        self._lines = 0

    def key(self, now: float) -> None:
        """A key came."""
        if now - self._last > _PAUSE:
            self._keys = self._lines = 0
        self._last = now
        self._keys += 1

    def text(self, text: str) -> None:
        """A text came as one key, of which `key` was told."""
        self._keys += len(text) - 1
        self._lines += text.count("\n")

    def is_pasted(self, waiting: int, now: float) -> bool:
        """Whether an Enter that came just now stands in a pasted text.

        Args:
            waiting: How many keys have come behind it already.
            now: The time.
        """
        if now - self._last > _PAUSE:
            self._lines = 0
        pasted = waiting > 0 or self._lines > 0 or self._keys >= _READ_AT_ONCE
        self._lines += pasted
        return pasted
