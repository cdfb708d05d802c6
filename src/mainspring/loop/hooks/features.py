"""The hooks of features: skills, structured output, and subagents.

They are declared here, so that a handler does not import the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mainspring.loop.hooks.base import text, validated_property
from mainspring.loop.hooks.run import Hook, SubagentIdentity


class SkillsCatalog(Hook):
    """The list of skills for the model. ``catalog`` may be replaced.

    It is empty without skills. The list is made once, at warm-up or the first run: a handler that is added later misses this.
    """

    event = "skills:catalog"
    mutable = ("catalog",)
    when = "At warm-up or the first run, after the folders were read."
    __slots__ = ("_catalog", "skills")
    catalog: str = validated_property("_catalog", text)

    def __init__(self, catalog: str, skills: Sequence[Any]) -> None:
        self._catalog = catalog
        self.skills = skills


SkillActivationSource = Literal["model", "explicit", "trigger", "resume"]
"""Cause of an activation: the model, the application or user (``explicit``), a prompt (``trigger``), or a resumed session."""


SkillReason = Literal["run-end", "explicit", "reset"]
"""Cause of a deactivation: the run ended, the application did it (``explicit``), or the conversation was reset."""


class OutputHook(Hook):
    """A run with structured output has ended.

    ``output`` is the validated value, or ``None`` with the reason in ``error``: the run then fails, unless a handler sets one.
    ``attempts`` is the number of outputs that were validated.
    """

    event = "output"
    mutable = ("output",)
    when = "When an output fits the schema, or the last attempt failed."
    __slots__ = ("attempts", "error", "output", "raw")

    def __init__(self, output: Any, raw: Any, attempts: int, error: str = "") -> None:
        self.output = output
        self.raw = raw
        self.attempts = attempts
        self.error = error


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
