"""What was spent, and what may be."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mainspring.messages import AgentMessage, Message, Usage


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


class Ledger:
    """Tokens, money and turns of somebody and of everybody below.

    A run's ledger stands below that of its conversation; a sub-agent's below that of the run that started it. What is
    entered anywhere counts all the way up, at once.

    Args:
        above: The ledger that this one is part of.

    Attributes:
        tokens: Prompt and answer of all calls together.
        cost: US dollars, as far as prices are known.
        turns: Answered model calls.
        seconds: Of finished runs; those of sub-agents lie within and are not added.
    """

    __slots__ = ("above", "cost", "seconds", "tokens", "turns")

    def __init__(self, above: Ledger | None = None) -> None:
        self.above = above
        self.tokens = 0
        self.cost = 0.0
        self.turns = 0
        self.seconds = 0.0

    def add(self, usage: Usage, cost: float | None = None, *, turns: int = 1) -> None:
        """Enter model calls.

        Args:
            usage: Their tokens.
            cost: US dollars; if not given, what ``usage`` says.
            turns: How many calls; 0 for one beside the conversation.
        """
        known = usage.cost.total if usage.cost else 0.0
        self.enter(usage.total_tokens, known if cost is None else cost, turns)

    def enter(self, tokens: int, cost: float, turns: int) -> None:
        """Enter figures, here and all the way up."""
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.tokens += tokens
            ledger.cost += cost
            ledger.turns += turns
            ledger = ledger.above

    def add_history(self, messages: Iterable[AgentMessage]) -> None:
        """Enter here, not above, what the answers of a stored conversation cost when they were made."""
        above, self.above = self.above, None
        for message in messages:
            if isinstance(message, Message) and message.usage is not None:
                self.add(message.usage)
        self.above = above
