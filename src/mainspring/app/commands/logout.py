"""``mainspring logout``."""

from __future__ import annotations

import argparse

from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.providers.login import log_out


def run(options: argparse.Namespace) -> int:
    """Sign out, and return the exit code."""

    def work(console: Console) -> int:
        file, known = log_out(options.provider, workspace_options(options))
        console.info(f"Signed out. Deleted {file}" if known else f"Not signed in: {file} does not exist")
        return 0

    return run_command(options, work)
