"""Budgets: of runs and conversations, of single tools, and of what tools give back in a turn."""

from mainspring.policies.budgets.spending import Budget, Ledger, SpendingLimits
from mainspring.policies.budgets.tools import Exceeded, ToolBudget, ToolBudgets, ToolOutputBudget

__all__ = ["Budget", "Exceeded", "Ledger", "SpendingLimits", "ToolBudget", "ToolBudgets", "ToolOutputBudget"]
