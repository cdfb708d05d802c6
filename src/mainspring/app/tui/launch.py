"""The screen with the chat of the command line: the one is there while the other is loaded."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.input import create_input

from mainspring.app.cli.console import Console
from mainspring.app.cli.signals import ScreenShutdown
from mainspring.app.tui.app import TerminalApp
from mainspring.app.tui.chat_client import ChatClient, open_chat, resolve_folder
from mainspring.app.tui.input_field import HistoryFile, open_history
from mainspring.app.tui.terminal_guard import TerminalGuard
from mainspring.app.tui.theme import Theme, detect_encoding, detect_theme
from mainspring.app.workspace.paths import find_user_paths

if TYPE_CHECKING:
    from mainspring.app.workspace.settings import Settings


class TuiLauncher:
    """One session from its first row to its last.

    Args:
        options: The command line.
        guard: Brings the terminal back.

    Raises:
        ConfigError: If there is no such folder.
    """

    def __init__(self, options: argparse.Namespace, guard: TerminalGuard) -> None:
        self._options = options
        self._guard = guard
        self._cwd, self._warning = resolve_folder(options)
        self._session: TerminalApp | None = None
        self._number = 0

    def show(self, look: Theme) -> None:
        """Show the screen until the user leaves.

        Args:
            look: What the terminal can show.
        """
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None and not look.utf8:
            reconfigure(encoding=detect_encoding(os.environ), errors="replace")
        self._session = session = self._new_session(look)
        self._guard.write("\r")  # to where the first frame began
        self._number = asyncio.run(self._run_until_exit(session))

    def ended(self, console: Console) -> int:
        """What is left to say when the terminal is as it was; the exit code.

        Raises:
            Exception: What ended the session.
        """
        if self._warning:
            console.say(f"note: {self._warning}")
        session = self._session
        if session is not None and session.failure is not None:
            raise session.failure
        status = session.status if session is not None else None
        if status is not None and status.session_id and status.tokens:
            console.say(f"go on with: mainspring -c, or --session {status.session_id}")
        return 128 + self._number if self._number else 0

    def _new_session(self, look: Theme) -> TerminalApp:
        home = find_user_paths(os.environ)
        history = open_history(home.root, Path(self._cwd)) if home else HistoryFile(Path(os.devnull))
        return TerminalApp(
            self._chat, look, sys.stdout, create_input(sys.stdin), history, os.environ, self._guard.restore
        )

    def _chat(self) -> AbstractAsyncContextManager[ChatClient]:
        session = self._session
        return open_chat(
            self._options, self._cwd, lambda settings: apply_settings(settings, session) if session else None
        )

    async def _run_until_exit(self, session: TerminalApp) -> int:
        """The signal that ended the session, or 0."""
        loop = asyncio.get_running_loop()
        with ScreenShutdown(lambda: loop.call_soon_threadsafe(session.leave), self._guard.restore) as signals:
            await session.run(signals.hurry)
        return signals.number


def apply_settings(settings: Settings, session: TerminalApp) -> None:
    """Show and tell things as the settings want it."""
    config = settings.config
    told = config.notifications
    session.set_notifications(told.when, told.ways, told.command, told.after_seconds)
    if config.ui.theme != "auto":
        session.set_theme(detect_theme(os.environ, detect_encoding(os.environ), config.ui.theme))
    if config.ui.keys:
        session.set_keys(config.ui.keys)
