"""The options of compaction, and the handlers that keep a conversation within the model's window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct

from mainspring.messages import AgentMessage
from mainspring.models import ModelProvider
from mainspring.options import Options, option

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall


RESERVE = 16384
"""Tokens of the window that are reserved for a response."""


KEEP_RECENT = 20000
"""Tokens of the newest messages that stay unchanged."""


class Compaction(Struct, frozen=True, kw_only=True):
    """When and how to compact a conversation.

    Attributes:
        reserve: Free tokens of the model's window below which the conversation is compacted. For a small window at most a
            quarter of it.
        keep_recent: Approximate tokens of the newest messages that stay unchanged; for a small window at most a third of it.
        threshold: Tokens from which on the conversation is compacted, instead of ``reserve``. Below 1: a share of the window.
        prompt: The prompt for the summary, instead of the built-in text; the conversation follows it.
        model: The model that writes the summary; ``None``: that of the conversation.
        keep: Returns True for a message that always stays unchanged, with the results of its calls.
        keep_important: Tokens of old messages that stay unchanged because they are important; see `score`.
    """

    reserve: Annotated[int, Meta(ge=0)] = RESERVE
    keep_recent: Annotated[int, Meta(ge=0)] = KEEP_RECENT
    threshold: Annotated[float, Meta(ge=0)] | None = None
    prompt: str | None = None
    model: ModelProvider | None = None
    keep: Callable[[AgentMessage], bool] | None = None
    keep_important: Annotated[int, Meta(ge=0)] = 0

    def limit(self, window: int | None) -> int | None:
        """Return the tokens from which on a conversation is compacted.

        Return ``None`` without a threshold and a known window.
        """
        if self.threshold is not None and self.threshold > 1:
            return int(self.threshold)
        if window is None:
            return None
        if self.threshold is not None:
            return int(window * self.threshold)
        return window - min(self.reserve, window // 4)

    def keep_tokens_for(self, window: int | None) -> int:
        """Return the tokens of the newest messages that stay unchanged."""
        return self.keep_recent if window is None else min(self.keep_recent, window // 3)


class Compactor(Protocol):
    """Shortens a history."""

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """Return a shorter history, or ``None`` if it cannot be shortened.

        Messages that stay must be the same objects.

        Args:
            messages: The history. It is never modified; a session stores it in any case.
            reason: Why, for example ``overflow``.
            side_call: Calls a model; ``None`` if no model may be called.
        """
        ...


class CompactionOptions(Options, page="context.md"):
    """Options of compaction."""

    compaction: Compaction | None = option(
        default=None,
        doc="When and how to compact the conversation before it reaches the model's window: a `Compaction`; `None`: never "
        "(the command turns it on).",
    )
    on_overflow: Literal["compact", "fail"] | Compactor = option(
        default="compact",
        doc="What happens when the conversation is too long for the model: `compact` shortens tool results, or summarizes "
        "older messages if that frees too little, and calls the model again, once; `fail` fails the run; or a `Compactor` of your own.",
        check=(
            lambda value: value in ("compact", "fail") or hasattr(value, "compact"),
            "'compact' or 'fail', or a Compactor",
        ),
    )
