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
    """Sign in, and return the exit code."""
    return run_command(
        options,
        lambda console: log_in(
            options.provider, console, browser=not options.no_browser, place=workspace_options(options)
        ),
    )


def log_in(provider: str, console: Console, *, browser: bool, place: WorkspaceOptions | None = None) -> int:
    """Sign in, and return the exit code."""

    def show(address: str) -> None:
        console.info("Open this URL in a browser on this machine to sign in:")
        console.info(address)
        if browser:
            webbrowser.open(address)

    file = asyncio.run(login.log_in(provider, show, place or WorkspaceOptions()))
    console.info(f"Signed in. Tokens saved to {file}")
    console.info(f'Try it: mainspring -p "Hello" --provider {provider}')
    return 0
