"""Budgets of runs, conversations, single tools, and tool output per turn."""

from mainspring.policies.budgets.spending import Budget, Ledger, SpendingLimits, SpendingOptions
from mainspring.policies.budgets.tools import (
    ToolBudget,
    ToolBudgetOptions,
    ToolBudgets,
    ToolOutputBudget,
    stricter_tool_budgets,
    tool_budget_handlers,
)

__all__ = [
    "Budget",
    "Ledger",
    "SpendingLimits",
    "SpendingOptions",
    "ToolBudget",
    "ToolBudgetOptions",
    "ToolBudgets",
    "ToolOutputBudget",
    "stricter_tool_budgets",
    "tool_budget_handlers",
]


def __dir__() -> list[str]:
    return __all__
