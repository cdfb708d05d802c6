"""``mainspring rewind``: rewind a saved session, together with the files that its tools changed."""

from __future__ import annotations

import argparse
import asyncio

from msgspec import Struct

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules, session_store
from mainspring.env import LocalEnv
from mainspring.errors import SessionError
from mainspring.sessions import Session, find_session, read_transcript
from mainspring.sessions.history import prompt_preview
from mainspring.sessions.rewind import RewindPlan, RewindResult, plan_rewind, plan_undo, rewind
from mainspring.text import pluralize


class RewindPoint(Struct, frozen=True):
    """A point to rewind to: right before a prompt.

    Attributes:
        number: Number of prompts to undo: 1 is before the last prompt.
        entry: Entry to rewind to; None is before the first entry.
        text: Beginning of the prompt.
    """

    number: int
    entry: str | None
    text: str


class RewindRequest(Struct, frozen=True, kw_only=True):
    """A request to rewind.

    Attributes:
        to: Number of prompts to undo, an entry ID, or ``undo``.
        files: Whether to rewind files.
        conversation: Whether to rewind the conversation.
        force: Whether to overwrite files that were changed outside the session.
        dry: Whether to return only the plan.
    """

    to: str = "1"
    files: bool = True
    conversation: bool = True
    force: bool = False
    dry: bool = False


def list_rewind_points(name: str | None, place: WorkspaceOptions) -> list[RewindPoint]:
    """List the points to rewind to, the most recent first.

    Raises:
        SessionError: If the session is unknown.
    """
    cwd, settings = load_rules(place)
    home = session_store(settings)
    info = find_session(name or "", cwd, home=home)
    with Session.open(info.place, home=home, write=False) as session:
        return _rewind_points(session)


async def rewind_session(
    name: str | None, place: WorkspaceOptions, step: RewindRequest
) -> tuple[RewindPlan, RewindResult | None]:
    """Rewind a session, or return the plan.

    Returns:
        The plan, and the result (None for a dry run).

    Raises:
        SessionError: If the session or entry is unknown, or the rewind fails without any change.
    """
    cwd, settings = load_rules(place)
    home = session_store(settings)
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
            try:
                return plan, await rewind(
                    session, env, plan, files=step.files, conversation=step.conversation, overwrite=step.force
                )
            except SessionError as error:
                raise _with_hint(error, plan, step) from error
    finally:
        await env.aclose()


def _with_hint(error: SessionError, plan: RewindPlan, step: RewindRequest) -> SessionError:
    """Return the error with the option that overwrites changed files, if these prevented the rewind."""
    if step.force or not step.files or not plan.conflicts:
        return error
    return SessionError(
        f"{str(error).rstrip('.')}. To overwrite such files, use --force; their content is stored, and --undo restores it. To rewind only the "
        "conversation, use --conversation-only."
    )


def _target(session: Session, to: str) -> str | None:
    if not to.isdecimal() or len(to) > 6:
        return to
    known = _rewind_points(session)
    for moment in known:
        if moment.number == int(to):
            return moment.entry
    raise SessionError(f"Cannot rewind {to} prompts: this session has {pluralize(len(known), 'prompt')}.")


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
    """Return the last entry of the run before the run that starts with a prompt."""
    entries = session.entries()
    at = next(i for i, e in enumerate(entries) if e.id == entry)
    while at and getattr(entries[at - 1], "run", None) == getattr(entries[at], "run", ""):
        at -= 1
    return entries[at].parent


_ACTION_LABELS = {"change": "restored", "create": "recreated", "delete": "deleted"}


def run(options: argparse.Namespace) -> int:
    """List rewind points, show the plan, or rewind, and return the exit code."""
    return run_command(options, lambda console: _list(options, console) if options.list else _rewind(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_rewind_points(options.session, workspace_options(options))
    rows = (f"{moment.number:>4}  before: {one_line(prompt_preview(moment.text), 80)}" for moment in found)
    console.write_list(found, rows, as_json=options.json)
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
        console.write_json({"plan": plan, "done": done is not None})
        return 0
    if step.files:
        for restore in plan.restores:
            console.row(f"{restore.path}  {_ACTION_LABELS[restore.action]}")
        for conflict in plan.conflicts:
            if done is None:
                console.info(f"Conflict: {conflict.path}: {conflict.reason}")
            elif not conflict.forcible:
                console.info(f"Skipped {conflict.path}: {conflict.reason}")
        for command in plan.uncovered:
            console.info(f"Not rewound: files changed by {one_line(command, 100)}")
    if step.conversation:
        verbs = ("would be", "would be") if done is None else ("was", "were")
        if plan.returned:
            messages = pluralize(plan.returned, f"message {verbs[0]}", f"messages {verbs[1]}")
            console.info(f"{messages} restored to the conversation.")
        if plan.messages or not plan.returned:
            messages = pluralize(plan.messages, f"message {verbs[0]}", f"messages {verbs[1]}")
            console.info(f"{messages} removed from the conversation. The session still contains the old branch.")
    if done is not None:
        console.info("Undo this with `mainspring rewind --undo`.")
    return 0
