"""Leaving a branch without forgetting it: what was said there is summed up, and the summary goes on to the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.loop.option_types import Compaction
from mainspring.messages import AgentMessage, Message
from mainspring.policies.compaction import compact_history
from mainspring.sessions.entries import BranchEntry
from mainspring.sessions.loader import history_at

if TYPE_CHECKING:
    from mainspring.models import ModelProvider
    from mainspring.sessions.session import Session

_SUMMARY_INSTRUCTIONS = "The conversation goes back to an earlier point now. Sum up what was tried here and what came of it, for whoever goes on there."


async def branch_and_summarize(
    session: Session,
    entry: str | None,
    model: ModelProvider,
    label: str = "",
    *,
    options: Compaction | None = None,
) -> BranchEntry:
    """Go on from another entry, as `Session.branch` does, and take a summary of what is left along.

    The summary stands in the new branch as a message of the user. Where nothing is left, or no good summary can be had, the
    conversation goes on from there without one.

    Args:
        session: The session; no agent may be running in it.
        entry: Where to go on; ``None`` starts again with an empty history.
        model: Who sums up, unless ``options`` names another.
        label: Why, or a name.
        options: How it is summed up: ``prompt``, ``model``.

    Raises:
        SessionError: If there is no such entry, or it stands between calls and their results.
        AgentBusyError: If an agent is using the session right now.
    """
    session.journal.check_idle()
    left = messages_left(session, entry)
    summary = ""
    if left:
        made = await compact_history(
            [*left, Message.user("(left here)")],
            model,
            replace(options or Compaction(), keep_recent=1, keep=None, keep_important=0),
            instructions=_SUMMARY_INSTRUCTIONS,
        )
        summary = made[1].summary if made else ""
    return session.branch(entry, label, summary=summary)


def messages_left(session: Session, entry: str | None) -> Sequence[AgentMessage]:
    """The messages of the current history that are none at another entry.

    Raises:
        SessionError: If there is no such entry.
    """
    journal = session.journal
    if entry is None:
        return journal.history.messages
    there = set(history_at(journal.read_tree_with(entry), journal.view(), entry).refs)
    pairs = zip(journal.history.messages, journal.history.refs, strict=True)
    return [message for message, ref in pairs if not ref or ref not in there]
