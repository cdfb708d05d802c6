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
    if look.dumb:
        return import_module("mainspring.app.tui.line_mode").run(options, look)
    with TerminalGuard(sys.stdin.fileno()) as guard:
        exit_on_interrupt(before=guard.restore)
        guard.disable_echo()
        guard.write(_FIRST_FRAME)
        run_command = import_module("mainspring.app.cli.runner").run_command
        return run_command(options, partial(_show, options, guard, look))


def _show(options: argparse.Namespace, guard: TerminalGuard, theme: Theme, console: Console) -> int:
    try:
        launcher = import_module("mainspring.app.tui.launch").TuiLauncher(options, guard)
        launcher.run(theme)
    finally:
        guard.write(_CLEAR_FIRST_FRAME)
        guard.restore()
    return launcher.report(console)
