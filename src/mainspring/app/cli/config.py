"""``mainspring config``."""

from __future__ import annotations

import argparse
import json

import msgspec

from mainspring.app.cli.args import STDIN, UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.frame import framed, place_of
from mainspring.app.cli.stdin import Piped
from mainspring.runtime.commands.config import Config, change_config, show_config


def run(options: argparse.Namespace) -> int:
    """Show or change; the exit code.

    Raises:
        UsageError: If key or value is missing.
    """
    action = options.action
    if action in {"set", "unset"} and not options.key:
        raise UsageError(f"config {action} needs a KEY, as in agent.maxTokens")
    if action == "set" and options.value is None:
        raise UsageError("config set needs a VALUE; '-' reads it from stdin")
    return framed(
        options, lambda console: _change(options, console) if action in {"set", "unset"} else _show(options, console)
    )


def _change(options: argparse.Namespace, console: Console) -> int:
    value: str | None = None
    if options.action == "set":
        value = Piped().text().strip() if options.value == STDIN else options.value
    file = change_config(options.key, value)
    console.say(f"{options.key} {'set in' if value is not None else 'taken out of'} {file}")
    return 0


def _show(options: argparse.Namespace, console: Console) -> int:
    found = show_config(place_of(options))
    for warning in found.warnings:
        console.say(f"note: {warning}")
    if options.action == "path":
        console.answer("".join(f"{file}\n" for file in found.files))
    elif options.json:
        console.data(msgspec.json.encode(found).decode())
    else:
        console.answer(_table(found, with_origin=options.origin))
        if not found.settings:
            console.say("nothing is set; the defaults hold")
    return 0


def _table(found: Config, *, with_origin: bool) -> str:
    lines: list[str] = []
    for setting in found.settings:
        shown = json.dumps(setting.value, ensure_ascii=False)
        origin = f"   # {setting.origin}" if with_origin else ""
        lines.append(f"{setting.key} = {shown}{origin}\n")
    return "".join(lines)
