"""Entry of the terminal UI: draws a prompt immediately, loads the rest, and restores the terminal at the end."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from mainspring.app.cli.startup_interrupt import exit_on_interrupt
from mainspring.app.tui.terminal_guard import TerminalGuard
from mainspring.app.tui.theme import Theme, detect_encoding, detect_theme

if TYPE_CHECKING:
    from mainspring.app.cli.console import Console

_FIRST_FRAME = "\r> \r\nStarting...\x1b[A\r\x1b[2C"
"""Shown until the screen is loaded and replaces it. Keys are passed on to the screen."""

_CLEAR_FIRST_FRAME = "\r\x1b[K\x1b7\x1b[C\x1b[J\x1b8"
"""Erases what is drawn below."""


def run(options: argparse.Namespace) -> int:
    """Show the screen until the user exits. Return the exit code."""
    look = detect_theme(os.environ, detect_encoding(os.environ))
    if look.dumb or options.screen_reader:
        return _run_lines(options, look, is_spoken=options.screen_reader)
    with TerminalGuard(sys.stdin.fileno()) as guard:
        exit_on_interrupt(before=guard.restore)
        guard.disable_echo()
        guard.write(_FIRST_FRAME)
        if not is_screen_reader_set():
            run_command = import_module("mainspring.app.cli.runner").run_command
            return run_command(options, partial(_show, options, guard, look))
        guard.write(_CLEAR_FIRST_FRAME)
        guard.restore()
    return _run_lines(options, look, is_spoken=True)


def _run_lines(options: argparse.Namespace, theme: Theme, *, is_spoken: bool) -> int:
    return import_module("mainspring.app.tui.line_mode").run(options, theme, is_spoken=is_spoken)


def is_screen_reader_set() -> bool:
    """Return True if the user's settings enable the chat for a screen reader. They are parsed here only if they mention it."""
    user = import_module("mainspring.app.workspace.paths").find_user_paths(os.environ)
    try:
        if user is None or b'"screenReader"' not in user.settings.read_bytes():
            return False
    except OSError:
        return False
    load_settings = import_module("mainspring.app.workspace.settings.load").load_settings
    try:
        return load_settings(str(user.root), environ=os.environ).config.ui.screen_reader
    except import_module("mainspring.errors").MainspringError:  # reported when the chat opens
        return False


def _show(options: argparse.Namespace, guard: TerminalGuard, theme: Theme, console: Console) -> int:
    try:
        launcher = import_module("mainspring.app.tui.launch").TuiLauncher(options, guard)
        launcher.run(theme)
    finally:
        guard.write(_CLEAR_FIRST_FRAME)
        guard.restore()
    return launcher.report(console)
