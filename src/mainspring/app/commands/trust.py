"""``mainspring trust``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.workspace.acting import ActiveContent
from mainspring.app.workspace.trust_actions import (
    list_active_content,
    list_trusted_folders,
    trust_folder,
    untrust_folder,
)


def run(options: argparse.Namespace) -> int:
    """Trust a folder, stop trusting it, or list trusted folders, and return the exit code."""
    return run_command(options, lambda console: _run(options, console))


def _run(options: argparse.Namespace, console: Console) -> int:
    if options.list:
        found = list_trusted_folders()
        rows = (f"{t.folder}  since {t.since:%Y-%m-%d}" for t in found)
        console.write_list(found, rows, "No trusted folders", as_json=options.json)
        return 0
    if options.remove:
        path, known = untrust_folder(options.folder, workspace_options(options))
        console.info(
            f"{path} is no longer trusted"
            if known
            else f"{path} was not trusted. List the trusted folders with `mainspring trust --list`."
        )
        return 0 if known else 1
    if options.show:
        acts = list_active_content(options.folder, workspace_options(options))
        if options.json:
            console.write_json([{"file": str(act.file), "what": act.what} for act in acts])
        else:
            _print_active_content(acts, console)
        return 0
    path = trust_folder(options.folder, workspace_options(options))
    console.info(
        f"{path} is trusted: its settings, commands, hooks, extensions, MCP servers, skills, and memory take effect"
    )
    _print_active_content(list_active_content(options.folder, workspace_options(options)), console)
    return 0


def _print_active_content(active_content: Sequence[ActiveContent], console: Console) -> None:
    """Print the content that runs automatically, including the exact commands."""
    for act in active_content:
        console.info(f"  {act.file}")
        for line in act.what:
            console.info(f"    {line}")
    if not active_content:
        console.info("  nothing runs automatically")
