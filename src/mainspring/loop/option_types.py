"""Types of the values that `RunOptions` takes: budgets, compaction, reasoning, and repeated calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from mainspring.messages import AgentMessage

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider


class Budget(Struct, frozen=True, kw_only=True):
    """The most that may be spent; ``None`` is no limit.

    Attributes:
        max_cost: US dollars; a call whose price is unknown counts nothing.
        max_total_tokens: Tokens, prompt and answer of all calls together.
        max_turns: Answered model calls.
        max_seconds: Seconds during which runs go on.
    """

    max_cost: float | None = None
    max_total_tokens: int | None = None
    max_turns: int | None = None
    max_seconds: float | None = None


ExceedAction = Mapping[str, str] | None
"""What is to happen with a call over its budget: ``{"mode": "block" or "steer", "message": ...}``; ``None`` lets it pass."""


ExceedHandler = Literal["block", "steer"] | Callable[[str, int, int], ExceedAction | Awaitable[ExceedAction]]


class ToolBudget(Struct, frozen=True):
    """How often a tool may be called in a run, and what happens then.

    Attributes:
        max: Most calls.
        on_exceed: ``block``: further calls are refused. ``steer``: they are made, and the model is told once in a run, in a
            user message behind the results, to stop. A function of the tool's name, the number of this call and ``max``
            gives ``mode`` and ``message``; sync or async. Default ``block``.
    """

    max: int
    on_exceed: ExceedHandler = "block"


class ThinkingDecay(Struct, frozen=True):
    """Up to turn ``after_turn`` the whole budget, then ``factor`` times that of the turn before.

    Attributes:
        after_turn: The last turn of a run, from 1, with the whole budget.
        factor: By what the budget of each later turn is multiplied. Default 0.5.
        floor: Tokens below which it does not fall. Default 0.
    """

    after_turn: int
    factor: float = 0.5
    floor: int = 0

    def __call__(self, turn: int, base: int) -> float:
        """The budget of a turn whose whole budget were ``base``; may lie outside 0 to ``base``."""
        late = max(0, turn - self.after_turn)
        return base if not late else max(base * self.factor**late, self.floor)


CallKey = Callable[[Mapping[str, Any]], Hashable]
"""Gives, for the arguments of a call, what makes it the same as another: the same value, the same result."""


RESERVE = 16384
"""Tokens of the window that are kept free for an answer."""


KEEP_RECENT = 20000
"""Tokens of the newest messages that stay as they are."""


class Compaction(Struct, frozen=True, kw_only=True):
    """When and how a conversation is summed up.

    Attributes:
        reserve: Tokens of the model's window to keep free; the conversation is summed up when less is left. For a small window at
            most a quarter of it.
        keep_recent: About how many tokens of the newest messages stay as they are; for a small window at most a third of it.
        threshold: Tokens from which on it is summed up, in place of ``reserve``. Below 1 it is a share of the window.
        prompt: What is asked of the model in place of the built-in text; the conversation follows it.
        model: Who sums up; ``None`` is the conversation's own model.
        keep: Says of a message that it always stays as it is, with the results of its calls.
        keep_important: Tokens of old messages that stay as they are because much would be lost with them; see `score`.
    """

    reserve: int = RESERVE
    keep_recent: int = KEEP_RECENT
    threshold: float | None = None
    prompt: str | None = None
    model: ModelProvider | None = None
    keep: Callable[[AgentMessage], bool] | None = None
    keep_important: int = 0

    def limit(self, window: int | None) -> int | None:
        """Tokens from which on a conversation is summed up; ``None`` where the window is not known and nothing else is said."""
        if self.threshold is not None and self.threshold > 1:
            return int(self.threshold)
        if window is None:
            return None
        if self.threshold is not None:
            return int(window * self.threshold)
        return window - min(self.reserve, window // 4)

    def kept(self, window: int | None) -> int:
        """Tokens of the newest messages that stay."""
        return self.keep_recent if window is None else min(self.keep_recent, window // 3)


class Compactor(Protocol):
    """Makes a history shorter."""

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """A shorter history, or ``None`` if there is nothing to shorten. Messages that stay must be the same objects.

        Args:
            messages: The history. It is not changed; a session keeps it whatever comes of this.
            reason: Why, as in ``overflow``.
            side_call: Asks a model; ``None`` where none may be asked.
        """
        ...
