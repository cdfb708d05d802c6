"""The policies of each run: their handlers are on the bus while the run is in progress, and removed when it ends.

State that must outlive a run (files read, messages removed from requests, spending) stays with the agent.

Also warnings about options that name unknown tools, which would otherwise silently have no effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from mainspring.agent.plugs import offered_tool_specs
from mainspring.errors import ConfigWarning
from mainspring.events import RunStatus, UsageUpdate
from mainspring.loop import CoreAgent, LiveSteps
from mainspring.loop.hooks import SessionStart, TurnBefore
from mainspring.loop.policy import ORDER_GUARDS, ORDER_SPENDING, PolicyContext, PolicyHandlers
from mainspring.messages import Usage
from mainspring.models import ModelProvider
from mainspring.models.token_limits import estimate_request_usage
from mainspring.policies.budgets import Budget, Ledger, SpendingLimits
from mainspring.run_options import POLICIES, RunOptions
from mainspring.tools import LazyTool, Tool
from mainspring.tools.names import ALL_TOOL_NAMES


@runtime_checkable
class HasSessionStates(Protocol):
    """A plugin with what policies remember of a session, also if several agents continue it."""

    session_states: dict[object, Any]


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
        self._messages = agent.context.messages
        self._states: dict[object, Any] = {}
        stored = next((plug for plug in agent.plugs if isinstance(plug, HasSessionStates)), None)
        self._session_states: dict[object, Any] = stored.session_states if stored is not None else {}

    @property
    def ledger(self) -> Ledger:
        """The spending of the current run, subagents included; between runs, of the whole conversation."""
        return self._run or self._session

    def over_limit(self) -> RunStatus | None:
        """The limit that the current run, subagents included, has reached."""
        return self._limits.reached_limit() if self._limits is not None else None

    def conversation_limit(self, options: RunOptions) -> RunStatus | None:
        """Return the limit of the conversation, or of a ledger above it, that forbids a call outside of a run."""
        return self._session.reached_limit(options.session_budget or Budget())

    def add_side_usage(self, usage: Usage) -> None:
        """Count a call outside of a run."""
        self._session.add(usage, turns=0)

    @contextmanager
    def attached(self, options: RunOptions, tools: Iterable[Tool | LazyTool], model: ModelProvider) -> Generator[None]:
        """Attach the policies to the bus for the duration of the context.

        Args:
            options: The run's behavior.
            tools: The tools of the run.
            model: The model of the run.
        """
        self._run = Ledger(self._session)
        agent = self._agent
        if self._messages is not agent.context.messages:  # another conversation
            self._messages, self._states, self._session_states = agent.context.messages, {}, {}
        # A run that is replayed, in a durable engine or from a tape, must not depend on other runs.
        session_states = self._session_states if type(agent.steps) is LiveSteps else {}
        run = PolicyContext(agent, model, tools, lambda: offered_tool_specs(agent), self._states, session_states)
        handlers = [
            *self._tool_name_check_handlers(options),
            *self._spending_limit_handlers(options, self._run, model),
            *(each for policy in POLICIES for each in policy(options, run)),
        ]
        removers = [agent.bus.add(hooks, order=order) for order, hooks in handlers]
        try:
            yield
        finally:
            for remove in removers:
                remove()
            if self._limits is not None:
                self._limits.release()
            self._run = self._limits = None

    def _tool_name_check_handlers(self, options: RunOptions) -> PolicyHandlers:
        """Return handlers that warn if limits name unknown tools: a misspelled name would silently have no limit."""
        named: dict[str, Iterable[str]] = {
            name: getattr(options, name) for name, option in options.declared.items() if option.names_tools
        }
        named["tool_aliases"] = self._agent.tool_aliases
        if self._parent is None and any(
            named.values()
        ):  # a subagent has the limits of its parent, and not all of its tools
            yield (
                ORDER_GUARDS,
                {
                    SessionStart: lambda _: warn_unknown_tools(
                        named, getattr(self._agent, "known_tools", self._agent.tools), self._warned
                    )
                },
            )

    def _spending_limit_handlers(self, options: RunOptions, ledger: Ledger, model: ModelProvider) -> PolicyHandlers:
        run = Budget(
            max_cost=options.max_cost,
            max_total_tokens=options.max_total_tokens,
            max_turns=options.max_turns,
            max_seconds=options.max_seconds,
        )
        session = options.session_budget or Budget()
        self._limits = limits = SpendingLimits(
            run, session, ledger, self._agent.bus, self._agent.steps.elapsed,
            lambda request: estimate_request_usage(request, model.info), warn_at=options.warn_at,
        )  # fmt: skip
        yield ORDER_SPENDING, {UsageUpdate: limits.usage, "agent:done": limits.done}
        if run != Budget() or session != Budget() or limits.has_shared_limits:
            yield ORDER_SPENDING, {TurnBefore: limits.before}


def warn_unknown_tools(named: Mapping[str, Iterable[str]], tools: Iterable[Tool], already_warned: set[str]) -> None:
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
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            warnings.warn(f"{text}{f'. Did you mean {near[0]!r}?' if near else ''}", ConfigWarning, stacklevel=2)
