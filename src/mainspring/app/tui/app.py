"""The terminal app: shows the events of a chat on a screen and sends what the user types. The screen opens before the chat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, cast

from prompt_toolkit.input import Input

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Clipboard, Picker, Screen as ScreenAction, Table, UiSetting
from mainspring.app.chat.commands import ChatCommand, EditQueued, Prompt, Queue, Shortcut, Steer
from mainspring.app.chat.types import Status
from mainspring.app.tui.actions import SIDE_QUESTION_HINT, BackgroundJobs, ControlActions, InputActions
from mainspring.app.tui.approval_dialog import ApprovalDialog, question_of
from mainspring.app.tui.chat_client import ChatClient, ChatConnection, ChatOpener
from mainspring.app.tui.dialogs import Dialog, DialogQueue, PickerDialog, QuestionDialog
from mainspring.app.tui.external_programs import osc52_copy
from mainspring.app.tui.input_field import HistoryFile, create_input_buffer
from mainspring.app.tui.key_bindings import bind_shortcut, create_bindings, key_table, parse_key, resolve_keys
from mainspring.app.tui.notifications import NotificationOptions, Notifier, NotifyChannel, NotifyReason, NotifyWhen
from mainspring.app.tui.safe_text import to_one_row
from mainspring.app.tui.screen import Screen
from mainspring.app.tui.status_line import StatusCommand, status_row
from mainspring.app.tui.styled_text import Row, clip_row, make_row, wrap_row
from mainspring.app.tui.theme import Theme, detect_encoding, detect_theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    MessageEnd,
    Notice,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionUpdate,
)
from mainspring.messages import Message
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.app.workspace.settings.schema import ThemeName

_STREAM_TICK, _SPIN_TICK, _ASK_TICK = 0.08, 0.2, 0.5
"""Seconds between frames while text streams, while only a spinner moves, and while a question is open."""
_CLOSING_SECONDS = 5.0
_REPLAY_SCREENS = 5
"""Number of screens of a resumed session that are printed when it is opened."""
_EARLIER_EVENTS = 400
"""Number of earlier events that are printed at a time on request."""
_TOOL_ROWS = 8
"""Estimated rows of a tool call."""
_NOT_SENT = "MessageNotSentError"
"""Type of the error of a run whose message was not sent."""
_HELP = "Commands"
"""Title of the table of all commands."""
_TYPING_GRACE_HINT = "Typing goes to the input; pause briefly to answer the question"
_QUEUE_ROWS = 4
_MIN_ROWS_FOR_STATUS = 10
"""Number of rows above which a question leaves space for the row about the run that waits."""
_SPACIOUS_ROWS = 16
"""Minimum height of a screen with an empty row above the input."""
_STREAMING = (TextDelta, ThinkingDelta, ToolExecutionUpdate, SubagentEvent, chat_events.ShellOutput)


class FrameTicker:
    """Draws frames while something moves on the screen.

    Args:
        screen: The screen.
        transcript: What moves on it.
    """

    def __init__(self, screen: Screen, transcript: TranscriptView) -> None:
        self._screen = screen
        self._transcript = transcript
        self._has_work = asyncio.Event()
        self._is_streaming = False

    def wake(self, *, is_streaming: bool = False) -> None:
        """Draw frames from now on, more often while text streams."""
        self._is_streaming = self._is_streaming or is_streaming
        self._has_work.set()

    async def run(self) -> None:
        """Draw frames until cancelled."""
        while True:
            await self._has_work.wait()
            idle_tick = _ASK_TICK if self._screen.dialog is not None else _SPIN_TICK
            await asyncio.sleep(_STREAM_TICK if self._is_streaming else idle_tick)
            self._is_streaming = False
            self._screen.invalidate()
            if not self._transcript.busy and self._screen.dialog is None:
                self._has_work.clear()


class TerminalApp:
    """A chat on a screen. Creates the parts of the terminal UI, connects them, and shows events.

    Args:
        open_chat: Opens the chat.
        theme: The theme.
        terminal: The output.
        keyboard: The input.
        history: Earlier inputs.
        environ: Environment variables, which name the terminal, the editor, and the desktop.
        restore: Restores the terminal before another program uses it.
    """

    def __init__(
        self,
        open_chat: ChatOpener,
        theme: Theme,
        terminal: TextIO,
        keyboard: Input,
        history: HistoryFile,
        environ: Mapping[str, str],
        restore: Callable[[], object] = lambda: None,
    ) -> None:
        self._environ = environ
        self.connection = ChatConnection(open_chat, self._restore_rejected)
        buffer = create_input_buffer(history, self.connection.complete)
        term = environ.get("TERM", "")
        self.screen = Screen(self.live_rows, self.status_row, buffer, theme, terminal, keyboard, term, restore)
        size = self.screen.output.get_size()
        self.transcript = TranscriptView(theme, size.columns, size.rows)
        self.notifier = Notifier(NotificationOptions(), self.screen.write_sequence, environ)
        self._dialogs = DialogQueue(self.screen.show_dialog, self.connection.send)
        self._jobs = BackgroundJobs(self._show_error)
        self._inputs = InputActions(
            self.connection, self.screen, history, self._jobs, environ, self._dialogs, self.is_busy
        )
        self._controls = ControlActions(
            self.connection, self.screen, self._inputs, self.transcript.collapsed, self._jobs
        )
        self._ticker = FrameTicker(self.screen, self.transcript)
        self._replay: list[chat_events.ChatEvent] | None = None
        self._last_prompt = ""
        self._status_parts: tuple[str, ...] = ()  # the settings are loaded before the first status
        self._status_command: StatusCommand | None = None
        self.failure: Exception | None = None
        self.has_stored_draft = False
        self.stopped_jobs: tuple[str, ...] = ()
        self.set_keys({})
        self._inputs.restore_draft()

    def is_busy(self) -> bool:
        """Return True while a run or a shell command is in progress."""
        status = self.connection.status
        return bool(status and status.running) or self.transcript.busy

    def set_keys(self, changed: Mapping[str, str]) -> None:
        """Bind the keys, some of them changed by the user."""
        self._keys, problems = resolve_keys(changed)
        self._key_table = key_table(changed)
        self.screen.print([make_row(("warn", problem)) for problem in problems])
        self._bind({})

    def _bind(self, shortcuts: Mapping[str, str]) -> None:
        """Bind the keys of the screen, and the shortcuts of extensions that do not conflict with them."""
        used = {sequence for sequences in self._keys.values() for sequence in sequences}
        free = {key: sequence for key in shortcuts if (sequence := parse_key(key)) and sequence not in used}
        bindings = create_bindings(self.screen, self._inputs, self._controls, self.notifier, self._keys)
        for key, sequence in free.items():
            bind_shortcut(bindings, sequence, partial(self.connection.send, Shortcut(key)))
        self.screen.set_key_bindings(bindings)

    def set_notifications(
        self, when: NotifyWhen, channels: tuple[NotifyChannel, ...], command: str | None, after: float
    ) -> None:
        """Change how the user is notified."""
        self.notifier.options = NotificationOptions(when=when, channels=channels, command=command, after=after)

    def set_status_line(self, parts: tuple[str, ...], command: str | None, timeout_seconds: float) -> None:
        """Change what the status line shows."""
        self._status_parts = parts
        if command:
            self._status_command = StatusCommand(
                command, timeout_seconds, self._environ, self._jobs.start, self.screen.invalidate
            )

    def set_theme(self, theme: Theme) -> None:
        """Change the theme."""
        self.screen.set_theme(theme)
        self.transcript.set_theme(theme)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self, on_exit: Callable[[], object] = lambda: None) -> None:
        """Draw the screen and open the chat, until the user exits.

        Args:
            on_exit: Called when the user exits, before the chat is closed.
        """
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        async with asyncio.TaskGroup() as group:
            self._jobs.open(group)
            chatting = group.create_task(self._run_chat())
            ticking = group.create_task(self._ticker.run())
            self.screen.output.set_focus_reporting(True)
            try:
                await self.screen.app.run_async(set_exception_handler=False, handle_sigint=False)
            finally:
                on_exit()
                self.stopped_jobs = self.connection.running_jobs
                self.has_stored_draft = self._inputs.store_drafts()
                self.screen.output.set_focus_reporting(False)
                ticking.cancel()
                await self._close(chatting)
                self._jobs.close()
                self.screen.print(self.transcript.close_response())  # the part that arrived stays
                self.screen.print_pending()

    async def _close(self, chatting: asyncio.Task[None]) -> None:
        if self.connection.is_open:
            await self.connection.stop()
        else:
            chatting.cancel()
        await asyncio.wait({chatting}, timeout=_CLOSING_SECONDS)
        chatting.cancel()

    async def _run_chat(self) -> None:
        try:
            await self.connection.run(self._on_open, self._on_event)
        except Exception as error:  # shown after the screen is gone, and sets the exit code
            self.failure = self.failure or _unwrap_group(error)
        finally:
            self.screen.exit()

    def _on_open(self, chat: ChatClient) -> None:
        self._bind(chat.shortcuts)
        self._update_status_command(chat.status)
        self.screen.invalidate()

    def _update_status_command(self, status: Status) -> None:
        if self._status_command is not None:
            self._status_command.update(status)

    def _restore_rejected(self, command: ChatCommand) -> None:
        """Keep the text of a rejected command."""
        if isinstance(command, EditQueued):
            self.connection.send(Queue(command.text))
        elif isinstance(command, (Prompt, Steer, Queue)) and not self.screen.buffer.text:
            self.screen.buffer.insert_text(command.text)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the screen in order after an error that no task awaits."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self.failure = self.failure or error
            self.screen.exit()

    def _show_error(self, error: OSError) -> None:
        self.screen.print([make_row(("warn", to_one_row(str(error), self.transcript.columns - 1)))])

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_event(self, event: chat_events.ChatEvent) -> None:
        if isinstance(event, chat_events.StatusChange):
            self._update_status_command(event.status)
        match event:
            case chat_events.ReplayStart():
                self._replay = []
            case chat_events.ReplayEnd():
                self._show_replay()
            case _ if self._replay is not None:
                self._replay.append(event)
            case _:
                self._show(event)

    def _show_replay(self) -> None:
        """Print the end of a resumed session. Earlier events are rendered on request, since that takes most of the time."""
        replayed, self._replay = self._replay or [], None
        now, start = time.monotonic(), self._find_replay_start(replayed)
        earlier = replayed[:start]
        if earlier and isinstance(earlier[0], Notice):  # about even older messages
            self.screen.print(self.transcript.add_event(earlier[0], now))
        if count := sum(isinstance(event, MessageEnd) for event in earlier):
            hidden = pluralize(count, "earlier message is", "earlier messages are")
            text = f"... {hidden} not shown{self.transcript.collapsed.hint}. Save all of them with /export."
            self.screen.print([*wrap_row(make_row(("faint", text)), self.transcript.columns), []])
        for event in earlier:
            self.transcript.todos.update(event)
        for event in replayed[start:]:
            self.screen.print(self.transcript.add_event(event, now))
        if count:
            self._store_earlier(earlier)

    def _find_replay_start(self, events: Sequence[chat_events.ChatEvent]) -> int:
        """Return the index of the prompt from which on the events fill some screens; 0 if all events fit."""
        space = _REPLAY_SCREENS * self.transcript.rows
        start = len(events)
        for i in range(len(events) - 1, -1, -1):
            space -= _estimate_rows(events[i], self.transcript.columns)
            if space < 0 and start < len(events):
                return start
            if chat_events.is_user_message(events[i]):
                start = i
        return 0

    def _store_earlier(self, events: Sequence[chat_events.ChatEvent]) -> None:
        """Print earlier events on request, the last of them first."""

        def load() -> list[Row]:
            view = TranscriptView(
                self.transcript.look, self.transcript.columns, self.transcript.rows, self.transcript.collapsed
            )
            rows = [row for event in events[-_EARLIER_EVENTS:] for row in view.add_event(event, 0.0)]
            if earlier := events[:-_EARLIER_EVENTS]:
                self._store_earlier(earlier)
            return rows

        self.transcript.collapsed.store("Earlier messages", load)

    def _show(self, event: chat_events.ChatEvent) -> None:
        match event:
            case ApprovalRequest():
                self._ask(ApprovalDialog(event, self._dialogs.finish), question_of(event))
            case chat_events.QuestionRequest():
                self._ask(QuestionDialog(event, self._dialogs.finish), event.title or event.text)
            case ApprovalResult(id=id) | chat_events.QuestionResult(id=id):
                self._dialogs.close(id)
            case chat_events.SessionChange(draft=draft) if draft and not self.screen.buffer.text:
                self.screen.buffer.insert_text(draft)
            case MessageEnd(message=Message(role="user", text=prompt)):
                self._last_prompt = prompt
            case AgentEnd():
                if event.error is not None and event.error.type == _NOT_SENT:
                    self._inputs.return_unsent(self._last_prompt)
                reason = "failed" if event.error else "done"
                text = event.error.message if event.error else event.text or event.status
                self._notify(reason, text, self.transcript.to_work_seconds(event.stats.seconds))
            case chat_events.CommandEnd(name="btw") | chat_events.CommandRejected() if (
                self.screen.hint == SIDE_QUESTION_HINT
            ):
                self.screen.hint = ""
            case chat_events.CommandEnd() if self._perform(event):
                return
            case _:
                pass
        if isinstance(event, chat_events.CommandEnd) and isinstance(event.shown, Table) and event.shown.title == _HELP:
            self._show_keys()
        is_streaming = isinstance(event, _STREAMING)
        self.screen.print(self.transcript.add_event(event, time.monotonic()), redraw=not is_streaming)
        if self.transcript.busy or is_streaming:
            self._ticker.wake(is_streaming=is_streaming)  # streamed text is drawn with the next tick: a piece is cheap

    def _show_keys(self) -> None:
        """Show the keys before the commands; the chat does not know them."""
        keys = Table(("key", "description"), self._key_table, "Keys")
        self.screen.print(self.transcript.add_event(chat_events.CommandEnd("", "keys", keys), time.monotonic()))

    def _perform(self, event: chat_events.CommandEnd) -> bool:
        """Perform a result that is an action of the screen. Return True if no result is left to show."""
        match event.shown:
            case Picker(choices=choices) if choices:
                self._dialogs.add(self._create_picker(event.shown))
            case UiSetting(key="theme", value=name):
                self._choose_theme(name)
                return False
            case UiSetting(value=value):
                self.screen.set_vim(value == "vim")
                return False
            case Clipboard(text=text):
                self._copy(text)
            case ScreenAction(action="clear"):
                self.screen.clear()
            case ScreenAction(action="quit"):
                self._inputs.exit()
            case _:
                return False
        return True

    def _create_picker(self, picker: Picker) -> PickerDialog:
        """Create the dialog of a list. A preview is undone if nothing is chosen."""
        if picker.preview != "theme":
            return PickerDialog(picker, self._dialogs.finish)
        before = self.screen.look

        def finish(command: ChatCommand | None) -> None:
            if command is None:
                self.set_theme(before)
            self._dialogs.finish(command)

        return PickerDialog(picker, finish, preview=self._choose_theme)

    def _choose_theme(self, name: str) -> None:
        self.set_theme(detect_theme(self._environ, detect_encoding(self._environ), cast("ThemeName", name)))

    def _copy(self, text: str) -> None:
        sequence = osc52_copy(text, self._environ)
        if sequence is None:
            notice = "The response is too long for the clipboard of the terminal. Save it with /export."
            self.screen.print([make_row(("warn", notice))])
            return
        self.screen.write_sequence(sequence)
        self.screen.print([make_row(("faint", f"Copied {pluralize(len(text), 'character')}."))])

    def _ask(self, dialog: Dialog, text: str) -> None:
        self._dialogs.add(dialog)
        self._ticker.wake()
        self._notify("asking", text)

    def _notify(self, reason: NotifyReason, text: str, run_seconds: float | None = None) -> None:
        idle = time.monotonic() - self.screen.last_key
        self._jobs.start(self._notify_now(reason, text, idle, run_seconds))

    async def _notify_now(self, reason: NotifyReason, text: str, idle: float, run_seconds: float | None) -> None:
        await self.notifier.notify(reason, text, idle=idle, run_seconds=run_seconds)

    # --- drawing ------------------------------------------------------------------------------------------------------

    def live_rows(self, columns: int, rows: int, max_rows: int) -> list[Row]:
        """Return the rows above the input: what is running, the queue, and the open question."""
        self.transcript.columns, self.transcript.rows = columns, rows
        dialog = self.screen.dialog
        status_rows = 2 if self.transcript.is_waiting and max_rows > _MIN_ROWS_FOR_STATUS else 0
        below = self._dialog_rows(dialog, columns, max_rows - status_rows) if dialog is not None else []
        todo_space = 0 if dialog is not None else max_rows // 3 if rows >= _SPACIOUS_ROWS else min(max_rows // 3, 1)
        todos = self.transcript.todos.rows(columns, todo_space)
        below = [*todos, *self._queue_rows(columns), *below][-max_rows:] if max_rows else []
        space = max_rows - len(below) - 1
        above = self.transcript.live_rows(time.monotonic(), space) if space > 0 else []
        if not above and not below and not self.transcript.is_last_row_blank and rows >= _SPACIOUS_ROWS:
            return [[]]
        is_first = not self.transcript.is_last_row_blank and rows >= _SPACIOUS_ROWS and space > 0
        gap: list[Row] = [[]] if below and (above or is_first) else []
        return [*above, *gap, *below]

    def _dialog_rows(self, dialog: Dialog, columns: int, max_rows: int) -> list[Row]:
        if dialog.text_request is not None or self.screen.dialog_takes_keys() or self.screen.is_question_hidden:
            draft = to_one_row(self.screen.pastes.to_display(self.screen.buffer.text), columns - 1)
            if not draft or max_rows <= _MIN_ROWS_FOR_STATUS:
                return dialog.rows(columns, max_rows)
            label = make_row(("faint", "Your input returns after the question:"))
            hidden = [clip_row(label, columns - 1), make_row(("faint", draft))]
            return [*dialog.rows(columns, max_rows - len(hidden)), *hidden]
        hint = wrap_row(make_row(("faint", _TYPING_GRACE_HINT)), columns)
        return [*dialog.rows(columns, max(max_rows - len(hint), 1)), *hint]

    def _queue_rows(self, columns: int) -> list[Row]:
        rows: list[Row] = []
        for message in self.connection.queued[-_QUEUE_ROWS:]:
            label = "steering: " if message.kind == "steer" else "queued: "
            style = "chosen" if message.id == self.screen.editing_queued_id else "mark"
            rows.append(make_row((style, label), to_one_row(message.text, columns - 12)))
        if rows and self.connection.is_held:
            hint = "Queue paused: Enter to send the first message, Alt-Up to edit"
            rows += wrap_row(make_row(("faint", hint)), columns)
        return rows

    def status_row(self, columns: int) -> Row:
        """Return the last row of the screen."""
        command, mode = self._status_command, self.screen.vim_mode
        shown = make_row(("accent", mode), "  ") if mode else []
        columns -= len(mode) + 2 if mode else 0
        return shown + status_row(self.connection.status, columns, self._status_parts, command.line if command else "")


def _estimate_rows(event: chat_events.ChatEvent, columns: int) -> int:
    match event:
        case MessageEnd(message=Message(text=text)):
            return text.count("\n") + len(text) // columns + 2
        case ToolExecutionEnd():
            return _TOOL_ROWS
        case _:
            return 1


def _unwrap_group(error: Exception) -> Exception:
    """Return the first error of a group, or the error itself."""
    inner: Sequence[Exception] = getattr(error, "exceptions", ())
    return _unwrap_group(inner[0]) if inner else error
