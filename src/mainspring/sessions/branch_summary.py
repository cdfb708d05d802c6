"""Leave a branch of a session: summarize it, and add the summary to the new branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.messages import AgentMessage, Message
from mainspring.policies.compaction import Compaction, compact_history
from mainspring.sessions.entries import BranchEntry
from mainspring.sessions.loader import history_at

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider
    from mainspring.sessions.session import Session

_SUMMARY_INSTRUCTIONS = "The conversation goes back to an earlier point now. Sum up what was tried here and what resulted from it, for the agent that continues there."


async def branch_and_summarize(
    session: Session,
    entry: str | None,
    model: ModelProvider,
    label: str = "",
    *,
    options: Compaction | None = None,
    side_call: SideModelCall | None = None,
) -> BranchEntry:
    """Continue from another entry, like `Session.branch`, with a summary of the abandoned branch.

    The summary is added to the new branch as a user message. If nothing is abandoned or no usable summary can be created, the
    conversation continues without one.

    Args:
        session: The session. No agent may be running in it.
        entry: Where to continue. ``None`` starts with an empty history.
        model: The model that summarizes, unless ``options`` names another.
        label: A reason or name.
        options: Options of the summary: ``prompt``, ``model``.
        side_call: Calls the model, and counts the usage; see `compact_history`.

    Raises:
        SessionError: If the entry does not exist or is between calls and their results.
        AgentBusyError: If an agent is using the session.
    """
    session.journal.check_idle()
    messages = messages_left(session, entry)
    summary = ""
    if messages:
        compacted = await compact_history(
            [*messages, Message.user("(left here)")],
            model,
            replace(options or Compaction(), keep_recent=1, keep=None, keep_important=0),
            side_call=side_call,
            instructions=_SUMMARY_INSTRUCTIONS,
        )
        summary = compacted[1].summary if compacted else ""
    return session.branch(entry, label, summary=summary)


def messages_left(session: Session, entry: str | None) -> Sequence[AgentMessage]:
    """Return the messages of the current history that are not in the history of another entry.

    Raises:
        SessionError: If the entry does not exist.
    """
    journal = session.journal
    if entry is None:
        return journal.history.messages
    there = set(history_at(journal.read_tree_with(entry), journal.log_with_pending(), entry).entry_ids)
    pairs = zip(journal.history.messages, journal.history.entry_ids, strict=True)
    return [message for message, ref in pairs if not ref or ref not in there]
