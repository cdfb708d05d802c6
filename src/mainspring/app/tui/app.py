"""A chat on a screen: its events are shown, what is typed is sent. The screen is there before the chat is."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TextIO

from prompt_toolkit.input import Input

from mainspring.app.chat import events as told
from mainspring.app.chat.command_results import Candidate, Clipboard, Picker, Table
from mainspring.app.chat.command_results import Screen as ScreenAction
from mainspring.app.chat.commands import ChatCommand, EditQueued, Prompt, Queue, Shortcut, Steer
from mainspring.app.chat.types import Queued, Status
from mainspring.app.tui.actions import Actions
from mainspring.app.tui.approval_dialog import ApprovalDialog, question_of
from mainspring.app.tui.chat_client import ChatClient, ChatOpener
from mainspring.app.tui.dialogs import Dialog, PickerDialog, QuestionDialog
from mainspring.app.tui.external_programs import osc52_copy
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.key_bindings import bind_shortcut, create_bindings, key_table, parse_key, resolve_keys
from mainspring.app.tui.notifications import NotificationOptions, Notifier, NotifyChannel, NotifyReason, NotifyWhen
from mainspring.app.tui.safe_text import to_one_row
from mainspring.app.tui.screen import Screen
from mainspring.app.tui.status_line import status_row
from mainspring.app.tui.styled_text import Row, make_row
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.text import pluralize

_STREAM_TICK, _SPIN_TICK, _ASK_TICK = 0.08, 0.2, 0.5
"""Seconds between frames while text streams, while only a clock moves, and while a question is open."""
_CLOSING_SECONDS = 5.0
_MAX_REPLAY_EVENTS = 400
_HELP = "Commands"
_TYPING_GRACE_HINT = "keys go to the input; after a short pause they answer"
"""Title of the list of all commands."""
_QUEUE_ROWS = 4
_SPACIOUS_ROWS = 16
"""Rows of a screen from which on the input stands apart from what was printed."""
_STREAMING = (told.AnswerText, told.ThinkingText, told.ToolProgress, told.ChildEvent, told.ShellOutput)
_EVENTS_PER_YIELD = 50
"""Events after which others get their turn."""


class TerminalApp:
    """One chat on one screen.

    Args:
        open_chat: Opens the chat.
        look: How things are shown.
        terminal: Where to.
        keyboard: Where keys come from.
        history: Where earlier inputs are kept.
        environ: The environment: terminal, editor, desktop.
        restore: Brings the terminal to how it was found, before others get it for a while.
    """

    def __init__(
        self,
        open_chat: ChatOpener,
        look: Theme,
        terminal: TextIO,
        keyboard: Input,
        history: HistoryFile,
        environ: Mapping[str, str],
        restore: Callable[[], object] = lambda: None,
    ) -> None:
        self._open = open_chat
        self.restore = restore
        self.environ = environ
        self.history = history
        self.screen = Screen(self, look, terminal, keyboard, history, self._complete, environ)
        size = self.screen.output.get_size()
        self.transcript = TranscriptView(look, size.columns, size.rows)
        self.notifier = Notifier(NotificationOptions(), self._write, environ)
        self.queue: tuple[Queued, ...] = ()
        self.held = False
        self.status: Status | None = None
        self.failure: Exception | None = None
        self.hint = ""
        self._deeds = Actions(self)
        self._chat: ChatClient | None = None
        self._commands: asyncio.Queue[ChatCommand] = asyncio.Queue()
        self._animating = asyncio.Event()
        self._is_streaming = False
        self._dialogs: deque[Dialog] = deque()
        self._replay: deque[told.ChatEvent] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self.set_keys({})

    def set_keys(self, changed: Mapping[str, str]) -> None:
        """Bind the keys, some of them changed."""
        self._keys, wrong = resolve_keys(changed)
        self._key_table = key_table(changed)
        self.print([make_row(("warn", line)) for line in wrong])
        self._bind({})

    def _bind(self, shortcuts: Mapping[str, str]) -> None:
        """Bind the keys of the screen, and those of extensions that are none of them."""
        taken = {sequence for sequences in self._keys.values() for sequence in sequences}
        own = {key: sequence for key in shortcuts if (sequence := parse_key(key)) and sequence not in taken}
        bindings = create_bindings(self.screen, self._deeds, self._keys)
        for key, sequence in own.items():
            bind_shortcut(bindings, sequence, partial(self.send, Shortcut(key)))
        self.screen.bind(bindings)

    def set_notifications(
        self, when: NotifyWhen, ways: tuple[NotifyChannel, ...], command: str | None, after: float
    ) -> None:
        """Tell people who look elsewhere in these ways."""
        self.notifier.how = NotificationOptions(when=when, ways=ways, command=command, after=after)

    def set_theme(self, look: Theme) -> None:
        """Show in other colours from now on."""
        self.screen.set_theme(look)
        self.transcript.set_theme(look)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def run(self, left: Callable[[], object] = lambda: None) -> None:
        """Draw the screen, open the chat, and go on until the user leaves.

        Args:
            left: Called when they do, before the chat is closed.
        """
        asyncio.get_running_loop().set_exception_handler(self._failed)
        async with asyncio.TaskGroup() as group:
            self._group = group
            chatting = group.create_task(self._run_chat())
            ticking = group.create_task(self._tick())
            self.screen.output.set_focus_reporting(True)
            try:
                await self.screen.app.run_async(set_exception_handler=False, handle_sigint=False)
            finally:
                left()
                self.screen.output.set_focus_reporting(False)
                ticking.cancel()
                await self._close(chatting)
                self._group = None
                for job in self._jobs:
                    job.cancel()

    async def _close(self, chatting: asyncio.Task[None]) -> None:
        if self._chat is not None:
            await self._chat.stop()
        else:
            chatting.cancel()
        await asyncio.wait({chatting}, timeout=_CLOSING_SECONDS)
        chatting.cancel()

    async def _run_chat(self) -> None:
        try:
            async with self._open() as chat:
                self._chat = chat
                self.status = chat.status
                self._bind(chat.shortcuts)
                self.screen.invalidate()
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(self._send_all(chat))
                    await self._follow(chat)
                    sending.cancel()
        except Exception as error:  # shown when the screen is gone, and its exit code
            self.failure = self.failure or _first(error)
        finally:
            self.leave()

    async def _follow(self, chat: ChatClient) -> None:
        count = 0
        async for event in chat.events():
            self._take(event)
            count += 1
            if count % _EVENTS_PER_YIELD == 0:
                await asyncio.sleep(0)

    async def _send_all(self, chat: ChatClient) -> None:
        while True:
            command = await self._commands.get()
            receipt = await chat.send(command)
            if receipt.refused:
                self._restore_rejected(command)

    def _restore_rejected(self, command: ChatCommand) -> None:
        """What was typed is not lost."""
        if isinstance(command, EditQueued):
            self.send(Queue(command.text))
        elif isinstance(command, (Prompt, Steer, Queue)) and not self.screen.buffer.text:
            self.screen.buffer.insert_text(command.text)

    async def _tick(self) -> None:
        """While something moves, draw it."""
        while True:
            await self._animating.wait()
            asks = self.screen.dialog is not None
            await asyncio.sleep(_STREAM_TICK if self._is_streaming else _ASK_TICK if asks else _SPIN_TICK)
            self._is_streaming = False
            self.screen.invalidate()
            if not self.transcript.busy and self.screen.dialog is None:
                self._animating.clear()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something failed where nobody waits for it: the screen ends in good order, with that error."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self.failure = self.failure or error
            self.leave()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside; an error of the system's is told."""
        if self._group is None:
            work.close()
        else:
            job = self._group.create_task(self._guarded(work))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError as error:
            self.print([make_row(("warn", to_one_row(str(error), self.transcript.columns - 1)))])

    def leave(self) -> None:
        """End the screen."""
        app = self.screen.app
        if app.is_running and not app.is_done:
            app.exit()

    def gone(self) -> None:
        """The terminal is gone."""
        self.leave()

    # --- what is sent -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether there is a chat yet."""
        return self._chat is not None

    @property
    def command_names(self) -> Collection[str]:
        """What can be typed behind a slash."""
        return self._chat.command_names if self._chat is not None else ()

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return bool(self.status and self.status.running) or self.transcript.busy

    def send(self, command: ChatCommand) -> None:
        """Hand in a command; before the chat is open it waits."""
        self._commands.put_nowait(command)

    async def _complete(self, line: str) -> tuple[Candidate, ...]:
        return await self._chat.completions(line) if self._chat is not None else ()

    def _finish(self, command: ChatCommand | None) -> None:
        """The question that is shown is answered."""
        if self._dialogs:
            self._dialogs.popleft()
        if command is not None:
            self.send(command)
        self.screen.ask(self._dialogs[0] if self._dialogs else None)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def print(self, rows: list[Row]) -> None:
        """Print rows for good."""
        self.screen.print(rows)

    def _write(self, sequence: str) -> None:
        self.screen.output.write_raw(sequence)
        self.screen.output.flush()

    def _take(self, event: told.ChatEvent) -> None:
        """Show an event."""
        match event:
            case told.ReplayStarted():
                self._replay = deque(maxlen=_MAX_REPLAY_EVENTS)
            case told.ReplayFinished():
                self._show_replay()
            case _ if self._replay is not None:
                self._replay.append(event)
            case _:
                self._now(event)

    def _show_replay(self) -> None:
        events, self._replay = self._replay or deque(), None
        if len(events) == _MAX_REPLAY_EVENTS:
            self.print(
                [make_row(("faint", "... what was said before is in the session; /export writes it to a file")), []]
            )
        now = time.monotonic()
        for event in events:
            self.print(self.transcript.show(event, now))

    def _now(self, event: told.ChatEvent) -> None:
        match event:
            case told.StatusChanged(status=status):
                self.status = status
            case told.QueueChanged(items=items, held=held):
                self.queue, self.held = items, held
            case told.ApprovalAsked():
                self._ask(ApprovalDialog(event, self._finish), question_of(event))
            case told.QuestionAsked():
                self._ask(QuestionDialog(event, self._finish), event.title or event.text)
            case told.ApprovalSettled(id=asked) | told.QuestionSettled(id=asked):
                self._close_dialog(asked)
            case told.SessionChanged(draft=draft) if draft and not self.screen.buffer.text:
                self.screen.buffer.insert_text(draft)
            case told.RunFinished():
                what = "failed" if event.error else "done"
                self._tell(what, event.error or event.text or event.status, event.seconds)
            case told.CommandDone() if self._done(event):
                return
            case _:
                pass
        if isinstance(event, told.CommandDone) and isinstance(event.shown, Table) and event.shown.title == _HELP:
            self._show_keys()
        self.screen.print(self.transcript.show(event, time.monotonic()), soon=not isinstance(event, _STREAMING))
        self._is_streaming = self._is_streaming or isinstance(event, _STREAMING)
        if self.transcript.busy or self._is_streaming:
            self._animating.set()  # what streams is drawn with the next tick: a piece by itself costs next to nothing

    def _show_keys(self) -> None:
        """The keys belong to the screen, so the chat's own help does not have them."""
        keys = Table(("key", "what it does"), self._key_table, "Keys")
        self.screen.print(self.transcript.show(told.CommandDone("", "keys", keys), time.monotonic()))

    def _done(self, event: told.CommandDone) -> bool:
        """What only the screen can do with what a command gave; whether that was all."""
        match event.shown:
            case Picker(choices=choices) if choices:
                self._dialogs.append(PickerDialog(event.shown, self._finish))
                self.screen.ask(self._dialogs[0])
            case Clipboard(text=text):
                self._copy(text)
            case ScreenAction(action="clear"):
                self.screen.clear()
            case ScreenAction(action="quit"):
                self.leave()
            case _:
                return False
        return True

    def _copy(self, text: str) -> None:
        sequence = osc52_copy(text, self.environ)
        if sequence is None:
            self.print(
                [make_row(("warn", "this is too long for the terminal's clipboard; /export writes it to a file"))]
            )
            return
        self._write(sequence)
        self.print([make_row(("faint", f"copied {pluralize(len(text), 'character')}"))])

    def _ask(self, dialog: Dialog, text: str) -> None:
        self._dialogs.append(dialog)
        self.screen.ask(self._dialogs[0])
        self._animating.set()
        self._tell("asking", text)

    def _close_dialog(self, asked: str) -> None:
        """A question is answered, or falls away: nobody is to answer it any more."""
        self._dialogs = deque(dialog for dialog in self._dialogs if dialog.id != asked)
        self.screen.ask(self._dialogs[0] if self._dialogs else None)

    def _tell(self, what: NotifyReason, text: str, took: float | None = None) -> None:
        self.start(self._told(what, text, took))

    async def _told(self, what: NotifyReason, text: str, took: float | None) -> None:
        await self.notifier.tell(what, text, idle=time.monotonic() - self.screen.last_key, took=took)

    def live_rows(self, columns: int, rows: int, most: int) -> list[Row]:
        """What is going on, above the input."""
        self.transcript.columns, self.transcript.rows = columns, rows
        dialog = self.screen.dialog
        below = self._asked(dialog, columns, most) if dialog is not None else []
        below = [*self._waiting(columns), *below][-most:] if most else []
        room = most - len(below) - 1
        above = self.transcript.live(time.monotonic(), room) if room > 0 else []
        if not above and not below and not self.transcript.is_last_row_blank and rows >= _SPACIOUS_ROWS:
            return [[]]
        return [*above, *below] if not (above and below) else [*above, [], *below]

    def _asked(self, dialog: Dialog, columns: int, most: int) -> list[Row]:
        """A question, and where keys go while they do not answer it."""
        if dialog.wants is not None or self.screen.dialog_takes_keys():
            return dialog.rows(columns, most)
        return [
            *dialog.rows(columns, max(most - 1, 1)),
            make_row(("faint", to_one_row(_TYPING_GRACE_HINT, columns - 1))),
        ]

    def _waiting(self, columns: int) -> list[Row]:
        """What is queued."""
        rows: list[Row] = []
        for item in self.queue[-_QUEUE_ROWS:]:
            sign = "steers: " if item.kind == "steer" else "queued: "
            style = "chosen" if item.id == self.screen.editing_queued_id else "mark"
            rows.append(make_row((style, sign), to_one_row(item.text, columns - 12)))
        if self.queue and self.held:
            rows.append(make_row(("faint", to_one_row("it waits: Enter sends the first, Alt-Up edits", columns - 1))))
        return rows

    def status_row(self, columns: int) -> Row:
        """The last row."""
        if self.hint:
            return make_row(("warn", to_one_row(self.hint, columns - 1)))
        return status_row(self.status, columns)


def _first(error: Exception) -> Exception:
    """The error itself, where it is the first of a group."""
    inside: Sequence[Exception] = getattr(error, "exceptions", ())
    return _first(inside[0]) if inside else error
