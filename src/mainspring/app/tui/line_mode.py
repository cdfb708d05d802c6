"""A chat on a terminal that only writes lines: nothing is drawn twice, questions are answered with a line."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import os
import signal
import sys
import time
from collections import deque
from functools import partial
from typing import TextIO

from mainspring.app.chat import events as told
from mainspring.app.chat.command_results import Screen as ScreenAction
from mainspring.app.chat.commands import Abort, ChatCommand, Prompt, Steer, parse_line
from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.signals import ScreenShutdown
from mainspring.app.tui.approval_dialog import ApprovalDialog
from mainspring.app.tui.chat_client import ChatClient, ChatOpener, open_chat, resolve_folder
from mainspring.app.tui.dialogs import Dialog, QuestionDialog
from mainspring.app.tui.safe_text import to_encoding
from mainspring.app.tui.styled_text import Row, to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView

_COLUMNS = 80
_QUESTION_ROWS = 40
_DOUBLE_PRESS_SECONDS = 2.0


def run(options: argparse.Namespace, look: Theme) -> int:
    """Talk line by line until the user leaves; the exit code."""
    return run_command(options, partial(_talk, options, look))


def _talk(options: argparse.Namespace, look: Theme, console: Console) -> int:
    cwd, warning = resolve_folder(options)
    if warning:
        console.say(f"note: {warning}")
    chat = LineMode(lambda: open_chat(options, cwd, lambda _: None), look, sys.stdout)
    return asyncio.run(chat.run(sys.stdin.fileno()))


class LineMode:
    """One chat in lines.

    Args:
        open_chat: Opens the chat.
        look: How things are shown.
        out: Where to.
    """

    def __init__(self, open_chat: ChatOpener, look: Theme, out: TextIO) -> None:
        self._open = open_chat
        self._look = look
        self._out = out
        self._transcript = TranscriptView(look, _COLUMNS, 10_000)
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._dialogs: deque[Dialog] = deque()
        self._commands: asyncio.Queue[ChatCommand] = asyncio.Queue()
        self._run_agent = False
        self._prompt_shown = False
        self._last_interrupt = -_DOUBLE_PRESS_SECONDS
        self._decoder = codecs.getincrementaldecoder("utf-8" if look.utf8 else "latin-1")("replace")
        self._on_agent_done = ""

    async def run(self, keyboard: int) -> int:
        """Talk until the end of the input; the exit code.

        Args:
            keyboard: Descriptor of what is typed.
        """
        loop = asyncio.get_running_loop()
        with ScreenShutdown(lambda: loop.call_soon_threadsafe(self._lines.put_nowait, None), lambda: None) as signals:
            loop.add_signal_handler(signal.SIGINT, self.stop)
            loop.add_reader(keyboard, self._read, keyboard)
            try:
                async with self._open() as chat:
                    await self._run_chat(chat)
            finally:
                loop.remove_reader(keyboard)
                loop.remove_signal_handler(signal.SIGINT)
        return 128 + signals.number if signals.number else 0

    async def _run_chat(self, chat: ChatClient) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._follow(chat)), group.create_task(self._send(chat))]
            self._prompt()
            while (line := await self._lines.get()) is not None:
                self._line(line)
            await chat.stop()
            for task in tasks:
                task.cancel()

    def _read(self, keyboard: int) -> None:
        try:
            data = os.read(keyboard, 65_536)
        except OSError:
            data = b""
        *lines, self._on_agent_done = (self._on_agent_done + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._lines.put_nowait(line.rstrip("\r"))
        if not data:
            self._lines.put_nowait(None)

    async def _send(self, chat: ChatClient) -> None:
        while True:
            await chat.send(await self._commands.get())

    def _line(self, line: str) -> None:
        """A line was typed: the answer to a question, or something to say."""
        self._prompt_shown = False
        if self._dialogs:
            self._answer(self._dialogs[0], line)
        elif line.strip() in {"/quit", "/exit"}:
            self._lines.put_nowait(None)
        elif line.strip():
            self._commands.put_nowait(parse_line(line, message_type=Steer if self._run_agent else Prompt))
        elif not self._run_agent:
            self._prompt()

    def _answer(self, dialog: Dialog, line: str) -> None:
        if dialog.wants is not None:
            dialog.take(line)
        else:
            for key in line.split() or ["enter"]:
                dialog.on_key({"esc": "escape"}.get(key, key))
        if self._dialogs and self._dialogs[0] is dialog:
            self._question(dialog)

    def _question(self, dialog: Dialog) -> None:
        self._print(dialog.rows(_COLUMNS, _QUESTION_ROWS))
        self._write(f"{dialog.wants.label}: " if dialog.wants else "your choice (letter or number, then Enter): ")

    def _finish(self, command: ChatCommand | None) -> None:
        self._dialogs.popleft()
        if command is not None:
            self._commands.put_nowait(command)
        if self._dialogs:
            self._question(self._dialogs[0])

    def stop(self) -> None:
        """Stop what runs; a second time soon after: leave."""
        now = time.monotonic()
        again, self._last_interrupt = now - self._last_interrupt < _DOUBLE_PRESS_SECONDS, now
        if again or not self._run_agent:
            self._lines.put_nowait(None)
        else:
            self._commands.put_nowait(Abort("stopped by the user"))

    async def _follow(self, chat: ChatClient) -> None:
        async for event in chat.events():
            self._show(event)
        self._lines.put_nowait(None)

    def _show(self, event: told.ChatEvent) -> None:
        if not isinstance(event, told.UserText):  # it stands there already
            self._print(self._transcript.show(event, time.monotonic()))
        match event:
            case told.RunStarted():
                self._run_agent = True
            case told.RunFinished():
                self._run_agent = False
                self._prompt()
            case told.ApprovalAsked():
                self._ask(ApprovalDialog(event, self._finish))
            case told.QuestionAsked():
                self._ask(QuestionDialog(event, self._finish))
            case told.ApprovalSettled(id=asked) | told.QuestionSettled(id=asked):
                self._dialogs = deque(dialog for dialog in self._dialogs if dialog.id != asked)
            case told.CommandDone(shown=ScreenAction(action="quit")):
                self._lines.put_nowait(None)
            case told.CommandDone() | told.Refused() | told.ShellFinished() if not self._run_agent:
                self._prompt()
            case _:
                pass

    def _ask(self, dialog: Dialog) -> None:
        self._dialogs.append(dialog)
        if len(self._dialogs) == 1:
            self._question(dialog)

    def _prompt(self) -> None:
        self._prompt_shown = True
        self._write("> ")

    def _print(self, rows: list[Row]) -> None:
        """Print rows; what comes while somebody is asked to say something stands above the next prompt."""
        prompted, self._prompt_shown = self._prompt_shown and bool(rows), self._prompt_shown and not rows
        self._write("\n" * prompted + to_text(rows))
        if prompted:
            self._prompt()

    def _write(self, text: str) -> None:
        try:
            self._out.write(text if self._look.utf8 else to_encoding(text))
            self._out.flush()
        except (OSError, ValueError):
            self._lines.put_nowait(None)
