"""``mainspring trust``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.workspace.acting import Act
from mainspring.app.workspace.trust_actions import distrust, trust, trusted_folders, what_acts


def run(options: argparse.Namespace) -> int:
    """Trust, distrust or list; the exit code."""
    return framed(options, lambda console: _work(options, console))


def _work(options: argparse.Namespace, console: Console) -> int:
    if options.list:
        found = trusted_folders()
        if options.json:
            console.data(msgspec.json.encode(found).decode())
        else:
            for t in found:
                console.row(f"{t.folder}  since {t.since:%Y-%m-%d}")
            if not found:
                console.say("no folder is trusted")
        return 0
    if options.remove:
        path, known = distrust(options.folder, place_of(options))
        console.say(
            f"{path} is trusted no more" if known else f"{path} was not in the list; mainspring trust --list shows it"
        )
        return 0 if known else 1
    if options.show:
        acts = what_acts(options.folder, place_of(options))
        if options.json:
            console.data(msgspec.json.encode([{"file": str(act.file), "what": act.what} for act in acts]).decode())
        else:
            _tell(acts, console)
        return 0
    path = trust(options.folder, place_of(options))
    console.say(
        f"{path} is trusted: its settings, commands, hooks, extensions, servers, skills and memory count from now on"
    )
    _tell(what_acts(options.folder, place_of(options)), console)
    return 0


def _tell(acts: Sequence[Act], console: Console) -> None:
    """What acts by itself, with the very commands."""
    for act in acts:
        console.say(f"  {act.file}")
        for line in act.what:
            console.say(f"    {line}")
    if not acts:
        console.say("  nothing in it acts by itself")
