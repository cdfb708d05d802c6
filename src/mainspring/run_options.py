"""The options of a run: those of the loop and of each policy, which declares its own."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.loop import LoopOptions
from mainspring.loop.policy import PolicyContext, PolicyHandlers
from mainspring.policies.budgets import SpendingOptions, ToolBudgetOptions, tool_budget_handlers
from mainspring.policies.compaction import CompactionOptions, compaction_handlers
from mainspring.policies.compaction.clear_tool_results import ToolResultClearingOptions, tool_result_clearing_handlers
from mainspring.policies.disclosure import DisclosureOptions
from mainspring.policies.large_results.options import LargeResultOptions, large_result_handlers
from mainspring.policies.reads import ReadOptions, read_handlers
from mainspring.policies.repeated_calls import RepeatedCallOptions, repeated_call_handlers
from mainspring.policies.request_settings import RequestOptions, SamplingOptions, request_handlers, sampling_handlers
from mainspring.policies.structured.options import StructuredOutputOptions


class RunOptions(
    LoopOptions,
    SpendingOptions,
    RequestOptions,
    SamplingOptions,
    StructuredOutputOptions,
    ToolBudgetOptions,
    DisclosureOptions,
    ReadOptions,
    RepeatedCallOptions,
    CompactionOptions,
    ToolResultClearingOptions,
    LargeResultOptions,
):
    """Options of a run.

    An option that is not set falls back to that of the agent, then to its default. The page on run options lists all of them.
    """


Behavior = RunOptions
"""The options of a run, as an agent's option ``behavior`` takes them."""


POLICIES: tuple[Callable[[RunOptions, PolicyContext], PolicyHandlers], ...] = (
    tool_budget_handlers,
    repeated_call_handlers,
    compaction_handlers,
    tool_result_clearing_handlers,
    sampling_handlers,
    request_handlers,
    read_handlers,
    large_result_handlers,
)
"""The policies of a run. Handlers of the same order run in the order of this list."""
