"""``mainspring memory``."""

from __future__ import annotations

import argparse
import asyncio

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.workspace.memory import add_memory, list_memory_files


def run(options: argparse.Namespace) -> int:
    """Show or add notes, and return the exit code.

    Raises:
        UsageError: If the note is missing.
    """
    if options.action == "add" and not options.note:
        raise UsageError("memory add requires a NOTE, in quotes; '-' reads it from stdin.")
    return run_command(
        options, lambda console: _add(options, console) if options.action == "add" else _show(options, console)
    )


def _add(options: argparse.Namespace, console: Console) -> int:
    note = StdinReader().text() if options.note == STDIN_MARK else options.note
    where = "user" if options.user else "project"
    console.info(asyncio.run(add_memory(note, workspace_options(options), section=options.section, where=where)))
    return 0


def _show(options: argparse.Namespace, console: Console) -> int:
    found = list_memory_files(workspace_options(options))
    if options.user:
        found = [file for file in found if file.where == "user"]
    if options.json:
        console.write_json(found)
        return 0
    for file in found:
        if options.action == "path":
            console.row(file.path)
        elif file.text:
            note = "" if file.read else "  (not read: the folder is not trusted. Run `mainspring trust`)"
            console.info(f"{file.path}{note}")
            console.answer(file.text.rstrip("\n") + "\n")
    if options.action == "show" and not any(file.text for file in found):
        console.info(
            f"No notes yet. Add one with `mainspring memory add NOTE{' --user' if options.user else ''}`, or ask the agent to remember something."
        )
    return 0
