"""The drawn part of the screen: what is going on, the input and the status, below all that is printed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.layout import Layout

from mainspring.app.tui.inline_app import FrameOutput

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

    def too_high(self, layout: Layout) -> bool:
        """Whether what was drawn last is higher than what is to be drawn now."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return False
        size = self.output.get_size()
        return layout.container.preferred_height(size.columns, size.rows).preferred < screen.height
