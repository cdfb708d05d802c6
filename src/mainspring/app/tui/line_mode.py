"""The chat on a terminal without cursor movement: output is never redrawn, and questions are answered with a line."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import os
import signal
import sys
import time
from collections.abc import Collection
from functools import partial
from typing import TextIO

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Screen as ScreenAction
from mainspring.app.chat.commands import Abort, ChatCommand, Prompt, Steer, parse_line
from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.signals import ScreenShutdown
from mainspring.app.tui.actions import EXIT_LINES
from mainspring.app.tui.approval_dialog import ApprovalDialog
from mainspring.app.tui.chat_client import ChatClient, ChatOpener, first_commands, open_chat, resolve_folder
from mainspring.app.tui.dialogs import Dialog, DialogQueue, QuestionDialog
from mainspring.app.tui.safe_text import to_encoding
from mainspring.app.tui.styled_text import CollapsedOutput, Row, to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView
from mainspring.events import AgentEnd, AgentStart, ApprovalRequest, ApprovalResult

_COLUMNS = 80
_QUESTION_ROWS = 10_000
_DOUBLE_PRESS_SECONDS = 2.0


def run(options: argparse.Namespace, theme: Theme) -> int:
    """Run the chat in lines until the user exits. Return the exit code."""
    return run_command(options, partial(_run_chat, options, theme))


def _run_chat(options: argparse.Namespace, theme: Theme, console: Console) -> int:
    cwd, warning = resolve_folder(options)
    if warning:
        console.info(f"Note: {warning}")
    chat = LineMode(lambda: open_chat(options, cwd, lambda _: None), theme, sys.stdout)
    for command in first_commands(options):
        chat.send(command)
    return asyncio.run(chat.run(sys.stdin.fileno()))


class LineMode:
    """A chat in lines.

    Args:
        open_chat: Opens the chat.
        theme: The theme.
        out: The output.
    """

    def __init__(self, open_chat: ChatOpener, theme: Theme, out: TextIO) -> None:
        self._open = open_chat
        self._theme = theme
        self._out = out
        self._transcript = TranscriptView(theme, _COLUMNS, 10_000, CollapsedOutput(hint=""))
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
            self._commands.put_nowait(parse_line(line, known=self._command_names, message_type=kind))
        elif not self._is_running:
            self._prompt()

    def _answer(self, dialog: Dialog, line: str) -> None:
        if dialog.text_request is not None:
            dialog.submit_text(line)
        else:
            for key in line.split() or ["enter"]:
                dialog.on_key({"esc": "escape"}.get(key, key))
        if self._dialogs.current is dialog:
            self._show_dialog(dialog)

    def _show_dialog(self, dialog: Dialog | None) -> None:
        if dialog is None:
            return
        self._print(dialog.rows(_COLUMNS, _QUESTION_ROWS))
        self._write("> " if dialog.text_request else "Your choice (letter or number, then Enter): ")

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
        if not chat_events.is_user_message(event):  # the terminal already echoed it
            self._print(self._transcript.add_event(event, time.monotonic()))
        match event:
            case AgentStart():
                self._is_running = True
            case AgentEnd():
                self._is_running = False
                self._prompt()
            case ApprovalRequest():
                self._dialogs.add(ApprovalDialog(event, self._dialogs.finish))
            case chat_events.QuestionRequest():
                self._dialogs.add(QuestionDialog(event, self._dialogs.finish))
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
