"""From options to policies: what of a run's behavior is done by handlers of hooks, and in which order they are asked.

All of it is seen in `_handlers`. Handlers are on the bus while a run goes and gone when it is over; what must outlive a run (what was
read, what is left out of requests, what was spent) stays with the agent.

Options that name tools: of a name that no tool has nobody would notice that it does nothing.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.plugs import combine_preserve_checks, offered_tool_specs
from mainspring.errors import ConfigWarning
from mainspring.events import RunStatus
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import (
    BeforeToolRun,
    ContextTransform,
    ModelErrorHook,
    PermissionCheck,
    RunDone,
    SessionStart,
    ToolCallsReceived,
    ToolFinished,
    ToolGate,
    ToolResultsAfter,
    ToolTransform,
    TurnAfter,
    TurnBefore,
    UsageUpdate,
)
from mainspring.loop.option_types import Budget, Compaction, Compactor
from mainspring.messages import AgentMessage
from mainspring.models import ModelProvider
from mainspring.models.profile import ModelProfile
from mainspring.policies.budgets import Ledger, SpendingLimits, ToolBudgets, ToolOutputBudget
from mainspring.policies.compaction import (
    AutoCompact,
    OverflowRecovery,
    SummaryCompactor,
    TailCompactor,
    ToolResultClearing,
)
from mainspring.policies.reads import ClearStaleReads, FileReadState, ReadBeforeEdit, UnchangedReads
from mainspring.policies.repeated_calls import RepeatedCallsWarning
from mainspring.policies.request_settings import disable_prompt_cache
from mainspring.tools import LazyTool, Tool
from mainspring.tools.builtin import ALL_TOOL_NAMES

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent, ResolvedRunOptions
    from mainspring.loop.hooks import Hooks
    from mainspring.policies.large_results.persist import PersistLargeResults
    from mainspring.policies.repeated_calls import CachedToolCalls
    from mainspring.policies.request_settings import ThinkingDecayPolicy
    from mainspring.tools import ToolRegistry
else:
    CachedToolCalls = lazy_function("mainspring.policies.repeated_calls", "CachedToolCalls")
    ThinkingDecayPolicy = lazy_function("mainspring.policies.request_settings", "ThinkingDecayPolicy")
    PersistLargeResults = lazy_function("mainspring.policies.large_results.persist", "PersistLargeResults")


# The order on the bus. An application's handlers have 0 unless they say otherwise, a session has 100.
ORDER_COMPACTION = -300  # a history that is summed up is what all others see
ORDER_RAW_RESULTS = -1000  # sees what a tool gave before anybody changes it
ORDER_SHORTEN_CONTEXT = -200  # tail, then stale reads: before any other transform of the context
ORDER_REQUEST_DEFAULTS = -100  # thinking and cache: before an application's own `turn:before`
ALLOWED_TOOLS, TOOL_BUDGETS, TOOL_DEDUP, DISCLOSURE = 10, 20, 30, 40  # the gates behind those of the application
ORDER_GUARDS = 50  # before a session notes that a tool was started
ORDER_READ_TRACKING = 80  # behind an application's transforms of results
ORDER_PERSIST = 90  # what is kept is what all others made of it
ORDER_SPENDING = 95  # others may still have spent something


class RunPolicies:
    """The policies of one agent.

    Args:
        agent: The agent.
        above: The ledger of the run that started this agent, where it is a sub-agent.
    """

    def __init__(self, agent: CoreAgent, above: Ledger | None = None) -> None:
        self._agent = agent
        self._above = above
        self._told: set[str] = set()
        self._session = Ledger(above)
        self._session.add_past_usage(agent.messages)
        self._run: Ledger | None = None
        self._request_timeouts: SpendingLimits | None = None
        self._conversation = _ConversationPolicies(agent)

    @property
    def ledger(self) -> Ledger:
        """What the run that goes on has spent, with all its sub-agents; between runs, the whole conversation."""
        return self._run or self._session

    def over_limit(self) -> RunStatus | None:
        """The limit of the run that goes on that has been reached, what its sub-agents spent included."""
        return self._request_timeouts.reached_limit() if self._request_timeouts is not None else None

    @contextmanager
    def during(
        self, options: ResolvedRunOptions, tools: Iterable[Tool | LazyTool], model: ModelProvider
    ) -> Generator[None]:
        """Have the policies on the bus while this is open.

        Args:
            options: The run's behavior.
            tools: What the run may call.
            model: Whom it asks.
        """
        self._run = Ledger(self._session)
        if self._conversation.messages is not self._agent.context.messages:
            self._conversation = _ConversationPolicies(self._agent)
        handlers = [
            *self._names(options),
            *self._spending_limit_handlers(options, self._run),
            *_tool_gate_handlers(options, self._agent),
            *_request_handlers(options, self._conversation, model),
            *_tool_result_handlers(options, self._conversation, tools, model),
        ]
        removers = [self._agent.bus.add(hooks, order=order) for order, hooks in handlers]
        try:
            yield
        finally:
            for remove in removers:
                remove()
            self._run = self._request_timeouts = None

    def _names(self, options: ResolvedRunOptions) -> Iterator[tuple[int, Hooks]]:
        """Whether limits name tools that there are: of a misspelt one nobody would notice that it is not limited."""
        named = {
            "tool_budgets": options.tool_budgets,
            "dedup_tools": options.dedup_tools,
            "persist_exclude_tools": options.persist_exclude_tools,
            "tool_aliases": self._agent.tool_aliases,
        }
        if self._above is None and any(
            named.values()
        ):  # a sub-agent has limits of its parent, and not all of its tools
            yield ORDER_GUARDS, {SessionStart: lambda _: warn_unknown_tools(named, self._agent.tools, self._told)}

    def _spending_limit_handlers(self, options: ResolvedRunOptions, ledger: Ledger) -> Iterator[tuple[int, Hooks]]:
        run = Budget(
            max_cost=options.max_cost,
            max_total_tokens=options.max_total_tokens,
            max_turns=options.max_turns,
            max_seconds=options.max_seconds,
        )
        session = options.session_budget or Budget()
        self._request_timeouts = limits = SpendingLimits(
            run, session, ledger, self._agent.bus, self._agent.steps.elapsed, warn_at=options.warn_at
        )
        yield ORDER_SPENDING, {UsageUpdate: limits.usage, RunDone: limits.done}
        if run != Budget() or session != Budget():
            yield ORDER_SPENDING, {TurnBefore: limits.before}


class _ConversationPolicies:
    """What policies know of a conversation beyond a run."""

    def __init__(self, agent: CoreAgent) -> None:
        self.messages = agent.context.messages
        self.env = agent.env
        self.reads = FileReadState(agent.env.cwd)
        self._agent = agent
        self._auto: AutoCompact | None = None
        self._kept: tuple[Compaction, Compaction] | None = None
        self._stale: ClearStaleReads | None = None
        self._tail: tuple[tuple[int, int], ToolResultClearing] | None = None

    def history(self) -> list[AgentMessage]:
        """The history; grows with the conversation."""
        return self.messages

    def stale_reads_policy(self) -> ClearStaleReads:
        """The one policy of that kind; what it left out stays out."""
        self._stale = self._stale or ClearStaleReads(self.history, self.env.cwd)
        return self._stale

    def auto(self, options: Compaction) -> AutoCompact:
        """The same, for these options; what it measured stays known. What plugs keep stays as it is."""
        if self._kept is None or self._kept[0] != options:
            self._kept = (options, replace(options, keep=combine_preserve_checks(self._agent.plugs, options.keep)))
        options = self._kept[1]
        if self._auto is None or self._auto.compactor.options != options:
            agent = self._agent
            self._auto = AutoCompact(
                SummaryCompactor(options), lambda: (agent.context.system, offered_tool_specs(agent))
            )
        return self._auto

    def tail(self, threshold: int, keep_turns: int) -> ToolResultClearing:
        """The same, for these options."""
        if self._tail is None or self._tail[0] != (threshold, keep_turns):
            stubs = ToolResultClearing(self.history, threshold=threshold, keep_turns=keep_turns)
            self._tail = ((threshold, keep_turns), stubs)
        return self._tail[1]


def _tool_gate_handlers(options: ResolvedRunOptions, agent: CoreAgent) -> Iterator[tuple[int, Hooks]]:
    """Budgets of tools, and repeated calls."""
    if options.tool_budgets:
        calls = ToolBudgets(options.tool_budgets, agent.bus)
        yield TOOL_BUDGETS, {TurnAfter: calls.turn, ToolGate: calls.gate, ToolResultsAfter: calls.results}
    if options.tool_output_budget is not None:
        output = ToolOutputBudget(options.tool_output_budget, agent.bus)
        yield TOOL_BUDGETS, {TurnAfter: output.turn, ToolFinished: output.after, ToolResultsAfter: output.results}
    if options.repeat_hint is not None:
        yield TOOL_BUDGETS, {ToolResultsAfter: RepeatedCallsWarning(options.repeat_hint).results}
    if options.dedup_tools:
        dedup = CachedToolCalls(options.dedup_tools)
        yield TOOL_DEDUP, {ToolCallsReceived: dedup.intent, ToolGate: dedup.gate}
        yield ORDER_RAW_RESULTS, {ToolTransform: dedup.keep}


def _request_handlers(
    options: ResolvedRunOptions, conversation: _ConversationPolicies, model: ModelProvider
) -> Iterator[tuple[int, Hooks]]:
    """What requests hold, and what happens when one is too long."""
    if options.compact_strategy == "tail":
        tail = conversation.tail(options.compact_threshold, options.compact_keep_turns)
        yield (
            ORDER_SHORTEN_CONTEXT,
            {ContextTransform: _skip_when(lambda: _provider_manages_context(model), tail.transform)},
        )
    if options.elide_stale_reads:
        yield ORDER_SHORTEN_CONTEXT, {ContextTransform: conversation.stale_reads_policy().transform}
    yield from _context_window_handlers(options, conversation, model)
    if options.thinking_decay is not None:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: ThinkingDecayPolicy(options.thinking_decay).before}
    if not options.cache:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: disable_prompt_cache}


def _context_window_handlers(
    options: ResolvedRunOptions, conversation: _ConversationPolicies, model: ModelProvider
) -> Iterator[tuple[int, Hooks]]:
    """Keeping the conversation within the model's window, and what happens where it does not fit all the same."""
    overflow = options.on_overflow
    compactor: Compactor | None = None
    if options.compaction is not None and not _provider_manages_context(model):
        auto = conversation.auto(options.compaction)
        compactor = auto.compactor
        yield ORDER_COMPACTION, {ContextTransform: partial(auto.transform, model=model), ModelErrorHook: auto.told}
        yield ORDER_GUARDS + 1, {ModelErrorHook: auto.failed}
    if not isinstance(overflow, str):
        compactor = overflow
    elif overflow == "compact":
        compactor = compactor or TailCompactor()
    else:
        return
    yield ORDER_GUARDS, {ModelErrorHook: OverflowRecovery(compactor).failed}


def _tool_result_handlers(
    options: ResolvedRunOptions,
    conversation: _ConversationPolicies,
    tools: Iterable[Tool | LazyTool],
    model: ModelProvider,
) -> Iterator[tuple[int, Hooks]]:
    """What becomes of results, and what must have been read."""
    history, env = conversation.history, conversation.env
    # Without a tool that names files nothing is ever read, and its calls need not pass here.
    names_files = any(isinstance(t, LazyTool) or t.path_params for t in tools)
    if options.require_read_before_edit:
        guard = ReadBeforeEdit(conversation.reads, history, env)
        yield (
            ORDER_COMPACTION,
            {PermissionCheck: guard.permit},
        )  # before a person is asked about a call that would not run
        yield ORDER_GUARDS, {BeforeToolRun: guard.start, ToolTransform: guard.transform}
    if options.dedup_reads and names_files and not _provider_manages_context(model):
        dedup = UnchangedReads(conversation.reads, history, env.cwd)
        yield ORDER_READ_TRACKING, {TurnBefore: dedup.before, ToolTransform: dedup.transform}
    if options.persist_dir and options.persist_threshold is not None:
        folder = os.path.join(env.cwd, os.path.expanduser(options.persist_dir))
        persist = PersistLargeResults(folder, options.persist_threshold, options.persist_exclude_tools)
        yield ORDER_PERSIST, {ToolTransform: persist.transform}


def _provider_manages_context(model: ModelProvider) -> bool:
    """Whether the host itself leaves out old results of tools; it knows its cache, and the real number of tokens."""
    profile = getattr(model, "profile", None)
    return isinstance(profile, ModelProfile) and profile.messages.context_management is not None


def _skip_when(
    condition: Callable[[], bool], handler: Callable[[ContextTransform], None]
) -> Callable[[ContextTransform], None]:
    def ask(hook: ContextTransform) -> None:
        if not condition():
            handler(hook)

    return ask


def warn_unknown_tools(named: Mapping[str, Iterable[str]], tools: ToolRegistry, told: set[str]) -> None:
    """Warn of names that no tool has, once each. Those of tools of MCP servers are passed over: they may not be known yet.

    Args:
        named: By option, the names in it.
        tools: What there is, beside the built-in ones, which another agent with the same options may have.
        told: What was told already; grows.
    """
    known = sorted({*ALL_TOOL_NAMES, *(t.name for t in tools)})
    for option, names in named.items():
        for name in names:
            text = f"{option} names {name!r}, and there is no such tool"
            if name in known or name.startswith("mcp__") or text in told:
                continue
            told.add(text)
            near = difflib.get_close_matches(name, known, 1)
            warnings.warn(f"{text}{f'; did you mean {near[0]!r}?' if near else ''}", ConfigWarning, stacklevel=2)
