"""``mainspring rewind``."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.commands.rewind_actions import Step, moments, step_back
from mainspring.counting import counted

_WORDS = {"change": "changes back", "create": "comes back", "delete": "goes away"}


def run(options: argparse.Namespace) -> int:
    """List the moments, tell what would happen, or go back; the exit code."""
    return framed(options, lambda console: _list(options, console) if options.list else _go(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = moments(options.session, place_of(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return 0
    for moment in found:
        console.row(f"{moment.number:>4}  before: {one_line(moment.text, 80)}")
    return 0


def _go(options: argparse.Namespace, console: Console) -> int:
    step = Step(
        to="undo" if options.undo else options.to,
        files=not options.conversation_only,
        conversation=not options.files_only,
        force=options.force,
        dry=options.dry_run,
    )
    plan, done = asyncio.run(step_back(options.session, place_of(options), step))
    if options.json:
        console.data(msgspec.json.encode({"plan": plan, "done": done is not None}).decode())
        return 0
    if step.files:
        for restore in plan.restores:
            console.row(f"{restore.path}  {_WORDS[restore.action]}")
        for conflict in plan.conflicts:
            if done is None:
                console.say(f"conflict: {conflict.path}: {conflict.reason}")
            elif not conflict.forcible:
                console.say(f"left as it is: {conflict.path}: {conflict.reason}")
        for command in plan.uncovered:
            console.say(f"not covered: what {one_line(command, 100)} changed stays as it is")
    if step.conversation:
        verbs = ("would be", "would be") if done is None else ("was", "were")
        left = counted(plan.messages, f"message {verbs[0]}", f"messages {verbs[1]}")
        console.say(f"{left} left behind; the session keeps what was left")
    if done is not None:
        console.say("mainspring rewind --undo takes it back")
    return 0
