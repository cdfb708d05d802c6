"""What the agents of one tree share."""

from __future__ import annotations

from mainspring.errors import ToolError
from mainspring.subagents.run import Child

PLAIN = "agent"
"""What a sub-agent without a definition is called."""


class Tree:
    """What all levels share: how many sub-agents there were."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.started = 0
        self._named = 0

    def next_child(self, name: str, task: str, depth: int) -> Child:
        """A handle for one more.

        Raises:
            ToolError: If there were too many.
        """
        if self.started >= self.limit:
            raise ToolError(f"this run has started its {self.limit} sub-agents; do the rest of the work without")
        self.started += 1
        self._named += 1
        return Child(f"{name or PLAIN}-{self._named}", name, task, depth)
