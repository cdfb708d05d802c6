"""Going back in a saved conversation, and with the files that its tools changed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from mainspring.app.run.options import Place
from mainspring.app.workspace.load import load
from mainspring.counting import counted
from mainspring.env import LocalEnv
from mainspring.errors import SessionError
from mainspring.sessions import Session, find_session, read_transcript
from mainspring.sessions.rewind import RewindPlan, Rewound, plan_rewind, plan_undo, rewind


class Moment(Struct, frozen=True):
    """A point to go back to: right before a prompt.

    Attributes:
        number: Counted back: 1 is before the last prompt.
        entry: The entry to go back to; ``None`` is before everything.
        text: How the prompt begins.
    """

    number: int
    entry: str | None
    text: str


class Step(Struct, frozen=True, kw_only=True):
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


def moments(name: str | None, place: Place, environ: Mapping[str, str] = os.environ) -> list[Moment]:
    """The points to go back to, the last one first.

    Raises:
        SessionError: If there is no such session.
    """
    cwd, settings = load(place, {}, environ)
    home = settings.home.root if settings.home else None
    info = find_session(name or "", cwd, home=home)
    with Session.open(info.place, home=home, write=False) as session:
        return _moments(session)


async def step_back(
    name: str | None, place: Place, step: Step, environ: Mapping[str, str] = os.environ
) -> tuple[RewindPlan, Rewound | None]:
    """Go back, or tell what would happen.

    Returns:
        The plan, and what was done (``None`` for a dry run).

    Raises:
        SessionError: If there is no such session or entry, or it cannot be done; nothing has changed then.
    """
    cwd, settings = load(place, {}, environ)
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
                session, env, plan, files=step.files, conversation=step.conversation, force=step.force
            )
    finally:
        await env.aclose()


def _target(session: Session, to: str) -> str | None:
    if not to.isdecimal() or len(to) > 6:
        return to
    known = _moments(session)
    for moment in known:
        if moment.number == int(to):
            return moment.entry
    raise SessionError(f"this session has {counted(len(known), 'prompt')}, so one cannot go back {to}")


def _moments(session: Session) -> list[Moment]:
    transcript = read_transcript(session.store, session.place)
    path = [item for item in transcript.items if item.active]
    prompts = [(i, item) for i, item in enumerate(path) if item.kind == "user" and item.source == "prompt"]
    found: list[Moment] = []
    for number, (i, item) in enumerate(reversed(prompts), 1):
        found.append(Moment(number, _entry_before(session, item.id) if i else None, " ".join(item.text.split())[:80]))
    return found


def _entry_before(session: Session, entry: str) -> str | None:
    """The last entry of the run before the one that begins with a prompt."""
    entries = session.entries()
    at = next(i for i, e in enumerate(entries) if e.id == entry)
    while at and getattr(entries[at - 1], "run", None) == getattr(entries[at], "run", ""):
        at -= 1
    return entries[at].parent
