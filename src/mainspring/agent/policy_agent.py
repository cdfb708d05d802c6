"""A core agent whose runs have policies and a budget, with the operations on its conversation that are not runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mainspring.agent.plugs import find_skill_activator
from mainspring.agent.policies import RunPolicies
from mainspring.errors import AgentBusyError, AgentError
from mainspring.events import ContextCompacted, Notice, UsageUpdate
from mainspring.lazy import lazy_function
from mainspring.loop import CoreAgent, LoopConfig, LoopOptions
from mainspring.loop.model_calls import call_outside_run
from mainspring.messages import AgentMessage, Message, Usage, convert_to_llm
from mainspring.models import ModelProvider, ModelRequest
from mainspring.policies.budgets import Ledger
from mainspring.run_options import RunOptions as Behavior
from mainspring.tools import Tool, ToolRegistry

if TYPE_CHECKING:
    from mainspring.agent.guest_plugs import GuestPlugs
    from mainspring.loop import Plugin
    from mainspring.policies.compaction import Compaction, CompactionResult, compact_history
else:
    compact_history = lazy_function("mainspring.policies.compaction.summary", "compact_history")

_ASIDE = (
    "This is a side question while the task continues. Answer it briefly from the conversation so far, without calling a tool. "
    "It does not change the task.\n\n"
)


class PolicyAgent(CoreAgent):
    """A core agent whose runs have policies and a budget.

    Args:
        model: The model.
        ledger: The ledger that includes the spending of this agent.
        **options: Options of `CoreAgent`.
    """

    behavior: Behavior
    guests: tuple[GuestPlugs, ...] = ()
    """The plugins of other agents that apply to this one."""

    def __init__(self, model: ModelProvider, *, ledger: Ledger | None, **options: Any) -> None:
        super().__init__(model, **options)
        self._policies = RunPolicies(self, ledger)

    @property
    def ledger(self) -> Ledger:
        """The spending of the current run, subagents included; between runs, of the whole conversation."""
        return self._policies.ledger

    @property
    def active_plugs(self) -> Sequence[Plugin]:
        """The plugins that apply now: those of this agent, and of others."""
        return [*self.plugs, *(plug for guest in self.guests for plug in guest.active_plugs)]

    @property
    def other_agents(self) -> Sequence[PolicyAgent]:
        """The agents to which this one can hand over, and those that are its tools."""
        return ()

    def with_other_agents(self) -> Sequence[PolicyAgent]:
        """Return this agent with all agents that its runs may use."""
        found: list[PolicyAgent] = [self]
        for each in found:  # which grows
            found += [other for other in each.other_agents if other not in found]
        return found

    @property
    def known_tools(self) -> Sequence[Tool]:
        """The tools that options may name: those of this agent, and of all agents that its runs may use."""
        return [tool for agent in self.with_other_agents() for tool in agent.tools]

    @property
    def current_tools(self) -> ToolRegistry:
        """The tools of the run: those of another agent after a handoff. Between runs, those of this agent."""
        return self._current.tools

    async def activate_skill(self, name: str) -> None:
        """Activate a skill: its text is added to the next or current run, and it is deactivated when that run ends. If it is activated
        again while active, it stays active for one more run.

        Raises:
            ConfigError: If the skill is unknown, it cannot be read, or too many are active.
            AgentError: If the agent has no skills.
        """
        await find_skill_activator(self.plugs).set_active(name)

    async def deactivate_skill(self, name: str) -> bool:
        """Deactivate a skill. Return True if it was active.

        Raises:
            AgentError: If the agent has no skills.
        """
        return await find_skill_activator(self.plugs).deactivate(name)

    def cancel_steering(self, id: str = "") -> tuple[AgentMessage, ...]:
        """Remove and return queued messages of `steer` that no run has processed yet; with ``id`` only the message of that ID."""
        waiting = self._steering.clear()
        cancelled = tuple([message for message in waiting if id in ("", message.id)])
        self._steering.put(*[message for message in waiting if id not in ("", message.id)])
        return cancelled

    # --- model calls outside of runs --------------------------------------------------------------------------------

    async def compact(
        self,
        instructions: str = "",
        options: Compaction | None = None,
        on_problem: Callable[[str], object] | None = None,
    ) -> CompactionResult | None:
        """Compact the older part of the conversation now, between runs. A session keeps all of it.

        Failed model calls are retried like those of a run. Their usage is added to the budget of the conversation.

        Args:
            instructions: Topics that the summary should focus on.
            options: Options of the compaction; the agent's own by default.
            on_problem: Called with the reason if the conversation is not compacted.

        Returns:
            The result. ``None`` if the history needs no summary, the summary failed, or the conversation has reached a limit; the
            history is then unchanged.

        Raises:
            AgentBusyError: While a run is in progress, or if the conversation changed before the summary was complete.
        """
        if self.running:
            raise AgentBusyError("This agent is running. Compact its conversation when the run has ended.")
        before = self.messages
        compacted = await compact_history(
            before,
            self.model,
            options or self.behavior.compaction,
            side_call=partial(self._call_outside_run, has_event=True),
            instructions=instructions,
            on_problem=on_problem,
            fixed=(self.context.system, self.context.tools.specs),
        )
        if compacted is None:
            return None
        if self.running or self.messages != before:
            raise AgentBusyError(
                "The conversation continued while its summary was written, so it was not compacted. "
                "Compact it when no run is in progress."
            )
        self.context.messages[:] = compacted[0]
        await self.bus.notify(ContextCompacted.from_messages("asked", before, self.messages))
        return compacted[1]

    async def ask_aside(self, question: str) -> Message:
        """Answer a question from the conversation so far, also during a run. The conversation stays unchanged.

        The model calls no tool. The usage is added to the budget of the conversation, not to that of the active run, if any.

        Raises:
            ModelError: If the call failed.
            AgentError: If the conversation has reached a limit.
        """
        request = ModelRequest(
            [*convert_to_llm(self.messages), Message.user(f"{_ASIDE}{question}")],
            system=self.context.system,
            tools=self.tools.specs,  # unchanged, so that the provider's prompt cache applies
            tool_choice="none",
            thinking=self.thinking,
            session_id=self.session_id or None,
        )
        return await self._call_outside_run("a side question", request)

    def _add_late_usage(self, usage: Usage) -> None:
        self._policies.add_side_usage(usage)

    async def _call_outside_run(
        self,
        purpose: str,
        request: ModelRequest,
        *,
        model: ModelProvider | None = None,
        has_event: bool = False,
    ) -> Message:
        """Call a model for the conversation, not for the active run, which may end before the call.

        With ``has_event``, the usage is published, except during a run, which would count it.
        """
        if limit := self._policies.conversation_limit(self.behavior):
            raise AgentError(f"Cannot call a model for {purpose!r}: the conversation has reached its limit ({limit}).")
        request.warn = lambda text: self.bus.publish(Notice(text, "warn"))
        config = LoopConfig(model=self.model, env=self.env, behavior=LoopOptions(retry=self.behavior.retry))
        spent: list[Usage] = []
        try:
            return await call_outside_run(config, purpose, request, on_usage=spent.append, model=model)
        finally:
            for usage in spent:
                self._policies.add_side_usage(usage)
                if has_event and not self.running:
                    await self.bus.notify(UsageUpdate(0, usage, usage, purpose))
