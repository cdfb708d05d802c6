"""Sub-agents as `Subagents` needs them: made by the public Agent, with what its run has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mainspring.events import RunStatus
from mainspring.subagents import AgentDefinition, ChildRequest, Inherited, NestingSteps, Subagents

if TYPE_CHECKING:
    from mainspring.agent.agent import Agent

SubagentsOption = Subagents | Iterable[AgentDefinition] | bool
"""The plug itself; kinds of sub-agents for one with its defaults; or whether there are any."""


class AgentHost:
    """Makes sub-agents for an agent.

    Args:
        parent: The agent.
        make: The class of sub-agents: the public Agent, also where the parent is of a class of its own.
        inherited: Gives what its run has.
        over_limit: Gives the limit that its run has reached, if it has.
    """

    def __init__(
        self,
        parent: Agent,
        make: type[Agent],
        inherited: Callable[[], Inherited],
        over_limit: Callable[[], RunStatus | None],
    ) -> None:
        self.parent = parent
        self._make = make
        self.inherited = inherited
        self.over_limit = over_limit

    def make_child(self, request: ChildRequest) -> Agent:
        """A sub-agent in the same environment, under the same names of tools, on the same bill."""
        parent = self.parent
        return self._make(
            request.model,
            name=request.name,
            system=request.system,
            tools=request.tools,
            behavior=request.behavior,
            execution=parent.env,
            plugs=request.plugs,
            ledger=parent.ledger,
            extra={k: v for k, v in parent.extra.items() if k != "spawn"},
            tool_aliases=parent.tool_aliases,
            steps=parent.steps.for_child() if isinstance(parent.steps, NestingSteps) else None,
        )


def as_plug(option: SubagentsOption | None) -> Subagents | None:
    """The plug that an option stands for."""
    if option is None or isinstance(option, Subagents):
        return option
    if isinstance(option, bool):
        return Subagents() if option else None
    return Subagents(option)
