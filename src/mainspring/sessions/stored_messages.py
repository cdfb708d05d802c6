"""Stored turns: a message together with what storing it adds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from mainspring.messages import AgentMessage, ContentBlock, Message, Role, StopReason, Usage
from mainspring.prompt_tags import strip_attachments


class SessionTurn(Struct, frozen=True, kw_only=True, eq=False):
    """A stored message.

    Attributes:
        id: Under which it is stored.
        role: Who speaks.
        blocks: What it holds.
        usage: Tokens of the call that made it.
        created_at: When, in UTC.
        stop_reason: Why the model stopped.
        error: What went wrong, where something did.
        provider: Who made it.
        model: Which model made it.
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
    """The turns of a history; application messages are none.

    Args:
        messages: The history.
        ids: For each message what to call a turn that has no id of its own.
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
    """The messages of stored turns, without loss."""
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
    """What a prompt says in a line, for lists: the person's words, without text that was attached to them."""
    words = strip_attachments(text).split() or text.split()
    return " ".join(words)
