"""What was spent, and what may be.

The limits of a run and of its conversation, with all sub-agents: asked before each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mainspring.events import RunStatus
from mainspring.loop.hooks import BudgetWarning, RunDone, TurnBefore, UsageUpdate
from mainspring.loop.option_types import Budget
from mainspring.messages import AgentMessage, Message, Usage

if TYPE_CHECKING:
    from mainspring.loop import HookBus


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

    def add_past_usage(self, messages: Iterable[AgentMessage]) -> None:
        """Enter here, not above, what the answers of a stored conversation cost when they were made."""
        above, self.above = self.above, None
        for message in messages:
            if isinstance(message, Message) and message.usage is not None:
                self.add(message.usage)
        self.above = above


class SpendingLimits:
    """Enters what a run spends, and ends it before the request that a limit forbids.

    Args:
        run: The run's own budget.
        session: That of the whole conversation.
        ledger: The run's ledger; it stands below the conversation's.
        bus: Hears the warnings.
        elapsed: A clock, in seconds.
        warn_at: The share of a limit from which on there is a warning, once for each limit; ``None``: never.
    """

    def __init__(
        self,
        run: Budget,
        session: Budget,
        ledger: Ledger,
        bus: HookBus,
        elapsed: Callable[[], float],
        *,
        warn_at: float | None = 0.8,
    ) -> None:
        self._run, self._session = run, session
        self._ledger = ledger
        self._bus = bus
        self._elapsed = elapsed
        self._started = elapsed()
        self._warn_at = warn_at
        self._warned: set[tuple[str, str]] = set()
        self._own = Ledger(ledger)

    def usage(self, hook: UsageUpdate) -> None:
        """The handler of `usage`."""
        self._own.add(hook.usage, turns=0 if hook.purpose else 1)

    async def before(self, hook: TurnBefore) -> None:
        """The handler of `turn:before`; belongs behind all others, since they may spend something."""
        if hook.stop is not None:  # it ends as it is
            return
        for scope, status, spent, limit in self._request_timeouts():
            if spent >= limit:
                hook.stop = status
                return
            if self._warn_at is not None and spent >= self._warn_at * limit and (scope, status) not in self._warned:
                self._warned.add((scope, status))
                if self._bus.has(BudgetWarning):
                    await self._bus.emit(BudgetWarning(scope, status, spent, limit))

    def done(self, hook: RunDone) -> None:
        """The handler of `agent:done`: enters what is missing, such as a call that broke off, and the time.

        The run's ledger holds what its sub-agents spent; so does the run's usage, where they are its own (`spawn`).
        """
        cost = hook.usage.cost.total if hook.usage.cost else self._ledger.cost
        tokens, turns = hook.usage.total_tokens - self._ledger.tokens, hook.turns - self._own.turns
        self._own.enter(max(tokens, 0), max(cost - self._ledger.cost, 0.0), max(turns, 0))
        seconds = self._elapsed() - self._started
        self._ledger.seconds += seconds
        if self._ledger.above is not None:
            self._ledger.above.seconds += seconds

    def reached_limit(self) -> RunStatus | None:
        """The limit that forbids another request, if one does; those of sub-agents too."""
        return next((status for _, status, spent, limit in self._request_timeouts() if spent >= limit), None)

    def _request_timeouts(self) -> Iterator[tuple[str, RunStatus, float, float]]:
        """Scope, the status that ends a run there, what was spent, and the limit."""
        seconds = self._elapsed() - self._started
        for scope, ledger, budget in (("run", self._ledger, self._run), ("session", self._ledger.above, self._session)):
            if ledger is None:
                continue
            if budget.max_turns is not None:
                yield scope, "max_turns", ledger.turns, budget.max_turns
            if budget.max_total_tokens is not None:
                yield scope, "max_tokens", ledger.tokens, budget.max_total_tokens
            if budget.max_cost is not None:
                yield scope, "max_cost", ledger.cost, budget.max_cost
            if budget.max_seconds is not None:
                yield scope, "max_seconds", ledger.seconds + seconds, budget.max_seconds
