"""Carrying out a plan."""

from __future__ import annotations

from mainspring.errors import ConfigError
from mainspring.runtime.chat.events import Notice
from mainspring.runtime.chat.messages import said
from mainspring.runtime.chat.room import Room
from mainspring.runtime.chat.runs import Runs
from mainspring.runtime.outcome import Notice as Told
from mainspring.runtime.planning import plan_text


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
