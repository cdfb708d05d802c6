"""The model and the outcome of a run, and the progress of a download: plain values that each front end formats itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.events import Event, RunStatus
from mainspring.messages import StopReason, Usage
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.events import LimitWarning


_MIN_SHOWN_COST = 0.0001
"""Smallest amount in US dollars that is shown as a number."""


class ModelIdentity(Struct, frozen=True, kw_only=True):
    """The model of a run.

    Attributes:
        provider: Name of its provider.
        id: ID of the model at the provider.
        label: Display name.
        why: Why it was chosen, for example, ``OPENAI_API_KEY is set``.
        notice: Notice for the user about the model.
    """

    provider: str
    id: str
    label: str = ""
    why: str = ""
    notice: str = ""

    @property
    def spec(self) -> str:
        """Return the value for ``--model``."""
        return f"{self.provider}:{self.id}"


class Progress(Event, frozen=True):
    """Progress of a long operation, such as a download; ``last`` marks its end."""

    text: str
    done: int = 0
    total: int = 0
    last: bool = False

    @property
    def fraction(self) -> float:
        """Return the completed fraction, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


RunEventHandler = Callable[[Event], None]
"""Callback for the events that a command publishes while it works. An exception from it ends the command cleanly."""


class RunOutcome(Struct, frozen=True, kw_only=True):
    """Outcome of a run.

    Attributes:
        status: ``completed``, or the reason of the stop.
        text: The response, possibly partial.
        model: The model; ``None`` if no model was chosen.
        session_id: ID of the session; empty if nothing is saved.
        turns: Number of model calls with a response.
        usage: Tokens and cost.
        seconds: Duration.
        stop_reason: Last stop reason of the model.
        denied: Reasons of the denied tool calls.
        error: The error.
        output: The response as JSON data, if a schema was requested and the response matches it.
        output_error: Why ``output`` is missing although a schema was requested; empty otherwise.
    """

    status: RunStatus
    text: str = ""
    model: ModelIdentity | None = None
    session_id: str = ""
    turns: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    stop_reason: StopReason | None = None
    denied: tuple[str, ...] = ()
    error: BaseException | None = None
    output: Any = None
    output_error: str = ""


def format_cost(dollars: float) -> str:
    """Format an amount in US dollars; one that rounds to 0 is shown as less than the smallest amount."""
    return f"${dollars:.4f}" if dollars >= _MIN_SHOWN_COST or not dollars else f"< ${_MIN_SHOWN_COST}"


def format_spent(usage: Usage) -> str:
    """Format the cost of calls: what is known, whether it is an estimate, and how many calls have an unknown price."""
    unpriced = usage.count_unpriced()
    known = "" if usage.cost is None else f"{'about ' if usage.estimated_calls else ''}{format_cost(usage.cost.total)}"
    if not unpriced:
        return known
    return f"{known} plus {pluralize(unpriced, 'call')} of unknown price" if known else "price unknown"


def format_budget_warning(warning: LimitWarning) -> str:
    """Format the warning that a limit is near."""
    spent, limit = warning.spent, warning.max
    share = {
        "max_cost": f"${spent:.2f} of ${limit:.2f}",
        "max_total_tokens": f"{spent:,.0f} of {limit:,.0f} tokens",
        "max_seconds": f"{spent:.0f} of {limit:.0f} seconds",
        "max_turns": f"{spent:.0f} of {limit:.0f} turns",
    }
    return f"{share[warning.limit]} used. The {warning.scope} stops at the limit."
