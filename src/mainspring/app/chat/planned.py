"""Carrying out a plan."""

from __future__ import annotations

from mainspring.app.chat.events import Notice
from mainspring.app.chat.messages import said
from mainspring.app.chat.runs import Runs
from mainspring.app.chat.state import Room
from mainspring.app.compose.plan_mode import plan_text
from mainspring.app.run.events import Notice as Told
from mainspring.errors import ConfigError


def begin_plan(room: Room, runs: Runs, name: str) -> None:
    """Leave plan mode and carry out a plan: the file named, or the last one. Blocks for a short read.

    Raises:
        ConfigError: If there is none, or a run goes on.
    """
    if room.running:
        raise ConfigError("a run goes on; stop it before a plan is carried out")
    plan = room.conversation.plan
    wanted = name or (plan.state.file if plan is not None else "")
    notes: list[str] = []
    text = plan_text(
        wanted,
        room.conversation.env.cwd,
        lambda report: notes.append(report.text) if isinstance(report, Told) else None,
    )
    room.set_mode("build")
    for note in notes:
        room.tell(Notice(note))
    runs.begin(said(text), "command")
