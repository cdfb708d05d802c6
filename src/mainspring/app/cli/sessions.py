"""``mainspring sessions``."""

from __future__ import annotations

import argparse

import msgspec

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.frame import framed, place_of
from mainspring.runtime.commands.sessions import saved_sessions


def run(options: argparse.Namespace) -> int:
    """Show the list; the exit code."""

    def work(console: Console) -> int:
        found = saved_sessions(place_of(options), everywhere=options.all)
        if options.json:
            console.data(msgspec.json.encode(found).decode())
            return 0
        for info in found:
            when = f"{info.updated.astimezone():%Y-%m-%d %H:%M}" if info.updated else "?"
            where = f"  {info.cwd}" if options.all else ""
            console.answer(f"{info.id}  {when}  {one_line(info.problem or info.title or info.preview, 80)}{where}\n")
        if not found:
            console.say(
                "there are no sessions" + ("" if options.all else " of this folder; --all lists those of all folders")
            )
        return 0

    return framed(options, work)
