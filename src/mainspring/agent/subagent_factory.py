"""Creation of subagents for an agent: new ones, and conversations of agents that are its tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mainspring.events import RunStatus
from mainspring.lazy import lazy_class, lazy_function
from mainspring.loop import CoreAgent
from mainspring.policies.budgets import stricter_tool_budgets
from mainspring.run_options import RunOptions

if TYPE_CHECKING:
    from mainspring.agent.as_tool import share_approver
    from mainspring.agent.guest_plugs import GuestPlugs
    from mainspring.subagents import NestedSteps, ParentContext, SubagentRequest
else:
    GuestPlugs = lazy_function("mainspring.agent.guest_plugs", "GuestPlugs")
    share_approver = lazy_function("mainspring.agent.as_tool", "share_approver")
    NestedSteps = lazy_class("mainspring.subagents.run", "NestedSteps")


class SubagentFactory:
    """Creates subagents for an agent.

    Args:
        parent: The agent.
        make: The class of subagents: the public Agent, even if the parent has a custom class.
        child_defaults: Returns the values of the agent's run.
        reached_limit: Returns the limit that its run has reached, if any.
    """

    def __init__(
        self,
        parent: Any,
        make: Callable[..., CoreAgent],
        child_defaults: Callable[[], ParentContext],
        reached_limit: Callable[[], RunStatus | None],
    ) -> None:
        self.parent = parent
        self._make = make
        self.child_defaults = child_defaults
        self.reached_limit = reached_limit

    def create_subagent(self, request: SubagentRequest) -> CoreAgent:
        """Create a subagent with the same environment and tool aliases, whose spending is added to the parent's."""
        parent = self.parent
        child = self._make(
            request.model,
            name=request.name,
            system=request.system,
            tools=request.tools,
            behavior=request.behavior,
            execution=parent.env,
            plugs=request.plugs,
            ledger=parent.ledger,
            extra={k: v for k, v in parent.extra.items() if k not in ("spawn", "call_agent")},
            tool_aliases=parent.tool_aliases,
            get_api_key=parent.get_api_key if isinstance(request.model, str) else None,
            steps=self._steps(),
        )
        cast("Any", child).join(parent)
        return child

    def create_conversation(self, agent: Any, name: str) -> CoreAgent:
        """Create a conversation of another agent, in the parent's environment unless it has its own."""
        parent = self.parent
        options: dict[str, Any] = {"name": name, "ledger": parent.ledger, "steps": self._steps(), "plugs": ()}
        if "execution" not in agent.given_options:
            options["execution"] = parent.env
        child = agent.create_counterpart(options)
        inherited = self.child_defaults().behavior.tool_budgets
        if inherited:
            budgets = stricter_tool_budgets(child.behavior.tool_budgets, inherited)
            child.behavior = RunOptions(tool_budgets=budgets).merged_with(child.behavior)
        child.join(parent)
        GuestPlugs(child, parent, name, with_gates=False)  # `forward_events` applies the gates
        share_approver(child.plugs, parent.active_plugs)
        return child

    async def close(self, agent: CoreAgent) -> None:
        """Notify handlers of `session:shutdown` that the conversation of a subagent has ended."""
        await cast("Any", agent).shutdown()

    def _steps(self) -> Any:
        steps = self.parent.steps
        return steps.for_child() if isinstance(steps, NestedSteps) else None
