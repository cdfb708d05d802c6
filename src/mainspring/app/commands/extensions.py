"""``mainspring extensions``."""

from __future__ import annotations

import argparse

import msgspec

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DONE
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.commands.extensions_actions import ExtensionView, list_extensions


def run(options: argparse.Namespace) -> int:
    """List them; the exit code."""
    return framed(options, lambda console: _list(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_extensions(place_of(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return DONE
    for each in found:
        console.row(_line(each))
    if not found:
        console.say(
            "there are no extensions: Python files in ~/.agent/extensions, or in that folder of a project that you trust"
        )
    return DONE


def _line(each: ExtensionView) -> str:
    place = f"{each.place}:{each.line}" if each.line else each.place
    if each.problem:
        return f"{each.name}  not used: {each.problem} ({place})"
    return f"{each.name}  {each.origin}  {place}"
