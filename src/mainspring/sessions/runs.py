"""The runs of a session and their outcomes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.messages import Usage
from mainspring.sessions.entries import RunEndEntry, RunStartEntry
from mainspring.sessions.loader import read_path, read_tree

if TYPE_CHECKING:
    from mainspring.sessions.session import Session


class SessionRun(Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        id: Its ID.
        agent: Name of the agent.
        started: Start time in UTC.
        ended: End time. ``None`` if it is running or its process was killed.
        status: ``completed``, ``aborted``, or another `RunStatus`. ``open`` if it has no end.
        turns: Number of model calls.
        usage: Total token usage.
        first: The first entry with a message of it.
        last: The last entry with a message of it.
        error: The error, if it failed.
    """

    id: str
    agent: str
    started: datetime
    ended: datetime | None = None
    status: str = "open"
    turns: int = 0
    usage: Usage = Usage()
    first: str = ""
    last: str = ""
    error: str = ""


def list_session_runs(session: Session) -> list[SessionRun]:
    """List the runs of all branches, oldest first. Reads the whole session.

    Args:
        session: The session.

    Raises:
        OSError: If it cannot be read.
    """
    view = session.journal.log_with_pending()
    nodes = [n for n in read_tree(view).nodes.values() if n.kind in {"run_start", "run_end"}]
    found: dict[str, SessionRun] = {}
    for line in read_path(view, nodes):
        match line.entry:
            case RunStartEntry() as entry:
                found[entry.run] = SessionRun(id=entry.run, agent=entry.agent, started=entry.timestamp)
            case RunEndEntry() as entry if entry.run in found:
                start = found[entry.run]
                found[entry.run] = SessionRun(
                    id=entry.run,
                    agent=start.agent,
                    started=start.started,
                    ended=entry.timestamp,
                    status=entry.status,
                    turns=entry.turns,
                    usage=entry.usage,
                    first=entry.first,
                    last=entry.last,
                    error=entry.error,
                )
            case _:  # A line with invalid data, or an end without its start.
                pass
    return list(found.values())
