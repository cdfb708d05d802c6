"""``mainspring hooks``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

import msgspec

from mainspring.app.cli.arguments import STDIN, UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DENIED, DONE
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.cli.stdin import Piped
from mainspring.app.commands.hooks_actions import Tried, list_hooks, try_hooks


def run(options: argparse.Namespace) -> int:
    """List or try; the exit code.

    Raises:
        UsageError: If the event is missing.
    """
    if options.action == "test" and not options.event:
        raise UsageError(
            'hooks test needs an EVENT, as in: mainspring hooks test PreToolUse --tool shell \'{"command": "ls"}\''
        )
    work = _list if options.action == "list" else _try
    return framed(options, lambda console: work(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_hooks(place_of(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return DONE
    for h in found:
        console.row(f"{h.event}  {h.matcher or '*'}  {h.command}  ({h.timeout:g} s, {h.origin})")
    if not found:
        console.say("no command is asked; they belong into the settings, under hooks")
    return DONE


def _try(options: argparse.Namespace, console: Console) -> int:
    arguments = Piped().text() if options.arguments == STDIN else options.arguments or ""
    tried = asyncio.run(try_hooks(options.event, options.tool or "", arguments, place_of(options)))
    if options.json:
        console.data(msgspec.json.encode(tried).decode())
    else:
        for line in _told(tried):
            console.row(line)
        if not tried.verdicts:
            console.say("no command is asked about this")
    return DENIED if tried.refused else DONE


def _told(tried: Tried) -> Iterator[str]:
    for verdict in tried.verdicts:
        yield verdict.hook.command
        said = {
            "failed": verdict.failure,
            "refuses": verdict.deny,
            "asks": verdict.ask,
            "ends the run": verdict.stop,
            "arguments": verdict.input and msgspec.json.encode(verdict.input).decode(),
            "output": verdict.output,
            "for the model": verdict.context,
            "for the user": verdict.message,
        }
        told = [f"  {name}: {value}" for name, value in said.items() if value]
        yield from told or ["  no objection"]
