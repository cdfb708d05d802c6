"""The chat on a terminal without cursor movement, or for a screen reader: output is never redrawn, and questions are answered with a line."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import math
import os
import signal
import sys
import time
from collections.abc import Collection
from functools import partial
from typing import TextIO

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Screen as ScreenAction
from mainspring.app.chat.commands import Abort, ChatCommand, Prompt, Steer, expand_shorthand, parse_line
from mainspring.app.chat.shell_messages import list_background_commands
from mainspring.app.chat.types import Status
from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.signals import ScreenShutdown
from mainspring.app.tui.actions import EXIT_LINES
from mainspring.app.tui.approval_dialog import ApprovalDialog
from mainspring.app.tui.chat_client import ChatClient, ChatOpener, first_commands, open_chat, resolve_folder
from mainspring.app.tui.dialogs import Dialog, DialogQueue, QuestionDialog
from mainspring.app.tui.safe_text import escape_all, to_encoding, to_one_row
from mainspring.app.tui.styled_text import CollapsedOutput, Row, make_row, to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.events import AgentEnd, AgentStart, ApprovalRequest, ApprovalResult, ModelCallRetry, ToolExecutionStart

_COLUMNS = 80
_SPOKEN_COLUMNS = 1_000
"""The terminal wraps longer lines, since a screen reader pauses at each line."""
_QUESTION_ROWS = 10_000
_DOUBLE_PRESS_SECONDS = 2.0


def run(options: argparse.Namespace, theme: Theme, *, is_spoken: bool = False) -> int:
    """Run the chat in lines until the user exits; ``is_spoken`` is for a screen reader. Return the exit code."""
    return run_command(options, partial(_run_chat, options, theme, is_spoken))


def _run_chat(options: argparse.Namespace, theme: Theme, is_spoken: bool, console: Console) -> int:
    cwd, warning = resolve_folder(options)
    if warning:
        console.info(f"Note: {warning}")
    chat = LineMode(lambda: open_chat(options, cwd, lambda _: None), theme, sys.stdout, is_spoken=is_spoken)
    for command in first_commands(options):
        chat.send(command)
    return asyncio.run(chat.run(sys.stdin.fileno()))


_SPOKEN_SIGNS = {
    ("class:good", "* "): "Done: ",
    ("class:bad", "x "): "",  # the row ends with "failed"
    ("class:warn", "- "): "",  # the row ends with "denied"
    ("class:accent", "! "): "Shell command: ",
    ("class:chosen", "* "): "Current: ",
    **{(f"class:{style}", "+ "): "Subagent: " for style in ("mark", "good", "bad")},
}
"""Words for the signs at the start of a row."""
_BARS = str.maketrans("", "", "█░")
_MODES = {"default": "default mode", "accept_edits": "accept-edits mode", "plan": "plan mode"}


class Announcer:
    """Turns rows into sentences for a screen reader, and announces what other users see in live rows and the status line."""

    def __init__(self) -> None:
        self._facts: tuple[str, ...] = ()

    def start(self, status: Status) -> str:
        """Return the first lines of the chat."""
        self._facts = _status_facts(status)
        return (
            f"Mainspring in {to_one_row(status.cwd, _SPOKEN_COLUMNS)}: {', '.join(self._facts)}.\n"
            "Ctrl-C stops the agent.\n"
        )

    def announce(self, event: chat_events.ChatEvent, rows: list[Row]) -> list[Row]:
        """Return the rows of an event as sentences, after the announcements of the event."""
        spoken = [row for row in map(_speak_row, rows) if row is not None]
        match event:
            case AgentStart():
                return [make_row("Working."), *spoken]
            case AgentEnd(status="completed", error=None):
                return [make_row("Finished."), *spoken]
            case ToolExecutionStart(call=call, display=display):
                about = f"{display.name or call.name}: {display.summary}" if display else call.name
                return [make_row(to_one_row(f"Running {about}", _SPOKEN_COLUMNS, make=escape_all)), *spoken]
            case chat_events.QuestionRequest(kind=kind, title="") if kind != "plan":
                return []  # the question contains the text
            case ModelCallRetry(delay=delay):
                return [*spoken, make_row(f"Retrying in {math.ceil(delay)} seconds.")]
            case chat_events.StatusChange(status=status):
                before, self._facts = self._facts, _status_facts(status)
                changed = [fact for fact in self._facts if fact not in before]
                return [make_row(f"Now: {', '.join(changed)}.")] if changed and before else []
            case _:
                return spoken


def _status_facts(status: Status) -> tuple[str, ...]:
    """Return the facts of a status whose change is announced."""
    facts = (status.model_label or status.model, _MODES[status.mode], f"sandbox {status.sandbox or 'off'}")
    return tuple([to_one_row(fact, 100) for fact in facts])


def _speak_row(row: Row) -> Row | None:
    """Return a row without signs and ornaments; None if it has nothing else."""
    parts = [(style, text.translate(_BARS)) for style, text, *_ in row]
    if parts and parts[0] in _SPOKEN_SIGNS:
        parts[0] = ("", _SPOKEN_SIGNS[parts[0]])
    return [*parts] if any(character.isalnum() for _, text in parts for character in text) else None


class LineMode:
    """A chat in lines.

    Args:
        open_chat: Opens the chat.
        theme: The theme.
        out: The output.
        is_spoken: Whether a screen reader reads it: with announcements in words and numbered questions.
    """

    def __init__(self, open_chat: ChatOpener, theme: Theme, out: TextIO, *, is_spoken: bool = False) -> None:
        self._open = open_chat
        self._theme = theme
        self._out = out
        self._announcer = Announcer() if is_spoken else None
        self._columns = _SPOKEN_COLUMNS if is_spoken else _COLUMNS
        self._transcript = TranscriptView(theme, self._columns, 10_000, CollapsedOutput(hint=""))
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._commands: asyncio.Queue[ChatCommand] = asyncio.Queue()
        self._dialogs = DialogQueue(self._show_dialog, self._commands.put_nowait)
        self._command_names: Collection[str] = ()
        self._is_running = False
        self._prompt_shown = False
        self._last_interrupt = -_DOUBLE_PRESS_SECONDS
        self._decoder = codecs.getincrementaldecoder("utf-8" if theme.utf8 else "latin-1")("replace")
        self._partial_line = ""

    def send(self, command: ChatCommand) -> None:
        """Send a command as soon as the chat is open."""
        self._commands.put_nowait(command)

    async def run(self, keyboard: int) -> int:
        """Run the chat until the input ends. Return the exit code.

        Args:
            keyboard: File descriptor of the keyboard.
        """
        loop = asyncio.get_running_loop()
        with ScreenShutdown(lambda: loop.call_soon_threadsafe(self._lines.put_nowait, None), lambda: None) as signals:
            loop.add_signal_handler(signal.SIGINT, self.stop)
            loop.add_reader(keyboard, self._read, keyboard)
            try:
                async with self._open() as chat:
                    self._command_names = chat.command_names
                    if self._announcer is not None:
                        self._write(self._announcer.start(chat.status))
                    await self._run_chat(chat)
            finally:
                loop.remove_reader(keyboard)
                loop.remove_signal_handler(signal.SIGINT)
        return 128 + signals.number if signals.number else 0

    async def _run_chat(self, chat: ChatClient) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._show_events(chat)), group.create_task(self._send(chat))]
            self._prompt()
            while (line := await self._lines.get()) is not None:
                self._submit(line)
            if jobs := chat.running_jobs:
                self._print([make_row(f"Stopped {list_background_commands(jobs)}.")])
            await chat.stop()
            for task in tasks:
                task.cancel()

    def _read(self, keyboard: int) -> None:
        try:
            data = os.read(keyboard, 65_536)
        except OSError:
            data = b""
        *lines, self._partial_line = (self._partial_line + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._lines.put_nowait(line.rstrip("\r"))
        if not data:
            self._lines.put_nowait(None)

    async def _send(self, chat: ChatClient) -> None:
        while True:
            await chat.send(await self._commands.get())

    def _submit(self, line: str) -> None:
        """Answer the open question, or send a message."""
        self._prompt_shown = False
        if self._dialogs.current is not None:
            self._answer(self._dialogs.current, line)
        elif line.strip() in EXIT_LINES:
            self._lines.put_nowait(None)
        elif line.strip():
            kind = Steer if self._is_running else Prompt
            self._commands.put_nowait(parse_line(expand_shorthand(line), known=self._command_names, message_type=kind))
        elif not self._is_running:
            self._prompt()

    def _answer(self, dialog: Dialog, line: str) -> None:
        if dialog.text_request is not None:
            dialog.submit_text(line)
        else:
            for key in line.split() or ([] if self._announcer else ["enter"]):
                if key in ("esc", "escape"):
                    dialog.go_back()
                else:
                    dialog.on_key(key)
        if self._dialogs.current is dialog:
            self._show_dialog(dialog)

    def _show_dialog(self, dialog: Dialog | None) -> None:
        if dialog is None:
            return
        if self._prompt_shown:
            self._prompt_shown = False
            self._write("\n")
        self._print(dialog.rows(self._columns, _QUESTION_ROWS))
        how = "number, then Enter; esc cancels" if self._announcer else "letter or number, then Enter"
        self._write("> " if dialog.text_request else f"Your choice ({how}): ")

    def stop(self) -> None:
        """Stop the run; exit if pressed twice."""
        now = time.monotonic()
        is_second, self._last_interrupt = now - self._last_interrupt < _DOUBLE_PRESS_SECONDS, now
        if is_second or not self._is_running:
            self._lines.put_nowait(None)
        else:
            self._commands.put_nowait(Abort("Stopped by the user"))

    async def _show_events(self, chat: ChatClient) -> None:
        async for event in chat.events():
            self._on_event(event)
        self._lines.put_nowait(None)

    def _on_event(self, event: chat_events.ChatEvent) -> None:
        is_spoken = self._announcer is not None
        if not chat_events.is_user_message(event):  # the terminal already echoed it
            rows = self._transcript.add_event(event, time.monotonic())
            self._print(self._announcer.announce(event, rows) if self._announcer is not None else rows)
        match event:
            case AgentStart():
                self._is_running = True
            case AgentEnd():
                self._is_running = False
                self._prompt()
            case ApprovalRequest():
                self._dialogs.add(ApprovalDialog(event, self._dialogs.finish, plain=is_spoken))
            case chat_events.QuestionRequest():
                self._dialogs.add(QuestionDialog(event, self._dialogs.finish, plain=is_spoken))
            case ApprovalResult(id=id) | chat_events.QuestionResult(id=id):
                self._dialogs.close(id)
            case chat_events.CommandEnd(shown=ScreenAction(action="quit")):
                self._lines.put_nowait(None)
            case chat_events.CommandEnd() | chat_events.CommandRejected() | chat_events.ShellEnd() if (
                not self._is_running
            ):
                self._prompt()
            case _:
                pass

    def _prompt(self) -> None:
        self._prompt_shown = True
        self._write("> ")

    def _print(self, rows: list[Row]) -> None:
        """Print rows. After rows below a prompt, print the prompt again."""
        prompted, self._prompt_shown = self._prompt_shown and bool(rows), self._prompt_shown and not rows
        self._write("\n" * prompted + to_text(rows))
        if prompted:
            self._prompt()

    def _write(self, text: str) -> None:
        try:
            self._out.write(text if self._theme.utf8 else to_encoding(text))
            self._out.flush()
        except (OSError, ValueError):
            self._lines.put_nowait(None)
