"""One sub-agent: while it runs, and what it came to.

What the agents of one tree share.
"""

from __future__ import annotations

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import ToolError
from mainspring.events import RunStatus, SubagentStats
from mainspring.loop import CoreAgent, RunResult


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

    def next_child(self, name: str, task: str, depth: int) -> SubagentRun:
        """A handle for one more.

        Raises:
            ToolError: If there were too many.
        """
        if self.started >= self.limit:
            raise ToolError(f"this run has started its {self.limit} sub-agents; do the rest of the work without")
        self.started += 1
        self._named += 1
        return SubagentRun(f"{name or DEFAULT_NAME}-{self._named}", name, task, depth)
