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
    """The limits of a budget; ``None``: no limit.

    Attributes:
        max_cost: US dollars; calls of unknown price cost nothing.
        max_total_tokens: Tokens, input and output of all calls together.
        max_turns: Model calls.
        max_seconds: Seconds during which runs are active.
    """

    max_cost: float | None = None
    max_total_tokens: int | None = None
    max_turns: int | None = None
    max_seconds: float | None = None


ExceedAction = Mapping[str, str] | None
"""What happens to a call over its budget: ``{"mode": "block" or "steer", "message": ...}``.

``None`` allows it.
"""


ExceedHandler = Literal["block", "steer"] | Callable[[str, int, int], ExceedAction | Awaitable[ExceedAction]]


class ToolBudget(Struct, frozen=True):
    """How often a tool may be called in a run, and what happens to further calls.

    Attributes:
        max: Maximum number of calls.
        on_exceed: ``block``: further calls are blocked. ``steer``: they run, and once in a run a user message after the
            results asks the model to stop. A function of the tool's name, the number of this call, and ``max`` returns
            ``mode`` and ``message``; sync or async. Default ``block``.
    """

    max: int
    on_exceed: ExceedHandler = "block"


class ThinkingDecay(Struct, frozen=True):
    """The whole reasoning budget up to turn ``after_turn``, then ``factor`` times that of the previous turn.

    Attributes:
        after_turn: The last turn of a run, from 1, with the whole budget.
        factor: The factor for each later turn. Default 0.5.
        floor: Minimum number of tokens. Default 0.
    """

    after_turn: int
    factor: float = 0.5
    floor: int = 0

    def __call__(self, turn: int, base: int) -> float:
        """Return the budget of a turn for the whole budget ``base``.

        It may be outside 0 to ``base``.
        """
        late = max(0, turn - self.after_turn)
        return base if not late else max(base * self.factor**late, self.floor)


CallKeyFunction = Callable[[Mapping[str, Any]], Hashable]
"""Returns a key for the arguments of a call: calls with the same key have the same result."""


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

    reserve: int = RESERVE
    keep_recent: int = KEEP_RECENT
    threshold: float | None = None
    prompt: str | None = None
    model: ModelProvider | None = None
    keep: Callable[[AgentMessage], bool] | None = None
    keep_important: int = 0

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
