"""Creation of policies from options: the handlers that implement a run's behavior, and their order.

See `_handlers` for all of them. Handlers are on the bus while a run is in progress and removed when it ends; state that must
outlive a run (files read, messages removed from requests, spending) stays with the agent.

Also warnings about options that name unknown tools, which would otherwise silently have no effect.
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
from mainspring.tools.names import ALL_TOOL_NAMES

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent, ResolvedRunOptions
    from mainspring.loop.hooks import Hooks
    from mainspring.policies.large_results.store import PersistLargeResults
    from mainspring.policies.repeated_calls import CachedToolCalls
    from mainspring.policies.request_settings import ThinkingDecayPolicy
    from mainspring.tools import ToolRegistry
else:
    CachedToolCalls = lazy_function("mainspring.policies.repeated_calls", "CachedToolCalls")
    ThinkingDecayPolicy = lazy_function("mainspring.policies.request_settings", "ThinkingDecayPolicy")
    PersistLargeResults = lazy_function("mainspring.policies.large_results.store", "PersistLargeResults")


# The order on the bus. An application's handlers have 0 by default, a session has 100.
ORDER_COMPACTION = -300  # a compacted history is the input of all other handlers
ORDER_RAW_RESULTS = -1000  # sees a tool's output before any handler changes it
ORDER_SHORTEN_CONTEXT = -200  # tail, then stale reads: before any other transform of the context
ORDER_REQUEST_DEFAULTS = -100  # thinking and cache: before an application's own `turn:before`
ALLOWED_TOOLS, TOOL_BUDGETS, TOOL_DEDUP, DISCLOSURE = 10, 20, 30, 40  # the gates after those of the application
ORDER_GUARDS = 50  # before a session records the start of a tool
ORDER_READ_TRACKING = 80  # after an application's transforms of results
ORDER_PERSIST = 90  # stores the output with the changes of all other handlers
ORDER_SPENDING = 95  # other handlers may still spend something


class RunPolicies:
    """The policies of one agent.

    Args:
        agent: The agent.
        parent: The ledger of the run that started this agent, if it is a subagent.
    """

    def __init__(self, agent: CoreAgent, parent: Ledger | None = None) -> None:
        self._agent = agent
        self._parent = parent
        self._warned: set[str] = set()
        self._session = Ledger(parent)
        self._session.add_past_usage(agent.messages)
        self._run: Ledger | None = None
        self._limits: SpendingLimits | None = None
        self._conversation = _ConversationPolicies(agent)

    @property
    def ledger(self) -> Ledger:
        """The spending of the current run, subagents included; between runs, of the whole conversation."""
        return self._run or self._session

    def over_limit(self) -> RunStatus | None:
        """The limit that the current run, subagents included, has reached."""
        return self._limits.reached_limit() if self._limits is not None else None

    @contextmanager
    def attached(
        self, options: ResolvedRunOptions, tools: Iterable[Tool | LazyTool], model: ModelProvider
    ) -> Generator[None]:
        """Attach the policies to the bus for the duration of the context.

        Args:
            options: The run's behavior.
            tools: The tools of the run.
            model: The model of the run.
        """
        self._run = Ledger(self._session)
        if self._conversation.messages is not self._agent.context.messages:
            self._conversation = _ConversationPolicies(self._agent)
        handlers = [
            *self._tool_name_check_handlers(options),
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
            self._run = self._limits = None

    def _tool_name_check_handlers(self, options: ResolvedRunOptions) -> Iterator[tuple[int, Hooks]]:
        """Return handlers that warn if limits name unknown tools: a misspelled name would silently have no limit."""
        named = {
            "tool_budgets": options.tool_budgets,
            "dedup_tools": options.dedup_tools,
            "persist_exclude_tools": options.persist_exclude_tools,
            "tool_aliases": self._agent.tool_aliases,
        }
        if self._parent is None and any(
            named.values()
        ):  # a subagent has the limits of its parent, and not all of its tools
            yield ORDER_GUARDS, {SessionStart: lambda _: warn_unknown_tools(named, self._agent.tools, self._warned)}

    def _spending_limit_handlers(self, options: ResolvedRunOptions, ledger: Ledger) -> Iterator[tuple[int, Hooks]]:
        run = Budget(
            max_cost=options.max_cost,
            max_total_tokens=options.max_total_tokens,
            max_turns=options.max_turns,
            max_seconds=options.max_seconds,
        )
        session = options.session_budget or Budget()
        self._limits = limits = SpendingLimits(
            run, session, ledger, self._agent.bus, self._agent.steps.elapsed, warn_at=options.warn_at
        )
        yield ORDER_SPENDING, {UsageUpdate: limits.usage, RunDone: limits.done}
        if run != Budget() or session != Budget():
            yield ORDER_SPENDING, {TurnBefore: limits.before}


class _ConversationPolicies:
    """The state of policies for a conversation, which outlives a run."""

    def __init__(self, agent: CoreAgent) -> None:
        self.messages = agent.context.messages
        self.env = agent.env
        self.reads = FileReadState(agent.env.cwd)
        self._agent = agent
        self._auto: AutoCompact | None = None
        self._cached_compaction: tuple[Compaction, Compaction] | None = None
        self._stale: ClearStaleReads | None = None
        self._tail: tuple[tuple[int, int], ToolResultClearing] | None = None

    def history(self) -> list[AgentMessage]:
        """Return the history; it grows with the conversation."""
        return self.messages

    def stale_reads_policy(self) -> ClearStaleReads:
        """Return the single policy of that kind; removed reads stay removed."""
        self._stale = self._stale or ClearStaleReads(self.history, self.env.cwd)
        return self._stale

    def auto_compaction(self, options: Compaction) -> AutoCompact:
        """Return the policy for these options; its measurements stay. Messages that plugins preserve stay unchanged."""
        if self._cached_compaction is None or self._cached_compaction[0] != options:
            self._cached_compaction = (
                options,
                replace(options, keep=combine_preserve_checks(self._agent.plugs, options.keep)),
            )
        options = self._cached_compaction[1]
        if self._auto is None or self._auto.compactor.options != options:
            agent = self._agent
            self._auto = AutoCompact(
                SummaryCompactor(options), lambda: (agent.context.system, offered_tool_specs(agent))
            )
        return self._auto

    def tail(self, threshold: int, keep_turns: int) -> ToolResultClearing:
        """Return the tail compactor for these options."""
        if self._tail is None or self._tail[0] != (threshold, keep_turns):
            stubs = ToolResultClearing(self.history, threshold=threshold, keep_turns=keep_turns)
            self._tail = ((threshold, keep_turns), stubs)
        return self._tail[1]


def _tool_gate_handlers(options: ResolvedRunOptions, agent: CoreAgent) -> Iterator[tuple[int, Hooks]]:
    """Return the handlers for budgets of tools and repeated calls."""
    if options.tool_budgets:
        calls = ToolBudgets(options.tool_budgets, agent.bus)
        yield TOOL_BUDGETS, {TurnAfter: calls.turn, ToolGate: calls.on_tool_gate, ToolResultsAfter: calls.results}
    if options.tool_output_budget is not None:
        output = ToolOutputBudget(options.tool_output_budget, agent.bus)
        yield (
            TOOL_BUDGETS,
            {TurnAfter: output.turn, ToolFinished: output.on_tool_after, ToolResultsAfter: output.results},
        )
    if options.repeat_hint is not None:
        yield TOOL_BUDGETS, {ToolResultsAfter: RepeatedCallsWarning(options.repeat_hint).results}
    if options.dedup_tools:
        dedup = CachedToolCalls(options.dedup_tools)
        yield TOOL_DEDUP, {ToolCallsReceived: dedup.on_tool_intent, ToolGate: dedup.on_tool_gate}
        yield ORDER_RAW_RESULTS, {ToolTransform: dedup.on_tool_transform}


def _request_handlers(
    options: ResolvedRunOptions, conversation: _ConversationPolicies, model: ModelProvider
) -> Iterator[tuple[int, Hooks]]:
    """Return the handlers for the content of requests and for requests that are too long."""
    if options.compact_strategy == "tail":
        tail = conversation.tail(options.compact_threshold, options.compact_keep_turns)
        yield (
            ORDER_SHORTEN_CONTEXT,
            {ContextTransform: _skip_when(lambda: _provider_manages_context(model), tail.on_context_transform)},
        )
    if options.elide_stale_reads:
        yield ORDER_SHORTEN_CONTEXT, {ContextTransform: conversation.stale_reads_policy().on_context_transform}
    yield from _context_window_handlers(options, conversation, model)
    if options.thinking_decay is not None:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: ThinkingDecayPolicy(options.thinking_decay).before}
    if not options.cache:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: disable_prompt_cache}


def _context_window_handlers(
    options: ResolvedRunOptions, conversation: _ConversationPolicies, model: ModelProvider
) -> Iterator[tuple[int, Hooks]]:
    """Return the handlers that keep the conversation within the model's window."""
    overflow = options.on_overflow
    compactor: Compactor | None = None
    if options.compaction is not None and not _provider_manages_context(model):
        auto = conversation.auto_compaction(options.compaction)
        compactor = auto.compactor
        yield (
            ORDER_COMPACTION,
            {
                ContextTransform: partial(auto.on_context_transform, model=model),
                ModelErrorHook: auto.on_context_exceeded,
            },
        )
        yield ORDER_GUARDS + 1, {ModelErrorHook: auto.on_model_error}
    if not isinstance(overflow, str):
        compactor = overflow
    elif overflow == "compact":
        compactor = compactor or TailCompactor()
    else:
        return
    yield ORDER_GUARDS, {ModelErrorHook: OverflowRecovery(compactor).on_model_error}


def _tool_result_handlers(
    options: ResolvedRunOptions,
    conversation: _ConversationPolicies,
    tools: Iterable[Tool | LazyTool],
    model: ModelProvider,
) -> Iterator[tuple[int, Hooks]]:
    """Return the handlers for tool results and for reads before edits."""
    history, env = conversation.history, conversation.env
    # Without a tool that names files nothing is ever read, so its calls can skip these handlers.
    names_files = any(isinstance(t, LazyTool) or t.path_params for t in tools)
    if options.require_read_before_edit:
        guard = ReadBeforeEdit(conversation.reads, history, env)
        yield (
            ORDER_COMPACTION,
            {PermissionCheck: guard.on_tool_permit},
        )  # before an approval is requested for a call that would not run
        yield ORDER_GUARDS, {BeforeToolRun: guard.start, ToolTransform: guard.on_tool_transform}
    if options.dedup_reads and names_files and not _provider_manages_context(model):
        dedup = UnchangedReads(conversation.reads, history, env.cwd)
        yield ORDER_READ_TRACKING, {TurnBefore: dedup.before, ToolTransform: dedup.on_tool_transform}
    if options.persist_dir and options.persist_threshold is not None:
        folder = os.path.join(env.cwd, os.path.expanduser(options.persist_dir))
        persist = PersistLargeResults(folder, options.persist_threshold, options.persist_exclude_tools)
        yield ORDER_PERSIST, {ToolTransform: persist.on_tool_transform}


def _provider_manages_context(model: ModelProvider) -> bool:
    """Return True if the host removes old tool results itself; it knows its cache, and the exact number of tokens."""
    profile = getattr(model, "profile", None)
    return isinstance(profile, ModelProfile) and profile.messages.context_management is not None


def _skip_when(
    condition: Callable[[], bool], handler: Callable[[ContextTransform], None]
) -> Callable[[ContextTransform], None]:
    def ask(hook: ContextTransform) -> None:
        if not condition():
            handler(hook)

    return ask


def warn_unknown_tools(named: Mapping[str, Iterable[str]], tools: ToolRegistry, already_warned: set[str]) -> None:
    """Warn of unknown tool names, once each. Names of MCP tools are skipped: they may not be known yet.

    Args:
        named: The names by option.
        tools: The known tools, in addition to the built-in ones, which another agent with the same options may have.
        already_warned: Names with an earlier warning; new names are added.
    """
    known = sorted({*ALL_TOOL_NAMES, *(t.name for t in tools)})
    for option, names in named.items():
        for name in names:
            text = f"{option} names the unknown tool {name!r}"
            if name in known or name.startswith("mcp__") or text in already_warned:
                continue
            already_warned.add(text)
            near = difflib.get_close_matches(name, known, 1)
            warnings.warn(f"{text}{f'. Did you mean {near[0]!r}?' if near else ''}", ConfigWarning, stacklevel=2)
