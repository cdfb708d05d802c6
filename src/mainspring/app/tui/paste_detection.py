"""The keyboard: many plain characters that come at once are one key, for each key costs as much as a short text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

BURST = "\ue000"
"""The key that stands for them; its data are the text. Terminals that mark pastes never send so much at once otherwise."""

_LEAST = 32
_PLAIN = {Keys.ControlM: "\n", Keys.ControlJ: "\n", Keys.ControlI: "\t"}


class Keyboard(Input):
    """Keys of another input, bursts together.

    Args:
        keys: The other input.
    """

    def __init__(self, keys: Input) -> None:
        self._keys = keys

    def read_keys(self) -> list[KeyPress]:
        """What came."""
        return joined(self._keys.read_keys())

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


def joined(keys: list[KeyPress]) -> list[KeyPress]:
    """Keys with each long run of characters as one. An Enter at the end of all stays one: it may mean to send what is before it."""
    if len(keys) < _LEAST:
        return keys
    found: list[KeyPress] = []
    run: list[KeyPress] = []
    for key in keys:
        if _text_of(key):
            run.append(key)
        else:
            found += _one(run)
            found.append(key)
            run = []
    last = run.pop() if run and run[-1].key == Keys.ControlM else None
    return [*found, *_one(run), *([last] if last else [])]


def _one(run: list[KeyPress]) -> list[KeyPress]:
    return run if len(run) < _LEAST else [KeyPress(BURST, "".join(map(_text_of, run)))]


def _text_of(key: KeyPress) -> str:
    """The character of a plain key; nothing for any other."""
    if isinstance(key.key, Keys):
        return _PLAIN.get(key.key, "")
    return key.key if len(key.key) == 1 and key.data == key.key else ""
