"""Looks whether there is a prompt or a terminal, and leaves the rest, with all that has to be loaded, to `printing` or the screen."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from mainspring.app.cli.arguments import UsageError, run_parser
from mainspring.app.cli.stdin import StdinReader


def run(options: argparse.Namespace) -> int:
    """Run it; the exit code.

    Raises:
        UsageError: If there is neither a prompt nor a terminal.
    """
    if options.prompt is None and options.execute is None and options.output == "text" and is_interactive_terminal():
        return import_module("mainspring.app.tui.start").run(options)
    piped = StdinReader()  # reads while the rest is loaded
    if (
        options.prompt is None
        and options.execute is None
        and (piped.is_terminal or not piped.wait_for_data() or piped.is_empty)
    ):
        raise UsageError(
            "there is no prompt; give one with -p, or pipe one in. First steps: mainspring --help",
            run_parser().format_usage(),
        )
    return import_module("mainspring.app.printing.print_mode").run_print_mode(options, piped)


def is_interactive_terminal() -> bool:
    """Whether somebody sits at both ends: keys come in, and what is shown is seen."""
    try:
        return os.name == "posix" and os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
