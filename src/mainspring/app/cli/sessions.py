"""``mainspring sessions``."""

from __future__ import annotations

import argparse

import msgspec

from mainspring.app.cli.args import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.frame import framed, place_of
from mainspring.runtime.commands.export import import_file
from mainspring.runtime.commands.sessions import saved_sessions


def run(options: argparse.Namespace) -> int:
    """Show the list, or take a session in; the exit code.

    Raises:
        UsageError: If there is no file to take in.
    """
    if options.action == "import":
        if not options.file:
            raise UsageError("sessions import needs a FILE, as `mainspring export --format jsonl` writes it")
        return framed(options, lambda console: _import(options, console))

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


def _import(options: argparse.Namespace, console: Console) -> int:
    session, problems = import_file(options.file, place_of(options))
    for problem in problems:
        console.say(f"note: {problem}")
    console.say(f"imported; go on with: mainspring --session {session} -p ...")
    console.answer(f"{session}\n")
    return 0
