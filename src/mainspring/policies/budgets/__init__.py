"""Budgets: of runs and conversations, of single tools, and of what tools give back in a turn."""

from mainspring.policies.budgets.spending import Ledger, SpendingLimits
from mainspring.policies.budgets.tools import ToolBudgets, ToolOutputBudget

__all__ = ["Ledger", "SpendingLimits", "ToolBudgets", "ToolOutputBudget"]
