"""What keys do: sending, queued texts, pastes, the editor, stopping and leaving."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, get_args

from prompt_toolkit.application import run_in_terminal

from mainspring.app.chat.commands import (
    Abort,
    Attachment,
    EditQueued,
    Prompt,
    Queue,
    RemoveQueued,
    SendQueued,
    SetMode,
    Steer,
    parse_line,
)
from mainspring.app.chat.types import AgentMode
from mainspring.app.tui.external_programs import edit_in_editor, read_clipboard_image
from mainspring.app.tui.paste import ExpandedInput, find_image_path, read_image
from mainspring.app.tui.styled_text import make_row

if TYPE_CHECKING:
    from mainspring.app.tui.app import TerminalApp

T = TypeVar("T")

_DOUBLE_PRESS_SECONDS = 2.0
_EXIT_COMMANDS = ("/quit", "/exit", "/q")


class Actions:
    """What the user does.

    Args:
        session: Where.
    """

    def __init__(self, session: TerminalApp) -> None:
        self._session = session
        self._last_interrupt = -_DOUBLE_PRESS_SECONDS
        self._draft = ""

    @property
    def busy(self) -> bool:
        """Whether something can be stopped."""
        return self._session.running

    def submit(self, text: str, *, queue: bool) -> None:
        """What is typed is complete."""
        session = self._session
        buffer = session.screen.buffer
        session.hint = ""
        if session.screen.editing_queued_id:
            self._changed(text)
        elif not text.strip():
            if session.held and session.queue:
                session.send(SendQueued(session.queue[0].id))
        elif text.strip() in _EXIT_COMMANDS and not session.is_open:
            session.leave()
        else:
            whole = session.screen.pastes.expand(text)
            self._say(text, whole, Queue if queue else Steer if session.running else Prompt)
            buffer.append_to_history()
            buffer.reset()
            session.start(self._load_original(whole.text))

    def _say(self, typed: str, whole: ExpandedInput, say: type[Prompt] | type[Steer] | type[Queue]) -> None:
        images = tuple(Attachment(media_type=i.media_type, data=i.data, name=i.name) for i in whole.images)
        pasted = self._session.screen.pastes.label(typed.lstrip()[0]) is not None  # a pasted line is no command
        known = self._session.command_names
        command = say(whole.text, images) if pasted else parse_line(whole.text, images, known=known, message_type=say)
        self._session.send(command)

    async def _load_original(self, text: str) -> None:
        await asyncio.to_thread(self._session.history.add, text)

    # --- queued texts -------------------------------------------------------------------------------------------------

    def edit_queued(self) -> None:
        """Take up a queued text: the last one, or the one before that which is being edited."""
        session, screen = self._session, self._session.screen
        ids = [item.id for item in session.queue]
        if not ids:
            return
        if screen.editing_queued_id in ids:
            at = (ids.index(screen.editing_queued_id) - 1) % len(ids)
        else:
            self._draft, at = screen.buffer.text, len(ids) - 1
        screen.editing_queued_id = ids[at]
        screen.buffer.reset()
        screen.buffer.insert_text(session.queue[at].text)

    def _changed(self, text: str) -> None:
        """A queued text is as it should be."""
        screen = self._session.screen
        whole = screen.pastes.expand(text).text
        self._session.send(
            EditQueued(screen.editing_queued_id, whole) if whole.strip() else RemoveQueued(screen.editing_queued_id)
        )
        self.stop_editing()

    def stop_editing(self) -> None:
        """Back to what was being typed."""
        screen = self._session.screen
        screen.editing_queued_id = ""
        screen.buffer.reset()
        screen.buffer.insert_text(self._draft)
        self._draft = ""

    # --- stopping and leaving -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop what runs."""
        if self.busy:
            self._session.send(Abort("stopped by the user"))

    def interrupt(self) -> None:
        """Stop what runs, or clear the input; twice: leave."""
        session = self._session
        now = time.monotonic()
        buffer = session.screen.buffer
        again = (
            now - self._last_interrupt < _DOUBLE_PRESS_SECONDS and not buffer.text
        )  # what was typed since is not thrown away
        self._last_interrupt = now
        if again:
            session.leave()
        elif self.busy:
            self.stop()
        elif session.screen.editing_queued_id:
            self.stop_editing()
        elif buffer.text:
            buffer.append_to_history()
            buffer.reset()
        else:
            session.hint = "Ctrl-C again leaves"
            session.start(self._clear_hint_later())
        session.screen.invalidate()

    async def _clear_hint_later(self) -> None:
        await asyncio.sleep(_DOUBLE_PRESS_SECONDS)
        self._session.hint = ""
        self._session.screen.invalidate()

    def leave(self) -> None:
        """Leave."""
        self._session.leave()

    def suspend(self) -> None:
        """Give the terminal back to the shell until it continues us."""
        self._session.start(self._suspend_process())

    async def _suspend_process(self) -> None:
        await self._elsewhere(lambda: os.kill(0, signal.SIGTSTP), in_executor=False)

    async def _elsewhere(self, work: Callable[[], T], *, in_executor: bool = True) -> T:
        """Do something while the terminal belongs to others."""
        output, restore = self._session.screen.output, self._session.restore

        def do() -> T:
            restore()
            return work()

        output.set_focus_reporting(False)
        try:
            return await run_in_terminal(do, in_executor=in_executor)
        finally:
            output.set_focus_reporting(True)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def unfold(self) -> None:
        """Show what was folded last."""
        rows = self._session.transcript.folds.unfold()
        self._session.print([[], *rows, []] if rows else [make_row(("faint", "nothing is folded"))])

    def toggle_mode(self) -> None:
        """Change to the next mode."""
        status = self._session.status
        if status is not None:
            modes: tuple[AgentMode, ...] = get_args(AgentMode)
            self._session.send(SetMode(modes[(modes.index(status.mode) + 1) % len(modes)]))

    def focus(self, focused: bool) -> None:
        """The window got or lost the focus."""
        self._session.notifier.focused = focused

    # --- what is put into the input -----------------------------------------------------------------------------------

    def paste(self, text: str) -> None:
        """A text was pasted: large ones and images become a sign."""
        screen = self._session.screen
        if screen.dialog is not None and screen.dialog.wants is not None:
            screen.answer.insert_text(text.replace("\r\n", "\n").replace("\r", "\n"))
            return
        image = find_image_path(text)
        if image is None:
            screen.buffer.insert_text(screen.pastes.text(text))
        else:
            self._session.start(self._image(image.name, text))

    async def _image(self, name: str, text: str) -> None:
        screen = self._session.screen
        path = find_image_path(text)
        try:
            assert path is not None
            data, media_type = await asyncio.to_thread(read_image, path)
        except FileNotFoundError:
            screen.buffer.insert_text(screen.pastes.text(text))  # only a text that looks like one
        else:
            screen.buffer.insert_text(screen.pastes.image(data, media_type, name))

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""
        self._session.start(self._paste_clipboard_image())

    async def _paste_clipboard_image(self) -> None:
        screen = self._session.screen
        data = await read_clipboard_image(self._session.environ)
        if data is None:
            told = "no image in the clipboard, or no tool that hands it out (wl-paste, xclip, pngpaste)"
            self._session.print([make_row(("faint", told))])
        else:
            screen.buffer.insert_text(screen.pastes.image(data, "image/png"))

    def open_editor(self) -> None:
        """Write in the user's own editor."""
        self._session.start(self._edit_in_editor())

    async def _edit_in_editor(self) -> None:
        screen = self._session.screen
        dialog = screen.dialog
        wants = dialog.wants if dialog is not None else None
        buffer = screen.answer if wants is not None else screen.buffer
        before = screen.pastes.expand(buffer.text)
        suffix = wants.suffix if wants is not None else ".md"
        text = await self._elsewhere(lambda: edit_in_editor(before.text, self._session.environ, suffix))
        if text != before.text:
            buffer.reset()
            buffer.insert_text(text if wants is not None else screen.pastes.text(text))
