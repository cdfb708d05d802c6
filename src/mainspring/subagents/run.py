"""One subagent run: its limits, its result, and what it inherits from the agent that starts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypedDict, cast, runtime_checkable

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentOutputError, ToolError, describe_failure
from mainspring.events import RunStatus, SubagentStats
from mainspring.loop import CoreAgent, Plugin, RunResult, Steps
from mainspring.run_options import RunOptions
from mainspring.subagents.definition import AgentDefinition
from mainspring.tools import Tool
from mainspring.type_variables import OutputT

if TYPE_CHECKING:
    from mainspring.models import ModelProvider


class SubagentResult(Struct, Generic[OutputT], frozen=True, kw_only=True):
    """The result of a subagent.

    Attributes:
        text: Its final response, or a partial one. May be empty.
        output_or_none: Its output; ``None`` if it is missing. `output` raises an error then.
        status: The final status of its run.
        stats: Its statistics.
        error: The error, if it failed.
    """

    text: str
    output_or_none: OutputT | None
    status: RunStatus
    stats: SubagentStats
    error: BaseException | None = None

    @property
    def output(self) -> OutputT:
        """Its output, of the requested type. Without a type, the text of its last response.

        Raises:
            AgentOutputError: If the output is missing.
        """
        if self.output_or_none is None and self.status != "completed":
            reason = f": {describe_failure(self.error)}" if self.error is not None else ""
            raise AgentOutputError(
                f"The subagent ended ({self.status}) without an output{reason.rstrip('.')}. Check result.status before you read "
                "result.output; result.text is the text of its last response."
            )
        return cast("OutputT", self.output_or_none)


class SubagentRun:
    """A subagent that is running or waits to run.

    Attributes:
        id: Its ID, unique among the subagents of the outermost run.
        name: The name of its definition; empty for a plain subagent.
        task: Its task.
        depth: Its nesting depth.
        agent: The agent itself, once it has been created.
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
        """Set when it is aborted."""
        return self._signal

    @property
    def running(self) -> bool:
        """Return True if its run is in progress.

        A subagent that waits for a slot is not running yet.
        """
        return self.agent is not None and self.agent.running

    def abort(self, reason: str = "stopped") -> None:
        """Abort this subagent and those below it; its parent is notified and continues. Thread-safe."""
        self._signal.cancel(reason)

    def stats(self, result: RunResult | None, status: RunStatus) -> SubagentStats:
        """Return its final statistics. Without a result, they contain only its identity and status."""
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
"""Name of a subagent without a definition."""


class SubagentCounter:
    """The number of subagents, shared by all levels."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.started = 0
        self._last_number = 0

    def register(self, name: str, task: str, depth: int) -> SubagentRun:
        """Register another subagent.

        Raises:
            ToolError: If the limit is reached.
        """
        if self.started >= self.limit:
            raise ToolError(
                f"This run has reached its limit of {self.limit} subagents. Do the rest of the work without subagents."
            )
        self.started += 1
        self._last_number += 1
        return SubagentRun(f"{name or DEFAULT_NAME}-{self._last_number}", name, task, depth)


class ParentContext(Struct, frozen=True, kw_only=True):
    """The values of the current run, which a subagent inherits unless it is restricted.

    Attributes:
        model: Its model.
        system: Its system prompt.
        tools: Its tools.
        behavior: Its limits and options.
        plugs: Its plugins, those of a handoff target while that answers included.
        deps: Its dependencies.
    """

    model: ModelProvider
    system: str
    tools: Sequence[Tool]
    behavior: RunOptions
    plugs: Sequence[Plugin]
    deps: Any = None


class SubagentRequest(Struct, frozen=True, kw_only=True):
    """A request to create a subagent.

    It inherits its parent's environment, aliases, and extra values.

    Attributes:
        name: Name of the agent.
        model: Its model.
        system: Its system prompt.
        tools: Its tools.
        behavior: Its limits and options.
        plugs: The plugins that it inherits from its parent.
        deps: Its dependencies.
    """

    name: str
    model: ModelProvider | str
    system: str
    tools: Sequence[Tool]
    behavior: RunOptions
    plugs: Sequence[Plugin]
    deps: Any = None


@runtime_checkable
class NestedSteps(Protocol):
    """`Steps` that separate the run of a subagent from that of its parent."""

    def for_child(self) -> Steps:
        """Return the steps for a subagent."""
        ...

    async def run_subagent(
        self, agent: CoreAgent, name: str, run: Callable[[], Awaitable[RunResult]], signal: CancelToken
    ) -> RunResult:
        """Run a subagent that was created with these steps.

        Args:
            agent: The subagent.
            name: Its ID, unique among the subagents of the outermost run.
            run: Runs it, or resumes it if it paused for an answer.
            signal: Set when it is aborted.
        """
        ...


class SubagentHost(Protocol):
    """The agent that starts subagents, as the plugin uses it."""

    def child_defaults(self) -> ParentContext:
        """Return the values of the current run; between runs, those of the agent."""
        ...

    def create_subagent(self, request: SubagentRequest) -> CoreAgent:
        """Create a subagent whose spending is added to this agent's run.

        Raises:
            ConfigError: If its model cannot be used.
        """
        ...

    def create_conversation(self, agent: Any, name: str) -> CoreAgent:
        """Create a conversation of another agent whose spending is added to this agent's run, and that has no more rights.

        Raises:
            ConfigError: If it cannot be created.
        """
        ...

    async def close(self, agent: CoreAgent) -> None:
        """Notify handlers of `session:shutdown` that the conversation of a subagent has ended."""
        ...

    def reached_limit(self) -> RunStatus | None:
        """Return the limit that this agent's run, subagents included, has reached; a subagent then makes no more model calls."""
        ...


class SpawnOptions(TypedDict, total=False):
    """Restrictions of one subagent that override those of its definition.

    Attributes:
        tools: The only tools that it gets; each must be one of its parent's.
        model: ``provider:model``, or a `ModelProvider`.
        system: Its system prompt.
        behavior: Limits and options.
        deps: Its dependencies. Default: those of its parent.
        signal: Aborts it when set.
    """

    tools: Sequence[str] | None
    model: ModelProvider | str | None
    system: str | None
    behavior: RunOptions | None
    deps: Any
    signal: CancelToken | None


def inherited_behavior(parent: ParentContext) -> RunOptions:
    """Return the parent's behavior without the options of its conversation, for example, the output schema."""
    own = [name for name, option in RunOptions.declared.items() if not option.inherited]
    return parent.behavior.without(*own)


def select_tools(tools: Sequence[Tool], definition: AgentDefinition, names: Sequence[str] | None) -> list[Tool]:
    """Return the tools for a subagent.

    Raises:
        ToolError: If the parent does not have a requested tool, or none remains.
    """
    selected = list(tools)
    if definition.tools is not None:
        selected = [t for t in selected if any(fnmatchcase(t.name, pattern) for pattern in definition.tools)]
        if definition.tools and not selected:
            raise ToolError(
                f"The subagent {definition.name!r} needs the tools {', '.join(definition.tools)}, but this agent has none of them."
            )
    if names is None:
        return selected
    unknown = sorted(set(names) - {t.name for t in selected})
    if unknown:
        raise ToolError(
            f"Unknown tool for the subagent: {', '.join(unknown)}. Available tools: {_format_names(selected)}."
        )
    return [t for t in selected if t.name in names]


def _format_names(tools: Iterable[Any]) -> str:
    return ", ".join(t.name for t in tools) or "none"
