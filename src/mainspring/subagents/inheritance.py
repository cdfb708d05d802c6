"""What sub-agents need of the agent that starts them. Above: the plug. Below: whoever makes agents (`mainspring.agent`).

What a sub-agent gets of what its parent has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import ToolError
from mainspring.events import RunStatus
from mainspring.loop import CoreAgent, Plugin, RunOptions, RunResult, Steps
from mainspring.subagents.definition import AgentDefinition
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.models import ModelProvider


class ParentContext(Struct, frozen=True, kw_only=True):
    """What the run that goes on has, and a sub-agent gets unless it is restricted.

    Attributes:
        model: Whom it asks.
        system: Its system prompt.
        tools: What it may call.
        behavior: Its limits and options.
    """

    model: ModelProvider
    system: str
    tools: Sequence[Tool]
    behavior: RunOptions


class SubagentRequest(Struct, frozen=True, kw_only=True):
    """A sub-agent to make. Its environment, aliases and extra things are those of its parent.

    Attributes:
        name: Name of the agent.
        model: Whom it asks.
        system: Its system prompt.
        tools: What it may call.
        behavior: Its limits and options.
        plugs: What it has of its parent's plugs.
    """

    name: str
    model: ModelProvider | str
    system: str
    tools: Sequence[Tool]
    behavior: RunOptions
    plugs: Sequence[Plugin]


@runtime_checkable
class NestedSteps(Protocol):
    """`Steps` that keep the run of a sub-agent apart from that of its parent."""

    def for_child(self) -> Steps:
        """The steps for a sub-agent."""
        ...

    async def child(
        self, agent: CoreAgent, name: str, run: Callable[[], Awaitable[RunResult]], signal: CancelToken
    ) -> RunResult:
        """Run a sub-agent that was made with them.

        Args:
            agent: The sub-agent.
            name: Its name in its parent's tree.
            run: Runs it, or takes it up again where it paused for an answer.
            signal: Set when it is stopped.
        """
        ...


class SubagentHost(Protocol):
    """The agent that starts sub-agents, as the plug sees it."""

    def inherited(self) -> ParentContext:
        """What the run that goes on has; between runs, the agent."""
        ...

    def create_subagent(self, request: SubagentRequest) -> CoreAgent:
        """Make a sub-agent, whose spending counts in that of this agent's run.

        Raises:
            ConfigError: If its model cannot be used.
        """
        ...

    def over_limit(self) -> RunStatus | None:
        """The limit of this agent's run that has been reached, sub-agents included; a sub-agent then asks no model any more."""
        ...


class SpawnOptions(TypedDict, total=False):
    """Restrictions of one sub-agent, over those of its definition.

    Attributes:
        tools: The only tools that it gets; each must be one of its parent's.
        model: ``provider:model``, or a `ModelProvider`.
        system: Its system prompt.
        behavior: Limits and options.
        signal: Stops it when set.
    """

    tools: Sequence[str] | None
    model: ModelProvider | str | None
    system: str | None
    behavior: RunOptions | None
    signal: CancelToken | None


def inherited_behavior(has: ParentContext) -> RunOptions:
    """The parent's behavior without what belongs to its own conversation: the form of its answer, and its budget."""
    return RunOptions(schema=None, session_budget=None).over(has.behavior)


def select_tools(tools: Sequence[Tool], definition: AgentDefinition, wanted: Sequence[str] | None) -> list[Tool]:
    """The tools that a child gets.

    Raises:
        ToolError: If one is asked for that the parent does not have, or none is left.
    """
    left = list(tools)
    if definition.tools is not None:
        left = [t for t in left if any(fnmatchcase(t.name, pattern) for pattern in definition.tools)]
        if definition.tools and not left:
            raise ToolError(
                f"a sub-agent {definition.name!r} needs {', '.join(definition.tools)}, and this agent has none of them"
            )
    if wanted is None:
        return left
    unknown = sorted(set(wanted) - {t.name for t in left})
    if unknown:
        raise ToolError(f"there is no tool {', '.join(unknown)} for the sub-agent; there are {_format_names(left)}")
    return [t for t in left if t.name in wanted]


def _format_names(tools: Iterable[Any]) -> str:
    return ", ".join(t.name for t in tools) or "none"
