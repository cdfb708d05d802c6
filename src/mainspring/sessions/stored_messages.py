"""Stored turns: a message and the metadata that storing adds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from mainspring.messages import AgentMessage, ContentBlock, Message, Role, StopReason, Usage
from mainspring.prompt_tags import strip_attachments


class SessionTurn(Struct, frozen=True, kw_only=True, eq=False):
    """A stored message.

    Attributes:
        id: Its stored ID.
        role: Its role.
        blocks: Its content.
        usage: Token usage of the call that created it.
        created_at: Time in UTC.
        stop_reason: Why the model stopped.
        error: The error, if any.
        provider: The provider.
        model: The model.
    """

    id: str
    role: Role
    blocks: tuple[ContentBlock, ...]
    usage: Usage | None = None
    created_at: datetime
    stop_reason: StopReason | None = None
    error: str | None = None
    provider: str | None = None
    model: str | None = None


def to_stored_messages(messages: Iterable[AgentMessage], ids: Iterable[str]) -> list[SessionTurn]:
    """Convert a history to turns, without application messages.

    Args:
        messages: The history.
        ids: For each message, the ID of a turn that has none of its own.
    """
    return [
        SessionTurn(
            id=m.id or id,
            role=m.role,
            blocks=m.content,
            usage=m.usage,
            created_at=m.timestamp,
            stop_reason=m.stop_reason,
            error=m.error,
            provider=m.provider,
            model=m.model,
        )
        for m, id in zip(messages, ids, strict=True)
        if isinstance(m, Message)
    ]


def turns_to_messages(turns: Iterable[SessionTurn]) -> list[Message]:
    """Convert stored turns to messages, without loss."""
    return [
        Message(
            role=t.role,
            content=t.blocks,
            usage=t.usage,
            stop_reason=t.stop_reason,
            error=t.error,
            provider=t.provider,
            model=t.model,
            timestamp=t.created_at,
            id=t.id,
        )
        for t in turns
    ]


def prompt_preview(text: str) -> str:
    """Return a prompt on one line, for lists: the user's text, without attached text."""
    words = strip_attachments(text).split() or text.split()
    return " ".join(words)
