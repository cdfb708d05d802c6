"""Spending and its limits.

The limits of a run, of its conversation, and of ledgers that agents share, subagents included, are checked before each request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from mainspring.errors import ConfigError
from mainspring.events import LimitWarning, RunStatus, UsageUpdate
from mainspring.loop.hooks import SessionEnd, TurnBefore
from mainspring.messages import AgentMessage, Message, Usage
from mainspring.options import Options, find_nested_problem, option

if TYPE_CHECKING:
    from mainspring.loop import HookBus
    from mainspring.models import ModelRequest


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


class Reservation(Struct, frozen=True):
    """The expected spending of model calls in flight.

    Attributes:
        tokens: Tokens of the prompts.
        cost: US dollars.
        turns: Number of calls.
    """

    tokens: int = 0
    cost: float = 0.0
    turns: int = 0

    def plus(self, other: Reservation, sign: int = 1) -> Reservation:
        """Return the sum, or with ``sign=-1`` the difference."""
        turns = self.turns + sign * other.turns
        if not turns:
            return _NOTHING  # without rounding errors
        return Reservation(self.tokens + sign * other.tokens, self.cost + sign * other.cost, turns)


_NOTHING = Reservation()
_NO_LOCK = nullcontext()


def _validate_limit(limit: object) -> None:
    if not isinstance(limit, Budget):
        raise ConfigError(
            f"limit of a Ledger must be a Budget(...), for example Budget(max_cost=5.00), not {limit!r:.80}."
        )
    if problem := find_nested_problem("limit of a Ledger", limit):
        raise ConfigError(f"{problem}.")


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

    An application passes one ledger to several agents or conversations (``Agent(ledger=...)``). With a ``limit`` it bounds all of
    them together, in any event loop or thread. Each model call reserves one turn, the estimated tokens of its prompt, and their
    cost before it starts, so that parallel runs do not all spend the same rest of the budget.

    ```python
    customer = Ledger(limit=Budget(max_cost=5.00))
    agents = [Agent(model, ledger=customer) for model in models]
    ```

    Args:
        parent: The ledger that includes this one.
        limit: The budget of everything that is added to this ledger. A run that reaches it ends with the status of the limit.

    Raises:
        ConfigError: If the limit is invalid.

    Attributes:
        limit: The budget; ``None``: no limit.
        tokens: Prompt and response tokens of all calls.
        cost: US dollars, if prices are known.
        turns: Completed model calls.
        seconds: Duration of finished runs; subagents run within that time and are not added. A ledger with a limit also has the
            duration of active runs until their last request.
    """

    __slots__ = ("_lock", "_reserved", "cost", "limit", "parent", "seconds", "tokens", "turns")

    def __init__(self, parent: Ledger | None = None, *, limit: Budget | None = None) -> None:
        if limit is not None:
            _validate_limit(limit)
        self.parent = parent
        self.limit = limit
        self._reserved = _NOTHING
        self._lock = threading.Lock() if limit is not None else None
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
        with self._lock or _NO_LOCK:
            self.tokens += tokens
            self.cost += cost
            self.turns += turns
        if self.parent is not None:
            self.parent.add_totals(tokens, cost, turns)

    def add_seconds(self, seconds: float) -> None:
        """Add the duration of a run to this ledger, and to those directly above it that have a limit."""
        with self._lock or _NO_LOCK:
            self.seconds += seconds
        if self.parent is not None and self.parent.limit is not None:
            self.parent.add_seconds(seconds)

    def reserve(self, call: Reservation) -> RunStatus | None:
        """Reserve the expected spending of a call, unless the limit is reached by what is spent and reserved.

        Returns:
            The limit that forbids the call; ``None`` if it is reserved.
        """
        budget = self.limit
        if budget is None or self._lock is None:
            return None
        with self._lock:
            reserved = self._reserved
            checks: tuple[tuple[RunStatus, float, float | None], ...] = (
                ("max_turns", self.turns + reserved.turns, budget.max_turns),
                ("max_total_tokens", self.tokens + reserved.tokens, budget.max_total_tokens),
                ("max_cost", self.cost + reserved.cost, budget.max_cost),
            )
            for status, used, limit in checks:
                if limit is not None and used >= limit:
                    return status
            self._reserved = reserved.plus(call)
        return None

    def release(self, call: Reservation) -> None:
        """Remove a reservation."""
        with self._lock or _NO_LOCK:
            self._reserved = self._reserved.plus(call, -1)

    def reached_limit(self, budget: Budget) -> RunStatus | None:
        """Return the limit of a budget of this ledger, or of a ledger above it, that forbids a call outside of runs, if any.

        Such a call is not a turn, so limits of turns do not apply.
        """
        checked = ((self, budget), *[(ledger, ledger.limit) for ledger in self.iter_limited() if ledger.limit])
        for ledger, limits in checked:
            for status, spent, limit in _compare(ledger, limits):
                if spent >= limit and status != "max_turns":
                    return status
        return None

    def iter_limited(self) -> Iterator[Ledger]:
        """Yield the ledgers above this one that have a limit."""
        ledger = self.parent
        while ledger is not None:
            if ledger.limit is not None:
                yield ledger
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
        estimate: Returns the estimated usage of a request, of which only the prompt is known; for ledgers with a limit.
        warn_at: Share of a limit at which to warn, once for each limit; ``None`` for no warnings.
    """

    def __init__(
        self,
        run: Budget,
        session: Budget,
        ledger: Ledger,
        bus: HookBus,
        elapsed: Callable[[], float],
        estimate: Callable[[ModelRequest], Usage],
        *,
        warn_at: float | None = 0.8,
    ) -> None:
        self._run, self._session = run, session
        self._ledger = ledger
        self._bus = bus
        self._elapsed = elapsed
        self._estimate = estimate
        self._started = elapsed()
        self._counted = 0.0
        self._warn_at = warn_at
        self._warned: set[tuple[str, str]] = set()
        self._own = Ledger(ledger)
        self._shared = tuple(ledger.iter_limited())
        self._reserved: list[tuple[Ledger, Reservation]] = []

    @property
    def has_shared_limits(self) -> bool:
        """Return True if the run spends from a ledger with a limit."""
        return bool(self._shared)

    def usage(self, hook: UsageUpdate) -> None:
        """Handle `usage`."""
        self._own.add(hook.usage, turns=0 if hook.purpose else 1)
        if not hook.purpose:
            self.release()

    async def before(self, hook: TurnBefore) -> None:
        """Handle `turn:before`; runs after all other handlers, since they may spend something."""
        if hook.stop is not None:  # The run is stopping already: leave its status unchanged.
            return
        if self._shared and self._ledger.parent is not None and self._ledger.parent.parent in self._shared:
            seconds = self._elapsed() - self._started
            self._ledger.parent.parent.add_seconds(seconds - self._counted)
            self._counted = seconds
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
        if self._shared:
            hook.stop = self._reserve(hook.request)

    def _reserve(self, request: ModelRequest) -> RunStatus | None:
        """Reserve a call in all ledgers with a limit, or in none of them; return the limit that forbids it."""
        self.release()
        usage = self._estimate(request)
        cost = usage.cost.total if usage.cost else 0.0
        for ledger in self._shared:
            calls = ledger.turns or 1
            call = Reservation(max(usage.total_tokens, ledger.tokens // calls), max(cost, ledger.cost / calls), 1)
            status = ledger.reserve(call)
            if status is not None:
                self.release()
                return status
            self._reserved.append((ledger, call))
        return None

    def release(self) -> None:
        """Remove the reservation of the last call, if any."""
        while self._reserved:
            ledger, call = self._reserved.pop()
            ledger.release(call)

    def done(self, hook: SessionEnd) -> None:
        """Handle `agent:done`: record the missing usage (for example a call that was interrupted) and the time.

        The run's ledger includes its subagents, and so does the usage of the run if they belong to it (`spawn`).
        """
        cost = hook.usage.cost.total if hook.usage.cost else self._ledger.cost
        tokens, turns = hook.usage.total_tokens - self._ledger.tokens, hook.turns - self._own.turns
        self._own.add_totals(max(tokens, 0), max(cost - self._ledger.cost, 0.0), max(turns, 0))
        self.release()
        seconds = self._elapsed() - self._started
        self._ledger.seconds += seconds
        if self._ledger.parent is not None:
            self._ledger.parent.seconds += seconds
            if self._ledger.parent.parent in self._shared:
                self._ledger.parent.parent.add_seconds(seconds - self._counted)

    def reached_limit(self) -> RunStatus | None:
        """Return the limit that forbids another request, limits of subagents included; ``None`` if no limit does."""
        return next((status for _, status, spent, limit in self._limits_in_order() if spent >= limit), None)

    def _limits_in_order(self) -> Iterator[tuple[str, RunStatus, float, float]]:
        """Yield the scope, the status of a run that stops there, the amount spent, and the limit."""
        active = self._elapsed() - self._started
        for scope, ledger, budget, seconds in (
            ("run", self._ledger, self._run, active),
            ("session", self._ledger.parent, self._session, active),
            *[("ledger", shared, shared.limit, 0.0) for shared in self._shared],
        ):
            if ledger is not None and budget is not None:
                for status, spent, limit in _compare(ledger, budget, seconds):
                    yield scope, status, spent, limit


def _compare(ledger: Ledger, budget: Budget, seconds: float = 0.0) -> Iterator[tuple[RunStatus, float, float]]:
    """Yield each limit of a budget: its status, the amount spent, and the limit. ``seconds`` are those of the active run."""
    if budget.max_turns is not None:
        yield "max_turns", ledger.turns, budget.max_turns
    if budget.max_total_tokens is not None:
        yield "max_total_tokens", ledger.tokens, budget.max_total_tokens
    if budget.max_cost is not None:
        yield "max_cost", ledger.cost, budget.max_cost
    if budget.max_seconds is not None:
        yield "max_seconds", ledger.seconds + seconds, budget.max_seconds
