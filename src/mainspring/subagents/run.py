"""One subagent run: its limits, its result, and what it inherits from the agent that starts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import ToolError
from mainspring.events import RunStatus, SubagentStats
from mainspring.loop import CoreAgent, Plugin, RunOptions, RunResult, Steps
from mainspring.subagents.definition import AgentDefinition
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.models import ModelProvider


class SubagentResult(Struct, frozen=True, kw_only=True):
    """What a sub-agent came to.

    Attributes:
        text: Its final answer, or as far as it got. May be empty.
        status: How its run ended.
        stats: Its figures.
        error: What failed, if something did.
    """

    text: str
    status: RunStatus
    stats: SubagentStats
    error: BaseException | None = None


class SubagentRun:
    """A sub-agent that is running or waits for its turn.

    Attributes:
        id: Its name in its parent's tree.
        name: The name of its definition; empty for a plain one.
        task: What it works on.
        depth: How deep it stands.
        agent: The agent itself, once it has been made.
    """

    __slots__ = ("_signal", "agent", "depth", "id", "name", "task")

    def __init__(self, child_id: str, name: str, task: str, depth: int) -> None:
        self.id = child_id
        self.name = name
        self.task = task
        self.depth = depth
        self.agent: CoreAgent | None = None
        self._signal = CancelToken()

    @property
    def signal(self) -> CancelToken:
        """Set when it is stopped."""
        return self._signal

    @property
    def running(self) -> bool:
        """Whether its run goes on; a child that waits for a place does not run yet."""
        return self.agent is not None and self.agent.running

    def abort(self, reason: str = "stopped") -> None:
        """Stop this child and those below it; its parent is told and goes on. Safe from any thread."""
        self._signal.cancel(reason)

    def stats(self, result: RunResult | None, status: RunStatus) -> SubagentStats:
        """Its figures at the end, or as far as there are any."""
        if result is None:
            return SubagentStats(child_id=self.id, child=self.name, depth=self.depth, status=status)
        return SubagentStats(
            child_id=self.id,
            child=self.name,
            depth=self.depth,
            status=status,
            turns=result.turns,
            usage=result.usage,
            tool_counts=result.stats.tool_counts,
            seconds=result.stats.seconds,
            children=result.stats.children,
        )


DEFAULT_NAME = "agent"
"""What a sub-agent without a definition is called."""


class SubagentCounter:
    """What all levels share: how many sub-agents there were."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.started = 0
        self._named = 0

    def register(self, name: str, task: str, depth: int) -> SubagentRun:
        """A handle for one more.

        Raises:
            ToolError: If there were too many.
        """
        if self.started >= self.limit:
            raise ToolError(f"this run has started its {self.limit} sub-agents; do the rest of the work without")
        self.started += 1
        self._named += 1
        return SubagentRun(f"{name or DEFAULT_NAME}-{self._named}", name, task, depth)


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

    async def run_subagent(
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

    def child_defaults(self) -> ParentContext:
        """What the run that goes on has; between runs, the agent."""
        ...

    def create_subagent(self, request: SubagentRequest) -> CoreAgent:
        """Make a sub-agent, whose spending counts in that of this agent's run.

        Raises:
            ConfigError: If its model cannot be used.
        """
        ...

    def reached_limit(self) -> RunStatus | None:
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
    return RunOptions(schema=None, session_budget=None).merged_with(has.behavior)


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
