"""The keyboard: many plain characters that come at once are one key, for each key costs as much as a short text.

Tells pasting from typing where the terminal does not: a paste comes faster than anybody types.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

BURST = "\ue000"
"""The key that stands for them; its data are the text. Terminals that mark pastes never send so much at once otherwise."""


_MIN_BURST_KEYS = 32
_PLAIN = {Keys.ControlM: "\n", Keys.ControlJ: "\n", Keys.ControlI: "\t"}


class BurstInput(Input):
    """Keys of another input, bursts together.

    Args:
        keys: The other input.
    """

    def __init__(self, keys: Input) -> None:
        self._keys = keys

    def read_keys(self) -> list[KeyPress]:
        """What came."""
        return join_bursts(self._keys.read_keys())

    def flush_keys(self) -> list[KeyPress]:
        """What was held back until it is clear that nothing follows."""
        return self._keys.flush_keys()

    def fileno(self) -> int:
        """Descriptor for event loops."""
        return self._keys.fileno()

    def typeahead_hash(self) -> str:
        """Names the input for what is typed ahead."""
        return self._keys.typeahead_hash()

    def flush(self) -> None:
        """Flush it."""
        self._keys.flush()

    @property
    def closed(self) -> bool:
        """Whether nothing can come any more."""
        return self._keys.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Have keys come one by one."""
        return self._keys.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Have lines come."""
        return self._keys.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Be told when keys have come."""
        return self._keys.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Be not told any more."""
        return self._keys.detach()

    def close(self) -> None:
        """Close it."""
        self._keys.close()


def join_bursts(keys: list[KeyPress]) -> list[KeyPress]:
    """Keys with each long run of characters as one. An Enter at the end of all stays one: it may mean to send what is before it."""
    if len(keys) < _MIN_BURST_KEYS:
        return keys
    found: list[KeyPress] = []
    run: list[KeyPress] = []
    for key in keys:
        if _text_of(key):
            run.append(key)
        else:
            found += _join_run(run)
            found.append(key)
            run = []
    last = run.pop() if run and run[-1].key == Keys.ControlM else None
    return [*found, *_join_run(run), *([last] if last else [])]


def _join_run(run: list[KeyPress]) -> list[KeyPress]:
    return run if len(run) < _MIN_BURST_KEYS else [KeyPress(BURST, "".join(map(_text_of, run)))]


def _text_of(key: KeyPress) -> str:
    """The character of a plain key; nothing for any other."""
    if isinstance(key.key, Keys):
        return _PLAIN.get(key.key, "")
    return key.key if len(key.key) == 1 and key.data == key.key else ""


_MAX_PASTE_GAP_SECONDS = 0.02
_READ_SIZE = 1_000


class PasteDetector:
    """Is told of each key, and says of Enter whether it is part of a paste."""

    def __init__(self) -> None:
        self._last = -1.0
        self._keys = 0
        self._lines = 0

    def key(self, now: float) -> None:
        """A key came."""
        if now - self._last > _MAX_PASTE_GAP_SECONDS:
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
        if now - self._last > _MAX_PASTE_GAP_SECONDS:
            self._lines = 0
        pasted = waiting > 0 or self._lines > 0 or self._keys >= _READ_SIZE
        self._lines += pasted
        return pasted
