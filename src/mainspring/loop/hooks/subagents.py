"""The hook of the start of a subagent, which its parent receives."""

from __future__ import annotations

from typing import Any

from mainspring.loop.hooks.base import text, validated_property
from mainspring.loop.hooks.run import Hook, SubagentIdentity


class BeforeSpawn(Hook):
    """A subagent is about to run.

    ``task`` may be replaced; ``block`` (True or a reason) prevents the run.

    ``child`` is the name of its definition, ``child_id`` its ID, ``depth`` its level (1 for a subagent of the outermost agent),
    ``agent`` the subagent itself, on which you can register handlers.
    """

    event = "spawn:before"
    gate = True
    mutable = ("task", "block")
    when = "When a subagent was created and has a slot to run, before it runs."
    __slots__ = ("_task", "agent", "block")
    task: str = validated_property("_task", text)

    def __init__(self, child_id: str, child: str, depth: int, task: str, agent: Any) -> None:
        self.subagent = SubagentIdentity(child_id, child, depth)
        self._task = task
        self.agent = agent
        self.block: str | bool = False

    @property
    def is_decided(self) -> bool:
        return bool(self.block)

    def block_on_error(self, reason: str) -> None:
        self.block = reason
