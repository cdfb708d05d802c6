"""Budgets of runs, conversations, single tools, and tool output per turn."""

from mainspring.policies.budgets.spending import Ledger, SpendingLimits
from mainspring.policies.budgets.tools import ToolBudgets, ToolOutputBudget

__all__ = ["Ledger", "SpendingLimits", "ToolBudgets", "ToolOutputBudget"]
