"""A terminal app without a terminal: keys through a pipe, output as text."""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from prompt_toolkit.input import PipeInput, create_pipe_input

from mainspring.app.chat.commands import ChatCommand
from mainspring.app.tui.app import TerminalApp
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.safe_text import sanitize
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.workspace.settings import StatusLineSettings
from tests.unit.app.tui.fake_chat import ScriptedChat


class OutputBuffer(io.StringIO):
    """An output stream that replaces a terminal."""

    encoding = "utf-8"

    lost = False

    def flush(self) -> None:
        if self.lost:
            raise OSError(5, "gone")

    def fileno(self) -> int:
        raise OSError("no file")


class TuiHarness:
    """A running terminal app."""

    def __init__(self, session: TerminalApp, chat: ScriptedChat, keyboard: PipeInput, written: OutputBuffer) -> None:
        self.session = session
        self.chat = chat
        self.keyboard = keyboard
        self._written = written

    def keys(self, text: str) -> None:
        self.keyboard.send_text(text)

    @property
    def written(self) -> str:
        """All output so far, without escape sequences."""
        return sanitize(self._written.getvalue())

    def close_terminal(self) -> None:
        """Simulate a closed terminal."""
        self._written.lost = True

    @property
    def raw(self) -> str:
        return self._written.getvalue()

    @property
    def drawn(self) -> str:
        """The rows above the input."""
        return to_text(self.session.live_rows(80, 24, 18))

    async def wait_for(self, condition: Callable[[], object]) -> None:
        for _ in range(24_000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"the condition was not met: {self.drawn}\n{self.written}")

    async def next_command(self, kind: type[ChatCommand]) -> ChatCommand:
        """Return the next command of a type."""
        await self.wait_for(lambda: any(isinstance(c, kind) for c in self.chat.commands))
        found = next(c for c in self.chat.commands if isinstance(c, kind))
        self.chat.commands.remove(found)
        return found

    async def type_text(self, text: str) -> None:
        """Type text and wait until the input contains it."""
        self.keys(text)
        await self.wait_for(lambda: self.session.screen.buffer.text.endswith(text))
        await asyncio.sleep(0.025)  # not a paste: Enter comes later


@asynccontextmanager
async def open_tui(
    folder: Path, chat: ScriptedChat | None = None, *, fails: bool = False, **environ: str
) -> AsyncIterator[TuiHarness]:
    """Run the terminal app in a folder."""
    chat = chat or ScriptedChat()
    written = OutputBuffer()
    with create_pipe_input() as keyboard:
        history = HistoryFile(folder / "history.jsonl")
        variables = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environ}
        session = TerminalApp(chat.open, Theme(), written, keyboard, history, variables)
        line = StatusLineSettings()
        session.set_status_line(line.parts, line.command, line.timeout_seconds)
        running = asyncio.create_task(session.run())
        tui = TuiHarness(session, chat, keyboard, written)
        try:
            await tui.wait_for(lambda: session.connection.is_open and session.screen.app.is_running)
            yield tui
        finally:
            session.screen.exit()
            await running
    if session.failure is not None and not fails:
        raise session.failure
