"""``mainspring logout``."""

from __future__ import annotations

import argparse

from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.providers.login import log_out


def run(options: argparse.Namespace) -> int:
    """Log out; the exit code."""

    def work(console: Console) -> int:
        file, known = log_out(options.provider, place_of(options))
        console.say(f"{file} was removed" if known else f"there was no login: {file} does not exist")
        return 0

    return framed(options, work)
