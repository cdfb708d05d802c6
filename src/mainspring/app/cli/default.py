"""Run a prompt or start the chat. Modules that load slowly are imported once a prompt or terminal is found."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from mainspring.app.cli.arguments import PICK_SESSION, UsageError, run_parser, unknown_command
from mainspring.app.cli.stdin import StdinReader


def run(options: argparse.Namespace) -> int:
    """Run the prompt or the chat, and return the exit code.

    Raises:
        UsageError: If neither a prompt nor a terminal is available.
    """
    if options.prompt is None and options.execute is None and options.output == "text" and is_interactive_terminal():
        return import_module("mainspring.app.tui.start").run(options)
    if options.message is not None:
        raise unknown_command(options.message)
    if options.session == PICK_SESSION:
        raise UsageError(
            "--resume without a name requires a chat. Add the ID or the title of a session, or use --continue for the most recent one."
        )
    piped = StdinReader()  # reads stdin while other modules are loaded
    if (
        options.prompt is None
        and options.execute is None
        and (piped.is_terminal or not piped.wait_for_data() or piped.is_empty)
    ):
        raise UsageError(
            "No prompt. Use -p PROMPT, or pipe a prompt to stdin. To get started, run `mainspring --help`.",
            run_parser().format_usage(),
        )
    return import_module("mainspring.app.printing.print_mode").run_print_mode(options, piped)


def is_interactive_terminal() -> bool:
    """Return True if both stdin and stdout are terminals."""
    try:
        return os.name == "posix" and os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
