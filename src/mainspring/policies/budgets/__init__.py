"""Budgets: of runs and conversations, of single tools, and of what tools give back in a turn."""

from mainspring.policies.budgets.spending import Budget, Ledger, SpendingLimits
from mainspring.policies.budgets.tools import ExceedAction, ToolBudget, ToolBudgets, ToolOutputBudget

__all__ = ["Budget", "ExceedAction", "Ledger", "SpendingLimits", "ToolBudget", "ToolBudgets", "ToolOutputBudget"]
