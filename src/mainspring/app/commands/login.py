"""``mainspring login``."""

from __future__ import annotations

import argparse
import asyncio
import webbrowser

from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.providers import login
from mainspring.app.run.options import WorkspaceOptions


def run(options: argparse.Namespace) -> int:
    """Log in; the exit code."""
    return run_command(
        options,
        lambda console: log_in(
            options.provider, console, browser=not options.no_browser, place=workspace_options(options)
        ),
    )


def log_in(provider: str, console: Console, *, browser: bool, place: WorkspaceOptions | None = None) -> int:
    """Log in; the exit code."""

    def show(address: str) -> None:
        console.info("open this address in a browser on this machine, and agree there:")
        console.info(address)
        if browser:
            webbrowser.open(address)

    file = asyncio.run(login.log_in(provider, show, place or WorkspaceOptions()))
    console.info(f"logged in; the tokens are in {file}")
    console.info(f'try it: mainspring -p "Hello" --provider {provider}')
    return 0
