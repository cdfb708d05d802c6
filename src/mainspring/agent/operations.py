"""Operations on the conversation of an agent that are not runs: compaction, side questions, skills, queued messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainspring.agent.plugs import answer_aside, find_skill_activator
from mainspring.errors import AgentBusyError, AgentError
from mainspring.events import ContextCompacted
from mainspring.lazy import lazy_function
from mainspring.loop import CoreAgent
from mainspring.messages import AgentMessage, Message
from mainspring.run_options import RunOptions as Behavior
from mainspring.tools import ToolRegistry

if TYPE_CHECKING:
    from mainspring.agent.guest_plugs import GuestPlugs
    from mainspring.agent.policies import RunPolicies
    from mainspring.loop import Plugin
    from mainspring.policies.compaction import Compaction, CompactionResult, compact_history
else:
    compact_history = lazy_function("mainspring.policies.compaction.summary", "compact_history")


class AgentOperations(CoreAgent):
    """A core agent with operations on its conversation that are not runs."""

    behavior: Behavior
    _policies: RunPolicies
    guests: tuple[GuestPlugs, ...] = ()
    """The plugins of other agents that apply to this one."""

    @property
    def active_plugs(self) -> Sequence[Plugin]:
        """The plugins that apply now: those of this agent, and of others."""
        return [*self.plugs, *(plug for guest in self.guests for plug in guest.active_plugs)]

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

    async def compact(
        self,
        instructions: str = "",
        options: Compaction | None = None,
        on_problem: Callable[[str], object] | None = None,
    ) -> CompactionResult | None:
        """Compact the older part of the conversation now, between runs. A session keeps all of it.

        Args:
            instructions: Topics that the summary should focus on.
            options: Options of the compaction; the agent's own by default.
            on_problem: Called with the reason if the conversation is not compacted.

        Returns:
            The result; ``None`` if the history needs no summary, or if the summary failed (the history is then unchanged).

        Raises:
            AgentBusyError: While a run is in progress.
        """
        if self.running:
            raise AgentBusyError("This agent is running. Compact its conversation when the run has ended.")
        before = self.messages
        options = options or self.behavior.compaction
        compacted = await compact_history(
            before,
            self.model,
            options,
            instructions=instructions,
            on_problem=on_problem,
            fixed=(self.context.system, self.context.tools.specs),
        )
        if compacted is None:
            return None
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
        if limit := self._policies.conversation_limit(self.behavior):
            raise AgentError(f"Cannot ask a side question: the conversation has reached its limit ({limit}).")
        return await answer_aside(self, question, self._policies.add_side_usage)
