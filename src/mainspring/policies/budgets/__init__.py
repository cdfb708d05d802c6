"""Budgets: of runs and conversations, of single tools, and of what tools give back in a turn."""

from mainspring.policies.budgets.ledger import Budget, Ledger
from mainspring.policies.budgets.output import ToolOutputBudget
from mainspring.policies.budgets.spending import SpendingLimits
from mainspring.policies.budgets.tools import Exceeded, ToolBudget, ToolBudgets

__all__ = ["Budget", "Exceeded", "Ledger", "SpendingLimits", "ToolBudget", "ToolBudgets", "ToolOutputBudget"]
