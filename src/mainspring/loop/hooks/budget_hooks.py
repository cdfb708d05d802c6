"""The hooks of budgets. Declared here, so that whoever listens does not need the policies."""

from __future__ import annotations

from mainspring.events.types import RunStatus
from mainspring.loop.hooks.run import Hook


class BudgetExceeded(Hook):
    """The results of one turn came to more ``bytes`` than the ``budget`` (`tool_output_budget`) allows."""

    event = "budget:exceeded"
    when = "Right after `tool-results:after` of a turn whose results are over the budget."
    __slots__ = ("budget", "bytes", "turn", "turn_id")

    def __init__(self, turn: int, turn_id: str, size: int, budget: int) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.bytes = size
        self.budget = budget


class ToolBudgetExceeded(Hook):
    """A call beyond the budget of its tool: ``count`` is its number in the run, ``max`` what the budget allows, ``mode``
    what happens with it: ``block`` or ``steer``.
    """

    event = "tool-budget:exceeded"
    when = "At `tool:gate`, for each call beyond the budget of its tool."
    __slots__ = ("count", "max", "mode", "name", "turn", "turn_id")

    def __init__(self, turn: int, turn_id: str, name: str, count: int, maximum: int, mode: str) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.name = name
        self.count = count
        self.max = maximum
        self.mode = mode


class BudgetWarning(Hook):
    """A limit of money, tokens, turns or seconds is near: ``spent`` of ``limit``.

    ``scope`` is ``run`` or ``session``; ``status`` is the one with which a run will end there, such as ``max_cost``.
    """

    event = "budget:warning"
    when = "Before the first request at or beyond the share `warn_at` of a limit, once for each limit in a run."
    __slots__ = ("limit", "scope", "spent", "status")

    def __init__(self, scope: str, status: RunStatus, spent: float, limit: float) -> None:
        self.scope = scope
        self.status: RunStatus = status
        self.spent = spent
        self.limit = limit
