"""Going back in a saved conversation, and with the files that its tools changed.

``mainspring rewind``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.env import LocalEnv
from mainspring.errors import SessionError
from mainspring.sessions import Session, find_session, read_transcript
from mainspring.sessions.rewind import RewindPlan, RewindResult, plan_rewind, plan_undo, rewind
from mainspring.text import pluralize


class RewindPoint(Struct, frozen=True):
    """A point to go back to: right before a prompt.

    Attributes:
        number: Counted back: 1 is before the last prompt.
        entry: The entry to go back to; ``None`` is before everything.
        text: How the prompt begins.
    """

    number: int
    entry: str | None
    text: str


class RewindRequest(Struct, frozen=True, kw_only=True):
    """What is to be done.

    Attributes:
        to: How many prompts to go back, an entry's id, or ``undo``.
        files: Whether files go back.
        conversation: Whether the conversation does.
        force: Whether files that somebody else changed since are replaced too.
        dry: Whether to tell only what would happen.
    """

    to: str = "1"
    files: bool = True
    conversation: bool = True
    force: bool = False
    dry: bool = False


def list_rewind_points(
    name: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> list[RewindPoint]:
    """The points to go back to, the last one first.

    Raises:
        SessionError: If there is no such session.
    """
    cwd, settings = load_rules(place, {}, environ)
    home = settings.home.root if settings.home else None
    info = find_session(name or "", cwd, home=home)
    with Session.open(info.place, home=home, write=False) as session:
        return _rewind_points(session)


async def rewind_session(
    name: str | None, place: WorkspaceOptions, step: RewindRequest, environ: Mapping[str, str] = os.environ
) -> tuple[RewindPlan, RewindResult | None]:
    """Go back, or tell what would happen.

    Returns:
        The plan, and what was done (``None`` for a dry run).

    Raises:
        SessionError: If there is no such session or entry, or it cannot be done; nothing has changed then.
    """
    cwd, settings = load_rules(place, {}, environ)
    home = settings.home.root if settings.home else None
    info = find_session(name or "", cwd, home=home)
    env = LocalEnv(cwd)
    try:
        with Session.open(info.place, home=home, write=not step.dry) as session:
            plan = (
                await plan_undo(session, env)
                if step.to == "undo"
                else await plan_rewind(session, env, _target(session, step.to))
            )
            if step.dry:
                return plan, None
            return plan, await rewind(
                session, env, plan, files=step.files, conversation=step.conversation, overwrite=step.force
            )
    finally:
        await env.aclose()


def _target(session: Session, to: str) -> str | None:
    if not to.isdecimal() or len(to) > 6:
        return to
    known = _rewind_points(session)
    for moment in known:
        if moment.number == int(to):
            return moment.entry
    raise SessionError(f"this session has {pluralize(len(known), 'prompt')}, so one cannot go back {to}")


def _rewind_points(session: Session) -> list[RewindPoint]:
    transcript = read_transcript(session.store, session.location)
    path = [item for item in transcript.items if item.active]
    prompts = [(i, item) for i, item in enumerate(path) if item.kind == "user" and item.source == "prompt"]
    found: list[RewindPoint] = []
    for number, (i, item) in enumerate(reversed(prompts), 1):
        found.append(
            RewindPoint(number, _entry_before(session, item.id) if i else None, " ".join(item.text.split())[:80])
        )
    return found


def _entry_before(session: Session, entry: str) -> str | None:
    """The last entry of the run before the one that begins with a prompt."""
    entries = session.entries()
    at = next(i for i, e in enumerate(entries) if e.id == entry)
    while at and getattr(entries[at - 1], "run", None) == getattr(entries[at], "run", ""):
        at -= 1
    return entries[at].parent


_ACTION_LABELS = {"change": "changes back", "create": "comes back", "delete": "goes away"}


def run(options: argparse.Namespace) -> int:
    """List the moments, tell what would happen, or go back; the exit code."""
    return run_command(options, lambda console: _list(options, console) if options.list else _rewind(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_rewind_points(options.session, workspace_options(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return 0
    for moment in found:
        console.row(f"{moment.number:>4}  before: {one_line(moment.text, 80)}")
    return 0


def _rewind(options: argparse.Namespace, console: Console) -> int:
    step = RewindRequest(
        to="undo" if options.undo else options.to,
        files=not options.conversation_only,
        conversation=not options.files_only,
        force=options.force,
        dry=options.dry_run,
    )
    plan, done = asyncio.run(rewind_session(options.session, workspace_options(options), step))
    if options.json:
        console.data(msgspec.json.encode({"plan": plan, "done": done is not None}).decode())
        return 0
    if step.files:
        for restore in plan.restores:
            console.row(f"{restore.path}  {_ACTION_LABELS[restore.action]}")
        for conflict in plan.conflicts:
            if done is None:
                console.info(f"conflict: {conflict.path}: {conflict.reason}")
            elif not conflict.forcible:
                console.info(f"left as it is: {conflict.path}: {conflict.reason}")
        for command in plan.uncovered:
            console.info(f"not covered: what {one_line(command, 100)} changed stays as it is")
    if step.conversation:
        verbs = ("would be", "would be") if done is None else ("was", "were")
        left = pluralize(plan.messages, f"message {verbs[0]}", f"messages {verbs[1]}")
        console.info(f"{left} left behind; the session keeps what was left")
    if done is not None:
        console.info("mainspring rewind --undo takes it back")
    return 0
