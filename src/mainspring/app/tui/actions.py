"""Actions bound to keys: submit, edit the queue, paste, open the editor, stop, and exit."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, get_args

from prompt_toolkit.document import Document
from prompt_toolkit.key_binding.vi_state import InputMode

from mainspring.app.chat.command_results import Choice, Picker
from mainspring.app.chat.commands import (
    Abort,
    Attachment,
    Background,
    EditQueued,
    Prompt,
    Queue,
    RemoveQueued,
    SendQueued,
    SetMode,
    Slash,
    Steer,
    expand_shorthand,
    parse_line,
)
from mainspring.app.chat.shell_messages import list_background_commands
from mainspring.app.chat.types import AgentMode
from mainspring.app.tui.chat_client import ChatConnection
from mainspring.app.tui.dialogs import DialogQueue, PickerDialog
from mainspring.app.tui.external_programs import NoClipboardImageError, edit_in_editor, read_clipboard_image
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.paste import ExpandedInput, find_image_path, read_image
from mainspring.app.tui.screen import Screen
from mainspring.app.tui.styled_text import CollapsedOutput, make_row, wrap_row

_DOUBLE_PRESS_SECONDS = 2.0
EXIT_LINES = ("/quit", "/exit", "/q", "exit", "quit", ":q", ":q!", ":wq")
"""Lines that exit the chat."""
SIDE_QUESTION, SIDE_QUESTION_HINT = "/btw ", "Answering the side question..."
_MAX_MESSAGE_CHARS = 10_000_000
"""Maximum length of a message: more than any model accepts."""
_ABORT_REASON = "Stopped by the user"


class BackgroundJobs:
    """Runs work while the screen is open, and cancels it at the end.

    Args:
        on_error: Called with an error of the operating system.
    """

    def __init__(self, on_error: Callable[[OSError], None]) -> None:
        self._on_error = on_error
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    def open(self, group: asyncio.TaskGroup) -> None:
        """Accept work from now on."""
        self._group = group

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work in the background. Before the screen is open, the work is dropped."""
        if self._group is None:
            work.close()
        else:
            job = self._group.create_task(self._run(work))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError as error:
            self._on_error(error)

    def close(self) -> None:
        """Cancel all work and accept no more."""
        self._group = None
        for job in self._jobs:
            job.cancel()


class InputActions:
    """Actions on the text that the user types.

    Args:
        connection: The chat that receives the text.
        screen: The input, and the terminal that the editor borrows.
        history: Stores what was submitted.
        jobs: Runs slow work.
        environ: Names the editor and the desktop.
        dialogs: Shows the list of earlier inputs.
        is_busy: Returns True while a run or a shell command is in progress.
    """

    def __init__(
        self,
        connection: ChatConnection,
        screen: Screen,
        history: HistoryFile,
        jobs: BackgroundJobs,
        environ: Mapping[str, str],
        dialogs: DialogQueue,
        is_busy: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._screen = screen
        self._history = history
        self._jobs = jobs
        self._environ = environ
        self._dialogs = dialogs
        self.is_busy = is_busy
        self._draft = ""
        self._last_sent = ("", "")  # as sent, and as typed, with placeholders
        self._jobs_at_exit: tuple[str, ...] = ()

    def submit(self, text: str, *, queue: bool) -> None:
        """Send or queue a text; for an empty text, send the first message of a paused queue."""
        connection, screen = self._connection, self._screen
        screen.hint = ""
        if screen.editing_queued_id:
            self._save_queued(text)
        elif not text.strip():
            if connection.is_held and connection.queued:
                connection.send(SendQueued(connection.queued[0].id))
        elif text.strip() in EXIT_LINES:
            screen.buffer.reset()  # otherwise it would be an input that was not sent
            self.exit()
        elif len((expanded := screen.pastes.expand(text)).text) > _MAX_MESSAGE_CHARS:
            size = f"The message was not sent: it is {len(expanded.text) / 1e6:.1f} MB long, and the limit is 10 MB."
            hint = "Save the text to a file and mention the file with @."
            screen.print(wrap_row(make_row(("warn", f"{size} {hint}")), screen.output.get_size().columns))
        else:
            sent = self._send(text, expanded, Queue if queue else Steer if self.is_busy() else Prompt)
            screen.buffer.append_to_history()
            screen.buffer.reset()
            screen.app.vi_state.input_mode = InputMode.INSERT
            self._jobs.start(self._store_in_history(sent))

    def _send(self, typed: str, expanded: ExpandedInput, message_type: type[Prompt] | type[Steer] | type[Queue]) -> str:
        """Send a text with its pastes in full, and return it."""
        images = tuple(Attachment(media_type=i.media_type, data=i.data, name=i.name) for i in expanded.images)
        if self._screen.pastes.label(typed.lstrip()[0]) is not None:  # a pasted line is never run as a command
            command = message_type(expanded.text, images)
        else:
            known = self._connection.command_names
            command = parse_line(expand_shorthand(expanded.text), images, known=known, message_type=message_type)
        if isinstance(command, Slash) and command.line.startswith(SIDE_QUESTION):
            self._screen.hint = SIDE_QUESTION_HINT
        self._connection.send(command)
        self._last_sent = (expanded.text, typed)
        return expanded.text

    def exit(self) -> None:
        """Exit. If background commands are running, ask for a second time first."""
        jobs = self._connection.running_jobs
        if jobs and jobs != self._jobs_at_exit:
            self._jobs_at_exit = jobs
            text = f"Exiting stops {list_background_commands(jobs)}. /jobs shows the output. Exit again to confirm."
            self._screen.print(wrap_row(make_row(("warn", text)), self._screen.output.get_size().columns))
        else:
            self._screen.exit()

    def return_unsent(self, text: str) -> None:
        """Put the text of a message that was not sent into the input, unless the user has typed something else."""
        sent, typed = self._last_sent
        if not self._screen.buffer.text:
            self._screen.buffer.insert_text(typed if sent == text else text)

    def clear(self) -> None:
        """Clear the input. Its text stays in the history."""
        screen = self._screen
        self._jobs.start(self._store_in_history(screen.pastes.expand(screen.buffer.text).text))
        screen.buffer.append_to_history()
        screen.buffer.reset()

    async def _store_in_history(self, text: str) -> None:
        await asyncio.to_thread(self._history.add, text)

    def restore_draft(self) -> None:
        """Put the input that the last chat of this folder did not send into the input."""
        if draft := self._history.pop_draft():
            self._screen.buffer.insert_text(self._screen.pastes.text(draft))

    def store_drafts(self) -> bool:
        """Store what was typed and not sent, for the next chat in this folder. Return True if something was stored."""
        screen = self._screen
        edited = screen.editing_queued_id
        is_unchanged = any(m.id == edited and m.text == screen.buffer.text for m in self._connection.queued)
        typed = [self._draft, screen.answer.text, "" if is_unchanged else screen.buffer.text]
        stored = [self._history.add_draft(screen.pastes.expand(text).text) for text in typed]
        return any(stored)

    # --- queued messages ----------------------------------------------------------------------------------------------

    def edit_queued(self) -> None:
        """Edit the last queued message, or the one before the message that is being edited."""
        screen, queued = self._screen, self._connection.queued
        ids = [message.id for message in queued]
        if not ids:
            return
        if screen.editing_queued_id in ids:
            at = (ids.index(screen.editing_queued_id) - 1) % len(ids)
        else:
            self._draft, at = screen.buffer.text, len(ids) - 1
        screen.editing_queued_id = ids[at]
        screen.buffer.reset()
        screen.buffer.insert_text(queued[at].text)

    def _save_queued(self, typed: str) -> None:
        id = self._screen.editing_queued_id
        text = self._screen.pastes.expand(typed).text
        self._connection.send(EditQueued(id, text) if text.strip() else RemoveQueued(id))
        self.stop_editing()

    def stop_editing(self) -> None:
        """Leave the queued message unchanged and return to the draft."""
        screen = self._screen
        screen.editing_queued_id = ""
        screen.buffer.reset()
        screen.buffer.insert_text(self._draft)
        self._draft = ""

    def search_history(self) -> None:
        """List the earlier inputs of the project, latest first, to insert one. Blocks briefly: the next keys filter the list."""
        latest = dict.fromkeys(reversed(self._history.read()))
        if latest:
            picker = Picker("Earlier inputs", tuple([Choice(text, text) for text in latest]))
            self._screen.set_typing(False)
            self._dialogs.add(PickerDialog(picker, self._dialogs.finish, self._insert_earlier))
        else:
            self._screen.print([make_row(("faint", "No earlier inputs in this project yet."))])

    def _insert_earlier(self, text: str) -> None:
        screen = self._screen
        screen.buffer.save_to_undo_stack()
        screen.buffer.document = Document(screen.pastes.text(text))

    # --- pastes and the editor ----------------------------------------------------------------------------------------

    def paste(self, text: str) -> None:
        """Insert a pasted text. A large text and an image become a placeholder."""
        screen = self._screen
        screen.set_typing(True)
        if screen.dialog is not None and screen.dialog.text_request is not None:
            screen.answer.insert_text(text.replace("\r\n", "\n").replace("\r", "\n"))
        elif find_image_path(text) is None:
            screen.buffer.insert_text(screen.pastes.text(text))
        else:
            self._jobs.start(self._paste_image_file(text))

    async def _paste_image_file(self, text: str) -> None:
        screen = self._screen
        path = find_image_path(text)
        assert path is not None
        try:
            data, media_type = await asyncio.to_thread(read_image, path)
        except FileNotFoundError:
            screen.buffer.insert_text(screen.pastes.text(text))  # a text that resembles a path
        else:
            screen.buffer.insert_text(screen.pastes.add_image(data, media_type, path.name))

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""
        self._jobs.start(self._paste_clipboard_image())

    async def _paste_clipboard_image(self) -> None:
        screen = self._screen
        try:
            data = await read_clipboard_image(self._environ)
        except NoClipboardImageError as error:
            columns = screen.output.get_size().columns
            screen.print(wrap_row(make_row(("faint", str(error))), columns))
        else:
            screen.buffer.insert_text(screen.pastes.add_image(data, "image/png"))

    def open_editor(self) -> None:
        """Edit the text in the editor of the user."""
        self._jobs.start(self._edit_in_editor())

    async def _edit_in_editor(self) -> None:
        screen = self._screen
        request = screen.dialog.text_request if screen.dialog is not None else None
        buffer = screen.answer if request is not None else screen.buffer
        before = screen.pastes.expand(buffer.text).text
        suffix = request.suffix if request is not None else ".md"
        text = await screen.run_outside(lambda: edit_in_editor(before, self._environ, suffix))
        if text != before:
            buffer.reset()
            buffer.insert_text(text if request is not None else screen.pastes.text(text))


class ControlActions:
    """Actions that stop what is running, change the mode, show collapsed output, and exit.

    Args:
        connection: The chat.
        screen: The screen.
        inputs: Leaves a queued message that is being edited.
        collapsed: The collapsed output.
        jobs: Runs slow work.
    """

    def __init__(
        self,
        connection: ChatConnection,
        screen: Screen,
        inputs: InputActions,
        collapsed: CollapsedOutput,
        jobs: BackgroundJobs,
    ) -> None:
        self._connection = connection
        self._screen = screen
        self._inputs = inputs
        self._collapsed = collapsed
        self._jobs = jobs
        self._last_interrupt = self._last_escape = self._last_stop = -_DOUBLE_PRESS_SECONDS

    def stop(self) -> None:
        """Stop what is running."""
        if self._inputs.is_busy():
            self._connection.send(Abort(_ABORT_REASON))

    def stop_or_edit_earlier(self) -> None:
        """Stop what is running. If nothing is, and the input is empty, list the earlier prompts when called twice."""
        now = time.monotonic()
        if self._inputs.is_busy() or self._screen.hint == SIDE_QUESTION_HINT:
            self._connection.send(Abort(_ABORT_REASON))
            self._last_stop = now
        elif now - self._last_stop < _DOUBLE_PRESS_SECONDS or self._screen.buffer.text:
            return  # the key was pressed repeatedly to stop
        elif now - self._last_escape < _DOUBLE_PRESS_SECONDS:
            self._last_escape = -_DOUBLE_PRESS_SECONDS
            self._screen.hint = ""
            self._connection.send(Slash("/rewind list conversation"))
        else:
            self._last_escape = now
            self._show_hint("Press Esc again to edit an earlier prompt")

    def interrupt(self) -> None:
        """Close the open list, stop what is running, or clear the input; exit if pressed twice."""
        screen = self._screen
        listed = screen.dialog if screen.dialog is not None and not screen.dialog.id else None
        now = time.monotonic()
        is_second = now - self._last_interrupt < _DOUBLE_PRESS_SECONDS and not screen.buffer.text  # keep new input
        self._last_interrupt = now
        if is_second:
            self._inputs.exit()
        elif listed is not None:
            while screen.dialog is listed:  # it clears its filter first
                listed.go_back()
        elif self._inputs.is_busy():
            self.stop()
        elif screen.editing_queued_id:
            self._inputs.stop_editing()
        elif screen.buffer.text:
            self._inputs.clear()
        else:
            self._show_hint("Press Ctrl-C again to exit")
        screen.invalidate()

    def _show_hint(self, text: str) -> None:
        self._screen.hint = text
        self._screen.invalidate()
        self._jobs.start(self._clear_hint_later(text))

    async def _clear_hint_later(self, text: str) -> None:
        await asyncio.sleep(_DOUBLE_PRESS_SECONDS)
        if self._screen.hint == text:
            self._screen.hint = ""
            self._screen.invalidate()

    def exit(self) -> None:
        """Exit."""
        self._inputs.exit()

    def suspend(self) -> None:
        """Suspend the process and return the terminal to the shell."""
        self._jobs.start(self._suspend_process())

    async def _suspend_process(self) -> None:
        await self._screen.run_outside(lambda: os.kill(0, signal.SIGTSTP), in_executor=False)

    def move_to_background(self) -> None:
        """Move the running commands of the agent to the background."""
        self._connection.send(Background())

    def expand_output(self) -> None:
        """Show the last collapsed output in full."""
        rows = self._collapsed.expand_last()
        self._screen.print([[], *rows, []] if rows else [make_row(("faint", "No collapsed output."))])

    def switch_mode(self) -> None:
        """Switch to the next mode."""
        status = self._connection.status
        if status is not None:
            modes: tuple[AgentMode, ...] = get_args(AgentMode)
            self._connection.send(SetMode(modes[(modes.index(status.mode) + 1) % len(modes)]))
