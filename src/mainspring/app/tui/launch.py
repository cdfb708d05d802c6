"""Launches the terminal app for a command line. The screen appears while the chat is loading."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.input import create_input

from mainspring.app.chat.shell_messages import list_background_commands
from mainspring.app.cli.console import Console
from mainspring.app.cli.signals import ScreenShutdown
from mainspring.app.tui.app import TerminalApp
from mainspring.app.tui.chat_client import ChatClient, first_commands, open_chat, resolve_folder
from mainspring.app.tui.input_field import HistoryFile, open_history
from mainspring.app.tui.terminal_guard import TerminalGuard
from mainspring.app.tui.theme import Theme, detect_encoding, detect_theme
from mainspring.app.workspace.paths import find_user_paths

if TYPE_CHECKING:
    from mainspring.app.workspace.settings import Settings


class TuiLauncher:
    """Shows the terminal app and reports how it ended.

    Args:
        options: The command line.
        guard: Restores the terminal.

    Raises:
        ConfigError: If the working folder does not exist.
    """

    def __init__(self, options: argparse.Namespace, guard: TerminalGuard) -> None:
        self._options = options
        self._guard = guard
        self._cwd, self._warning = resolve_folder(options)
        self._app: TerminalApp | None = None
        self._signal = 0

    def run(self, theme: Theme) -> None:
        """Show the app until the user exits.

        Args:
            theme: The theme.
        """
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None and not theme.utf8:
            reconfigure(encoding=detect_encoding(os.environ), errors="replace")
        self._app = app = self._create_app(theme)
        transcript = app.transcript
        app.screen.note_live_rows = lambda rows: self._guard.set_live_rows(rows - transcript.live_response_rows)
        for command in first_commands(self._options):
            app.connection.send(command)
        self._guard.write("\r")  # to the start of the first frame
        self._signal = asyncio.run(self._run_until_exit(app))

    def report(self, console: Console) -> int:
        """Report how the app ended, after the terminal was restored. Return the exit code.

        Raises:
            Exception: The error that ended the app.
        """
        if self._warning:
            console.info(f"Note: {self._warning}")
        app = self._app
        if app is not None and app.has_stored_draft:
            console.info("Your unsent input is saved. The next chat in this folder starts with it.")
        if app is not None and app.stopped_jobs:
            console.info(f"Stopped {list_background_commands(app.stopped_jobs)}.")
        if app is not None and app.failure is not None:
            raise app.failure
        status = app.connection.status if app is not None else None
        if status is not None and status.session_id and status.tokens:
            console.info(f"Resume this session with: mainspring -c, or mainspring --session {status.session_id}")
        return 128 + self._signal if self._signal else 0

    def _create_app(self, theme: Theme) -> TerminalApp:
        home = find_user_paths(os.environ)
        history = open_history(home.root, Path(self._cwd)) if home else HistoryFile(Path(os.devnull))
        return TerminalApp(
            self._open_chat, theme, sys.stdout, create_input(sys.stdin), history, os.environ, self._guard.restore
        )

    def _open_chat(self) -> AbstractAsyncContextManager[ChatClient]:
        app = self._app
        return open_chat(self._options, self._cwd, lambda settings: apply_settings(settings, app) if app else None)

    async def _run_until_exit(self, app: TerminalApp) -> int:
        """Return the number of the signal that ended the app, or 0."""
        loop = asyncio.get_running_loop()
        with ScreenShutdown(lambda: loop.call_soon_threadsafe(app.screen.exit), self._guard.restore) as signals:
            await app.run(signals.start_deadline)
        return signals.number


def apply_settings(settings: Settings, app: TerminalApp) -> None:
    """Apply the settings for notifications, status line, theme, keys, and editing."""
    config = settings.config
    notifications = config.notifications
    app.set_notifications(notifications.when, notifications.ways, notifications.command, notifications.after_seconds)
    line = config.status_line
    app.set_status_line(line.parts, line.command, line.timeout_seconds)
    if config.ui.editing == "vim":
        app.screen.set_vim(True)
    if config.ui.theme != "auto":
        app.set_theme(detect_theme(os.environ, detect_encoding(os.environ), config.ui.theme))
    if config.ui.keys:
        app.set_keys(config.ui.keys)
