"""The terminal as the screen writes to it: whole frames, and none at all once it is gone.

The drawn part of the screen: what is going on, the input and the status, below all that is printed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.vt100 import Vt100_Output

from mainspring.app.tui.safe_text import to_encoding
from mainspring.app.tui.theme import Theme

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_FOCUS_ON, _FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"


class FrameOutput(Vt100_Output):
    """Writes what makes up a frame at once, so that terminals show it whole.

    Args:
        stdout: The terminal.
        look: What it can show.
        term: Its kind, by ``TERM``.
        gone: Called when it cannot be written any more.
    """

    def __init__(self, stdout: TextIO, look: Theme, term: str, gone: Callable[[], object]) -> None:
        super().__init__(stdout, lambda: _size(stdout), term=term, enable_cpr=False)
        self._look = look
        self._gone = gone
        self._framing = False
        self._lost = False

    def begin(self) -> None:
        """What follows belongs together."""
        if not self._framing:
            self.flush()
            self._framing = True

    def end(self) -> None:
        """It is complete."""
        if self._framing:
            self._framing = False
            if self._buffer:
                self._buffer.insert(0, _BEGIN)
                self._buffer.append(_END)
            self.flush()

    def set_focus_reporting(self, wanted: bool) -> None:
        """Have the terminal tell whether its window has the focus."""
        self.write_raw(_FOCUS_ON if wanted else _FOCUS_OFF)
        self.flush()

    def write(self, data: str) -> None:
        """Write text, in characters that the terminal has."""
        super().write(data if self._look.utf8 else to_encoding(data, _encodable(self.stdout)))

    def erase_down(self) -> None:
        """Erase what is below, in a way that terminals do not take for clearing the window, which some keep a copy of."""
        self.write_raw("\x1b7\x1b[X\x1b[C\x1b[J\x1b8")

    def flush(self) -> None:
        """Write what is there, unless it is part of a frame."""
        if self._framing:
            return
        if self._lost:
            self._buffer.clear()
            return
        try:
            super().flush()
        except (OSError, ValueError):
            self._lost = True
            self._buffer.clear()
            self._gone()


def _encodable(stream: TextIO) -> str:
    return stream.encoding or "ascii"


def _size(stream: TextIO) -> Size:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return Size(rows=24, columns=80)
    return Size(rows=found.lines or 24, columns=found.columns or 80)


R = TypeVar("R")


class InlineApplication(Application[None]):
    """An application below its own scrollback. Must be made with a `FrameOutput`.

    Attributes:
        resized: Called when the window has another size.
    """

    resized: Callable[[], object] | None = None
    frame: FrameOutput

    def invalidate(self) -> None:
        """Draw again soon. A clock that was set back would hold frames up until it has caught up."""
        if self._last_redraw_time > time.time():
            self._last_redraw_time = 0.0
        super().invalidate()

    def _on_resize(self) -> None:
        """Draw anew. Terminals wrap rows that have become too long, so there may be more to erase than was drawn."""
        self.frame.begin()
        above = self._rows_above_cursor()
        if above > 0:
            self.output.cursor_up(above)
        if self.resized is not None:
            self.resized()
        super()._on_resize()
        self.frame.end()

    def _rows_above_cursor(self) -> int:
        """How many more rows are above the cursor than were drawn there."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return 0
        columns = self.output.get_size().columns
        cursor = screen.get_cursor_position(self.layout.current_window)
        more = 0
        for number in range(cursor.y):
            drawn = screen.data_buffer[number]
            size = max((x + 1 for x, character in drawn.items() if character.char.strip()), default=1)
            more += (size - 1) // columns
        return more + cursor.x // columns

    def is_taller_than(self, layout: Layout) -> bool:
        """Whether what was drawn last is higher than what is to be drawn now."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return False
        size = self.output.get_size()
        return layout.container.preferred_height(size.columns, size.rows).preferred < screen.height
