"""``mainspring -p``: looks whether there is a prompt, and leaves the rest, with all that has to be loaded, to `printing`."""

from __future__ import annotations

import argparse
from importlib import import_module

from mainspring.app.cli.args import UsageError, ask_parser
from mainspring.app.cli.stdin import Piped


def run(options: argparse.Namespace) -> int:
    """Run it; the exit code.

    Raises:
        UsageError: If there is no prompt.
    """
    piped = Piped()  # reads while the rest is loaded
    if options.prompt is None and options.execute is None and (piped.terminal or not piped.ready() or piped.empty):
        raise UsageError("there is no prompt; give one with -p, or pipe one in", ask_parser().format_usage())
    return import_module("mainspring.app.cli.printing").print_run(options, piped)
