"""The screen: prints finished rows into the scrollback, and draws the live rows, the input, and the status below."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindingsBase
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
from mainspring.app.tui.input_field import Complete, HistoryFile, PlaceholderProcessor, create_input_buffer
from mainspring.app.tui.paste import BurstInput, PasteStore
from mainspring.app.tui.safe_text import to_encoding
from mainspring.app.tui.styled_text import Row, clip_row, make_row, to_fragments
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
_TYPING_GRACE_SECONDS = 0.7
"""Who has just typed does not mean to answer a question that has only now appeared."""
_READ_QUESTION_SECONDS = 0.5
"""Nobody reads a question and answers it in less: a key that comes sooner was meant for the input."""


class ScreenContent(Protocol):
    """Whom the screen asks what to draw."""

    def live_rows(self, columns: int, rows: int, most: int) -> list[Row]:
        """What is going on, above the input."""
        ...

    def status_row(self, columns: int) -> Row:
        """The last row."""
        ...

    def gone(self) -> None:
        """The terminal is gone."""
        ...


class Screen:
    """The screen of one session.

    Args:
        host: Says what to draw.
        look: How things are shown.
        terminal: Where to.
        keyboard: Where keys come from.
        history: Where earlier inputs are kept.
        complete: Gives completions.
        environ: Names the terminal.
    """

    def __init__(
        self,
        host: ScreenContent,
        look: Theme,
        terminal: TextIO,
        keyboard: Input,
        history: HistoryFile,
        complete: Complete,
        environ: Mapping[str, str],
    ) -> None:
        self._check_host = host
        self.look = look
        self.pastes = PasteStore()
        self.buffer = create_input_buffer(history, complete)
        self.answer = Buffer(multiline=True)
        self.dialog: Dialog | None = None
        self.last_key = 0.0
        self._typed_at = 0.0
        self._asked_at = 0.0
        self.editing_queued_id = ""
        """Id of the queued text that is being edited."""
        self._last_text_request: object = None
        self._pending: list[Row] = []
        self._above: list[Row] = []
        self.output = FrameOutput(terminal, look, environ.get("TERM", ""), host.gone)
        self._style: BaseStyle = Style.from_dict(dict(look.styles))
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

    def bind(self, bindings: KeyBindingsBase) -> None:
        """Have keys do something."""
        self.app.key_bindings = bindings

    def _layout(self) -> Layout:
        live = Window(
            FormattedTextControl(lambda: _text(self._above)),
            height=lambda: Dimension.exact(len(self._above)),
            always_hide_cursor=True,
        )
        typed = BufferControl(self.buffer, input_processors=[PlaceholderProcessor(self.pastes)])
        self._input_window = Window(
            typed,
            height=lambda: Dimension(min=1, max=self._most_input()),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._answer_window = Window(
            BufferControl(self.answer),
            height=lambda: Dimension(min=1, max=self._most_input()),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(
            FormattedTextControl(lambda: _text([self._check_host.status_row(self._columns)])),
            height=1,
            always_hide_cursor=True,
        )
        wants = Condition(lambda: self.dialog is not None and self.dialog.wants is not None)
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
        """Whether keys go to the question that is shown, and not into the input."""
        if self.dialog is None:
            return False
        now = time.monotonic()
        return now - self._typed_at >= _TYPING_GRACE_SECONDS and now - self._asked_at >= _READ_QUESTION_SECONDS

    def on_key(self) -> None:
        """A key was pressed."""
        self.last_key = time.monotonic()
        if not self.dialog_takes_keys():
            self._typed_at = self.last_key

    def type_into_input(self, character: str) -> None:
        """Somebody types a text, though a question is shown: it goes into the input, and does not answer."""
        self._typed_at = time.monotonic()
        if character.isprintable():
            self.buffer.insert_text(character)

    def ask(self, dialog: Dialog | None) -> None:
        """Show a question, or none."""
        if dialog is not self.dialog and dialog is not None:
            # A list that a command gave was asked for by whoever typed the command.
            self._asked_at = time.monotonic() if dialog.id else 0.0
            if not self.buffer.text:
                self._typed_at = 0.0
        self.dialog = dialog
        self.sync()

    def sync(self) -> None:
        """Follow what the question wants."""
        wants = self.dialog.wants if self.dialog else None
        if wants is not self._last_text_request:
            self._last_text_request = wants
            if wants is not None:
                self.answer.reset()
                self.answer.insert_text(wants.initial)
            self.app.layout.focus(self._answer_window if wants is not None else self._input_window)
        self.app.invalidate()

    def print(self, rows: list[Row], *, soon: bool = True) -> None:
        """Print rows for good, with the next frame.

        Args:
            rows: The rows.
            soon: Whether there is to be one even if nothing else asks for it.
        """
        self._pending += rows
        if soon:
            self.app.invalidate()

    def invalidate(self) -> None:
        """Draw again, with the next frame."""
        self.app.invalidate()

    def set_theme(self, look: Theme) -> None:
        """Other colours from now on."""
        self.look = look
        self.app.style = self._style = Style.from_dict(dict(look.styles))

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
        """Just before a frame is drawn: print what waits, where the frame before stood."""
        size = self.output.get_size()
        self.output.begin()
        typed = 1 if self.dialog_takes_keys() and self.dialog and not self.dialog.wants else self._input_rows()
        most = max(size.rows - typed - 2, 0)
        self._above = [
            clip_row(each, size.columns - 1) for each in self._check_host.live_rows(size.columns, size.rows, most)
        ]
        if self._pending:
            pending, self._pending = self._pending, []
            self.app.renderer.erase(leave_alternate_screen=False)
            print_formatted_text(self.output, [*to_fragments(pending)], self._style, color_depth=self.app.color_depth)
        elif self.app.is_taller_than(self.app.layout):
            self.app.renderer.erase(leave_alternate_screen=False)

    def _after_frame(self, _: object) -> None:
        self.output.end()

    def _input_rows(self) -> int:
        menu = _MENU_ROWS if self.buffer.complete_state else 0
        return min(self.buffer.document.line_count, self._most_input()) + menu

    def clear(self) -> None:
        """An empty window; what was printed stays in the scrollback."""
        self.app.renderer.clear()
        self.app.invalidate()


def _text(rows: list[Row]) -> StyleAndTextTuples:
    """Rows as prompt-toolkit takes them, without a line end behind the last."""
    return [*to_fragments(rows)[:-1]]
