"""``mainspring commands``."""

from __future__ import annotations

import argparse

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.workspace.command_registry import list_commands, show_command


def run(options: argparse.Namespace) -> int:
    """List or show custom commands, and return the exit code.

    Raises:
        UsageError: If the name is missing.
    """
    if options.action == "show" and not options.name:
        raise UsageError("commands show requires a NAME. List the commands with `mainspring commands`.")
    return run_command(
        options, lambda console: _show(options, console) if options.action == "show" else _list(options, console)
    )


def _show(options: argparse.Namespace, console: Console) -> int:
    text = show_command(options.name, " ".join(options.arguments), workspace_options(options))
    console.answer(text)
    console.end_answer()
    return 0


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_commands(workspace_options(options))
    if options.json:
        console.write_json(found)
        return 0
    width = max((len(c.usage) for c in found.commands), default=0)
    for command in found.commands:
        console.row(f"{command.usage:{width}}  {one_line(command.description, 100)} ({command.scope})")
    for skipped in found.skipped:
        console.info(f"{skipped.path}: {skipped.reason}")
    if not found.commands:
        console.info("No custom commands yet. Create one in ~/.agent/commands/NAME.md or .agent/commands/NAME.md.")
    return 0
