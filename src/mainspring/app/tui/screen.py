"""The screen: prints finished rows into the scrollback, and draws the live rows, the input, and the status below."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TextIO, TypeVar

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle, Style

from mainspring.app.tui.dialogs import Dialog
from mainspring.app.tui.input_field import InputProcessor
from mainspring.app.tui.paste import BurstInput, PasteStore
from mainspring.app.tui.safe_text import to_encoding, to_one_row
from mainspring.app.tui.styled_text import Row, clip_row, make_row, to_fragments
from mainspring.app.tui.theme import Theme

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_FOCUS_ON, _FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"


class FrameOutput(Vt100_Output):
    """Writes a whole frame in one go, so that the terminal never shows a part of it.

    Args:
        stdout: The terminal.
        theme: The theme.
        term: The value of ``TERM``.
        on_close: Called when the terminal is closed.
    """

    def __init__(self, stdout: TextIO, theme: Theme, term: str, on_close: Callable[[], object]) -> None:
        super().__init__(stdout, lambda: _size(stdout), term=term, enable_cpr=False)
        self._theme = theme
        self._on_close = on_close
        self._framing = False
        self._lost = False

    def begin_frame(self) -> None:
        """Start a frame."""
        if not self._framing:
            self.flush()
            self._framing = True

    def end(self) -> None:
        """Write the frame."""
        if self._framing:
            self._framing = False
            if self._buffer:
                self._buffer.insert(0, _BEGIN)
                self._buffer.append(_END)
            self.flush()

    def set_focus_reporting(self, is_enabled: bool) -> None:
        """Make the terminal report whether its window has the focus, or not."""
        self.write_raw(_FOCUS_ON if is_enabled else _FOCUS_OFF)
        self.flush()

    def write(self, data: str) -> None:
        """Write text, converted to the encoding of the terminal."""
        super().write(data if self._theme.utf8 else to_encoding(data, _encodable(self.stdout)))

    def erase_down(self) -> None:
        """Erase the rows below, without the sequence that makes some terminals copy the window to the scrollback."""
        self.write_raw("\x1b7\x1b[X\x1b[C\x1b[J\x1b8")

    def flush(self) -> None:
        """Write the buffer, unless a frame is incomplete."""
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
            self._on_close()


def _encodable(stream: TextIO) -> str:
    return stream.encoding or "ascii"


def _size(stream: TextIO) -> Size:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return Size(rows=24, columns=80)
    return Size(rows=found.lines or 24, columns=found.columns or 80)


_R = TypeVar("_R")


class InlineApplication(Application[None]):
    """An application below its own scrollback. Requires a `FrameOutput`.

    Attributes:
        resized: Called when the size of the window changes.
    """

    resized: Callable[[], object] | None = None
    frame: FrameOutput

    def invalidate(self) -> None:
        """Draw soon, also if the system clock was set back, which would otherwise delay frames."""
        if self._last_redraw_time > time.time():
            self._last_redraw_time = 0.0
        super().invalidate()

    def _on_resize(self) -> None:
        """Draw again. Terminals wrap rows that are too long now, so more rows than before may have to be erased."""
        self.frame.begin_frame()
        above = self._rows_above_cursor()
        if above > 0:
            self.output.cursor_up(above)
        if self.resized is not None:
            self.resized()
        super()._on_resize()
        self.frame.end()

    def _rows_above_cursor(self) -> int:
        """Return how many rows above the cursor exist because of wrapping."""
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
        """Return True if the last frame was taller than the next one."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return False
        size = self.output.get_size()
        return layout.container.preferred_height(size.columns, size.rows).preferred < screen.height


_FRAME_SECONDS = 0.04
_DEPTHS = {
    "none": ColorDepth.DEPTH_1_BIT,
    "16": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}
_MENU_ROWS = 6
_ESCAPE_SECONDS = 0.05
_SEQUENCE_SECONDS = 0.1
_VIM_SEQUENCE_SECONDS = 0.5
"""Seconds in which the next key of a vim command must follow, for example in `gg`."""
_TYPING_GRACE_SECONDS = 0.7
"""Seconds after typing in which keys do not answer a question that just appeared."""
_READ_QUESTION_SECONDS = 0.5
"""Minimum seconds to read a question: an earlier key was meant for the input."""
_MIN_QUESTION_SIZE = Size(rows=8, columns=20)
"""Size of a window that shows a part of each question; in a smaller one, a key could allow a call that the user cannot see."""
_TOO_SMALL_HINT = "Enlarge the window to answer"


class Screen:
    """The screen: finished rows above, live rows, the input, and the status.

    Args:
        live_rows: Returns the rows above the input, from the columns, the rows, and the maximum number of rows.
        status_row: Returns the last row, from the columns.
        buffer: The input.
        theme: The theme.
        terminal: The output.
        keyboard: The source of keys.
        term: The value of ``TERM``.
        restore: Restores the terminal before another program uses it.

    Attributes:
        hint: Text that replaces the status row.
        dialog: The question that is shown.
        editing_queued_id: ID of the queued message that is being edited.
        last_key: Time of the last key.
        note_live_rows: Called with the number of rows above the cursor after each frame.
    """

    def __init__(
        self,
        live_rows: Callable[[int, int, int], list[Row]],
        status_row: Callable[[int], Row],
        buffer: Buffer,
        theme: Theme,
        terminal: TextIO,
        keyboard: Input,
        term: str,
        restore: Callable[[], object],
    ) -> None:
        self._live_rows = live_rows
        self._status_row = status_row
        self._restore = restore
        self.look = theme
        self.pastes = PasteStore()
        self.buffer = buffer
        self.hint = ""
        self.answer = Buffer(multiline=True)
        self.dialog: Dialog | None = None
        self.last_key = 0.0
        self.note_live_rows: Callable[[int], object] = lambda count: None
        self._typed_at = 0.0
        self._asked_at = 0.0
        self.editing_queued_id = ""
        self._last_text_request: object = None
        self._pending: list[Row] = []
        self._rows_above: list[Row] = []
        self.output = FrameOutput(terminal, theme, term, self.exit)
        self._style: BaseStyle = Style.from_dict(dict(theme.styles))
        self._sign = make_row(("prompt", "> "))
        self.app = self._application(keyboard)

    def _application(self, keyboard: Input) -> InlineApplication:
        app = InlineApplication(
            layout=self._layout(),
            style=self._style,
            color_depth=_DEPTHS[self.look.colors],
            erase_when_done=True,
            min_redraw_interval=_FRAME_SECONDS,
            max_render_postpone_time=_FRAME_SECONDS,
            terminal_size_polling_interval=None,
            enable_page_navigation_bindings=False,
            include_default_pygments_style=False,
            input=BurstInput(keyboard),
            output=self.output,
        )
        app.frame = self.output
        app.ttimeoutlen = _ESCAPE_SECONDS
        app.timeoutlen = _SEQUENCE_SECONDS
        app.before_render += self._before_frame
        app.after_render += self._after_frame
        return app

    def _last_row(self) -> Row:
        columns = self._columns
        hint = _TOO_SMALL_HINT if self.is_question_hidden else self.hint
        return make_row(("warn", to_one_row(hint, columns - 1))) if hint else self._status_row(columns)

    def exit(self) -> None:
        """End the screen."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def write_sequence(self, sequence: str) -> None:
        """Write a terminal sequence."""
        self.output.write_raw(sequence)
        self.output.flush()

    async def run_outside(self, work: Callable[[], _R], *, in_executor: bool = True) -> _R:
        """Run another program that uses the terminal, and draw the screen again after it."""

        def run() -> _R:
            self._restore()
            return work()

        self.output.set_focus_reporting(False)
        try:
            return await run_in_terminal(run, in_executor=in_executor)
        finally:
            self.output.set_focus_reporting(True)

    def set_key_bindings(self, bindings: KeyBindingsBase) -> None:
        """Replace the key bindings."""
        self.app.key_bindings = bindings

    def _layout(self) -> Layout:
        live = Window(
            FormattedTextControl(lambda: _text(self._rows_above)),
            height=lambda: Dimension.exact(len(self._rows_above)),
            always_hide_cursor=True,
        )
        typed = BufferControl(self.buffer, input_processors=[InputProcessor(self.pastes)])
        self._input_window = Window(
            typed,
            height=lambda: Dimension(min=1, max=self._most_input()),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._answer_window = Window(
            BufferControl(self.answer, input_processors=[InputProcessor(self.pastes)]),
            height=lambda: Dimension(min=1, max=self._most_input()),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(
            FormattedTextControl(lambda: _text([self._last_row()])),
            height=1,
            always_hide_cursor=True,
        )
        wants = Condition(lambda: self.dialog is not None and self.dialog.text_request is not None)
        types = Condition(lambda: not self.dialog_takes_keys())
        root = HSplit(
            [
                live,
                ConditionalContainer(self._input_window, types & ~wants),
                ConditionalContainer(self._answer_window, wants),
                ConditionalContainer(CompletionsMenu(max_height=_MENU_ROWS), types & ~wants),
                status,
                Window(height=Dimension(min=0, preferred=0)),
            ]
        )
        return Layout(root, focused_element=self._input_window)

    def dialog_takes_keys(self) -> bool:
        """Return True if keys answer the question instead of going to the input."""
        if self.dialog is None or self.is_question_hidden:
            return False
        now = time.monotonic()
        return now - self._typed_at >= _TYPING_GRACE_SECONDS and now - self._asked_at >= _READ_QUESTION_SECONDS

    @property
    def is_question_hidden(self) -> bool:
        """Whether the window is too small for the open question, which then takes no keys."""
        size, needed = self.output.get_size(), _MIN_QUESTION_SIZE
        return (
            self.dialog is not None
            and bool(self.dialog.id)
            and not (size.rows >= needed.rows and size.columns >= needed.columns)
        )

    def on_key(self) -> None:
        """Note the time of a key."""
        self.last_key = time.monotonic()
        is_vim_command = self.vim_mode not in ("", "INSERT")
        self.app.timeoutlen = _VIM_SEQUENCE_SECONDS if is_vim_command else _SEQUENCE_SECONDS
        if not self.dialog_takes_keys():
            self._typed_at = self.last_key

    def set_typing(self, is_typing: bool) -> None:
        """Note whether the user types, so that the next keys do not answer a question, or requested the question with a key."""
        self._typed_at = time.monotonic() if is_typing else 0.0

    def type_into_input(self, character: str) -> None:
        """Insert a character that does not answer the open question."""
        self.set_typing(True)
        if character.isprintable() or character == "\n":
            self.buffer.insert_text(character)

    def show_dialog(self, dialog: Dialog | None) -> None:
        """Show a question, or hide it."""
        if dialog is not self.dialog and dialog is not None:
            # The user requested the list of a command, so its keys work immediately.
            self._asked_at = time.monotonic() if dialog.id else 0.0
            if not self.buffer.text:
                self._typed_at = 0.0
        self.dialog = dialog
        self.update_dialog_input()

    def update_dialog_input(self) -> None:
        """Update the focus after the question requested a text or stopped doing so."""
        wants = self.dialog.text_request if self.dialog else None
        if wants is not self._last_text_request:
            self._last_text_request = wants
            if wants is not None:
                self.answer.reset()
                self.answer.insert_text(wants.initial)
            self.app.layout.focus(self._answer_window if wants is not None else self._input_window)
        self.app.invalidate()

    def print(self, rows: list[Row], *, redraw: bool = True) -> None:
        """Print finished rows with the next frame.

        Args:
            rows: The rows.
            redraw: Whether to draw a frame soon, even if nothing else changes.
        """
        self._pending += rows
        if redraw:
            self.app.invalidate()

    def print_pending(self) -> None:
        """Print the finished rows now, in place of a frame or after the last one."""
        pending, self._pending = self._pending, []
        print_formatted_text(self.output, [*to_fragments(pending)], self._style, color_depth=self.app.color_depth)

    def invalidate(self) -> None:
        """Draw a frame soon."""
        self.app.invalidate()

    def set_theme(self, theme: Theme) -> None:
        """Change the theme."""
        self.look = theme
        self.app.style = self._style = Style.from_dict(dict(theme.styles))

    def set_vim(self, is_on: bool) -> None:
        """Use the keys of vim in the input, or those of emacs."""
        self.app.editing_mode = EditingMode.VI if is_on else EditingMode.EMACS
        self.app.vi_state.input_mode = InputMode.INSERT
        self.app.invalidate()

    @property
    def vim_mode(self) -> str:
        """The mode of vim: ``INSERT``, ``NORMAL``, ``REPLACE``, or ``VISUAL``; empty without the keys of vim."""
        if self.app.editing_mode is not EditingMode.VI:
            return ""
        mode = self.app.vi_state.input_mode
        if mode is InputMode.NAVIGATION:
            return "VISUAL" if self.buffer.selection_state else "NORMAL"
        return "INSERT" if mode in (InputMode.INSERT, InputMode.INSERT_MULTIPLE) else "REPLACE"

    @property
    def is_vim_idle(self) -> bool:
        """Whether vim is in its normal mode and waits for a command."""
        state = self.app.vi_state
        return self.vim_mode == "NORMAL" and state.operator_func is None and not state.waiting_for_digraph

    @property
    def _columns(self) -> int:
        return self.output.get_size().columns

    def _most_input(self) -> int:
        return max(self.output.get_size().rows // 3, 1)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [*self._sign] if self.editing_queued_id == "" else [("class:mark", "e ")]

    def _before_frame(self, _: object) -> None:
        """Before a frame is drawn, print pending rows in place of the previous frame."""
        size = self.output.get_size()
        self.output.begin_frame()
        typed = 1 if self.dialog_takes_keys() and self.dialog and not self.dialog.text_request else self._input_rows()
        max_rows = max(size.rows - typed - 2, 0)
        self._rows_above = [
            clip_row(each, size.columns - 1) for each in self._live_rows(size.columns, size.rows, max_rows)
        ]
        if self._pending:
            self.app.renderer.erase(leave_alternate_screen=False)
            self.print_pending()
        elif self.app.is_taller_than(self.app.layout):
            self.app.renderer.erase(leave_alternate_screen=False)

    def _after_frame(self, _: object) -> None:
        self.output.end()
        if self.is_question_hidden:
            self._asked_at = math.inf
        elif self._asked_at == math.inf:
            self._asked_at = time.monotonic()
        if (shown := self.app.renderer.last_rendered_screen) is not None:
            self.note_live_rows(shown.get_cursor_position(self.app.layout.current_window).y)

    def _input_rows(self) -> int:
        menu = _MENU_ROWS if self.buffer.complete_state else 0
        return min(self.buffer.document.line_count, self._most_input()) + menu

    def clear(self) -> None:
        """Clear the window; the scrollback stays."""
        self.app.renderer.clear()
        self.app.invalidate()


def _text(rows: list[Row]) -> StyleAndTextTuples:
    """Return rows as fragments, without a line end after the last row."""
    return [*to_fragments(rows)[:-1]]
