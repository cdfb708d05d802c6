"""Spending and its limits.

The limits of a run and of its conversation, subagents included, are checked before each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from mainspring.events import LimitWarning, RunStatus, UsageUpdate
from mainspring.loop.hooks import SessionEnd, TurnBefore
from mainspring.messages import AgentMessage, Message, Usage
from mainspring.options import Options, option

if TYPE_CHECKING:
    from mainspring.loop import HookBus


class Budget(Struct, frozen=True, kw_only=True):
    """The limits of a budget; ``None``: no limit.

    Attributes:
        max_cost: US dollars; calls of unknown price cost nothing.
        max_total_tokens: Tokens, input and output of all calls together.
        max_turns: Model calls.
        max_seconds: Seconds during which runs are active.
    """

    max_cost: Annotated[float, Meta(ge=0)] | None = None
    max_total_tokens: Annotated[int, Meta(ge=0)] | None = None
    max_turns: Annotated[int, Meta(ge=0)] | None = None
    max_seconds: Annotated[float, Meta(ge=0)] | None = None


class SpendingOptions(Options, page="run-options.md#limits"):
    """Options of the limits of a conversation, and of warnings."""

    session_budget: Budget | None = option(
        default=None,
        doc="Budget of all runs of the conversation together, subagents included.",
        inherited=False,
    )
    warn_at: float | None = option(
        default=0.8,
        ge=0,
        le=1,
        doc="Share of a limit at which `budget:warning` fires once in a run; `None`: never.",
    )


class Ledger:
    """Tokens, cost, and turns of a run or conversation, subagents included.

    The parent of a run's ledger is the ledger of its conversation; the parent of a subagent's ledger is that of the run that
    started it. An entry is added to all ledgers above it immediately.

    Args:
        parent: The ledger that includes this one.

    Attributes:
        tokens: Prompt and response tokens of all calls.
        cost: US dollars, if prices are known.
        turns: Completed model calls.
        seconds: Duration of finished runs; subagents run within that time and are not added.
    """

    __slots__ = ("parent", "cost", "seconds", "tokens", "turns")

    def __init__(self, parent: Ledger | None = None) -> None:
        self.parent = parent
        self.tokens = 0
        self.cost = 0.0
        self.turns = 0
        self.seconds = 0.0

    def add(self, usage: Usage, cost: float | None = None, *, turns: int = 1) -> None:
        """Add model calls.

        Args:
            usage: Their tokens.
            cost: US dollars; the cost in ``usage`` by default.
            turns: Number of calls; 0 for a call outside the conversation.
        """
        known = usage.cost.total if usage.cost else 0.0
        self.add_totals(usage.total_tokens, known if cost is None else cost, turns)

    def add_totals(self, tokens: int, cost: float, turns: int) -> None:
        """Add totals to this ledger and to all ledgers above it."""
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.tokens += tokens
            ledger.cost += cost
            ledger.turns += turns
            ledger = ledger.parent

    def add_past_usage(self, messages: Iterable[AgentMessage]) -> None:
        """Add the recorded usage of a stored conversation to this ledger only, not to its parents."""
        above, self.parent = self.parent, None
        for message in messages:
            if isinstance(message, Message) and message.usage is not None:
                self.add(message.usage)
        self.parent = above


class SpendingLimits:
    """Records the spending of a run and stops it before a request that exceeds a limit.

    Args:
        run: The budget of the run.
        session: The budget of the whole conversation.
        ledger: The run's ledger; its parent is the conversation's ledger.
        bus: The bus that receives the warnings.
        elapsed: A clock, in seconds.
        warn_at: Share of a limit at which to warn, once for each limit; ``None`` for no warnings.
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
        """Handle `usage`."""
        self._own.add(hook.usage, turns=0 if hook.purpose else 1)

    async def before(self, hook: TurnBefore) -> None:
        """Handle `turn:before`; runs after all other handlers, since they may spend something."""
        if hook.stop is not None:  # The run is stopping already: leave its status unchanged.
            return
        for scope, status, spent, limit in self._limits_in_order():
            if spent >= limit:
                hook.stop = status
                return
            if (
                self._warn_at is not None
                and spent >= self._warn_at * limit * (1 - 1e-9)
                and (scope, status) not in self._warned
            ):
                self._warned.add((scope, status))
                await self._bus.notify(LimitWarning(status, scope, spent, limit))

    def done(self, hook: SessionEnd) -> None:
        """Handle `agent:done`: record the missing usage (for example a call that was interrupted) and the time.

        The run's ledger includes its subagents, and so does the usage of the run if they belong to it (`spawn`).
        """
        cost = hook.usage.cost.total if hook.usage.cost else self._ledger.cost
        tokens, turns = hook.usage.total_tokens - self._ledger.tokens, hook.turns - self._own.turns
        self._own.add_totals(max(tokens, 0), max(cost - self._ledger.cost, 0.0), max(turns, 0))
        seconds = self._elapsed() - self._started
        self._ledger.seconds += seconds
        if self._ledger.parent is not None:
            self._ledger.parent.seconds += seconds

    def reached_limit(self) -> RunStatus | None:
        """Return the limit that forbids another request, limits of subagents included; ``None`` if no limit does."""
        return next((status for _, status, spent, limit in self._limits_in_order() if spent >= limit), None)

    def _limits_in_order(self) -> Iterator[tuple[str, RunStatus, float, float]]:
        """Yield the scope, the status of a run that stops there, the amount spent, and the limit."""
        seconds = self._elapsed() - self._started
        for scope, ledger, budget in (
            ("run", self._ledger, self._run),
            ("session", self._ledger.parent, self._session),
        ):
            if ledger is None:
                continue
            if budget.max_turns is not None:
                yield scope, "max_turns", ledger.turns, budget.max_turns
            if budget.max_total_tokens is not None:
                yield scope, "max_total_tokens", ledger.tokens, budget.max_total_tokens
            if budget.max_cost is not None:
                yield scope, "max_cost", ledger.cost, budget.max_cost
            if budget.max_seconds is not None:
                yield scope, "max_seconds", ledger.seconds + seconds, budget.max_seconds
