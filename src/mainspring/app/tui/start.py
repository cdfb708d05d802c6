"""``mainspring`` in a terminal: a prompt at once, the rest as soon as it is loaded, the terminal as it was in the end."""

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

_FIRST_FRAME = "\r> \r\nstarting ...\x1b[A\r\x1b[2C"
"""What stands there while the screen itself is loaded, which takes its place. Keys are kept meanwhile."""

_CLEAR_FIRST_FRAME = "\r\x1b[K\x1b7\x1b[C\x1b[J\x1b8"
"""Takes away what is drawn below."""


def run(options: argparse.Namespace) -> int:
    """Show the screen until the user leaves; the exit code."""
    look = detect_theme(os.environ, detect_encoding(os.environ))
    if look.dumb:
        return import_module("mainspring.app.tui.line_mode").run(options, look)
    with TerminalGuard(sys.stdin.fileno()) as guard:
        exit_on_interrupt(before=guard.restore)
        guard.quiet()
        guard.write(_FIRST_FRAME)
        framed = import_module("mainspring.app.cli.runner").run_command
        return framed(options, partial(_show, options, guard, look))


def _show(options: argparse.Namespace, guard: TerminalGuard, look: Theme, console: Console) -> int:
    try:
        opening = import_module("mainspring.app.tui.launch").TuiLauncher(options, guard)
        opening.show(look)
    finally:
        guard.write(_CLEAR_FIRST_FRAME)
        guard.restore()
    return opening.ended(console)
