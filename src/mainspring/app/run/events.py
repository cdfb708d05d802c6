"""What a command tells while it works, and how it ended: plain values that a front end shows in its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.events import Event, RunStatus
from mainspring.messages import StopReason, Usage

if TYPE_CHECKING:
    from mainspring.loop.hooks import BudgetWarning


class ModelIdentity(Struct, frozen=True, kw_only=True):
    """The model that answers.

    Attributes:
        provider: Name of its provider.
        id: Its id there.
        label: Its name for people.
        why: Why it was chosen, as in ``OPENAI_API_KEY is set``.
        notice: What people should know of it.
    """

    provider: str
    id: str
    label: str = ""
    why: str = ""
    notice: str = ""

    @property
    def spec(self) -> str:
        """As ``--model`` takes it."""
        return f"{self.provider}:{self.id}"


class RunStarting(Struct, frozen=True, kw_only=True):
    """A run is about to begin.

    Attributes:
        model: Who answers.
        session_id: Name of the session; empty where nothing is saved.
        resumed: How many messages of an earlier conversation there are.
        cwd: Where it works.
        tools: What the model may call, as far as it is known yet: see `Equipped`.
    """

    model: ModelIdentity
    session_id: str = ""
    resumed: int = 0
    cwd: str = ""
    tools: tuple[str, ...] = ()


class ToolsReady(Struct, frozen=True):
    """The run has begun, and all of its tools are there: those of MCP servers and skills join only then."""

    tools: tuple[str, ...]


class Notice(Struct, frozen=True):
    """Something people should know: a setting that was ignored, a session that is not saved."""

    text: str


class Progress(Struct, frozen=True):
    """How far a long step is; ``last`` with its end."""

    text: str
    done: int = 0
    total: int = 0
    last: bool = False

    @property
    def fraction(self) -> float:
        """How much of it is done, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


RunEvent = RunStarting | ToolsReady | Notice | Progress | Event
"""Everything that a command tells while it works."""

RunEventHandler = Callable[[RunEvent], None]
"""Is told. What it raises ends the command cleanly."""


class RunOutcome(Struct, frozen=True, kw_only=True):
    """Get the result of a run.

    Attributes:
        status: ``completed``, or what ended it.
        text: The answer, or as much of it as there is.
        model: Who answered; ``None`` where it did not come to that.
        session_id: Name of the session; empty where nothing is saved.
        turns: How many model calls were answered.
        usage: Tokens and cost.
        seconds: How long it took.
        stop_reason: Why the model stopped last.
        denied: Reasons of the calls that were not permitted.
        error: What failed.
        output: The answer as JSON data, where a schema was asked for and it fits.
        output_error: Why there is none although a schema was asked for; empty otherwise.
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


def format_budget_warning(warning: BudgetWarning) -> str:
    """What people are told when a limit is near."""
    spent, limit = warning.spent, warning.limit
    share = {
        "max_cost": f"${spent:.2f} of ${limit:.2f}",
        "max_tokens": f"{spent:,.0f} of {limit:,.0f} tokens",
        "max_seconds": f"{spent:.0f} of {limit:.0f} seconds",
        "max_turns": f"{spent:.0f} of {limit:.0f} turns",
    }
    return f"{share[warning.status]} are used; the {warning.scope} ends at its limit"
