"""What a sub-agent gets of what its parent has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypedDict

from mainspring.cancellation import CancelToken
from mainspring.errors import ToolError
from mainspring.loop import Behavior
from mainspring.subagents.definition import AgentDefinition
from mainspring.subagents.inheritance import Inherited

if TYPE_CHECKING:
    from mainspring.models import ModelProvider
    from mainspring.tools import Tool


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
    behavior: Behavior | None
    signal: CancelToken | None


def child_behavior(has: Inherited) -> Behavior:
    """The parent's behavior without what belongs to its own conversation: the form of its answer, and its budget."""
    return Behavior(schema=None, session_budget=None).over(has.behavior)


def child_tools(tools: Sequence[Tool], definition: AgentDefinition, wanted: Sequence[str] | None) -> list[Tool]:
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
        raise ToolError(f"there is no tool {', '.join(unknown)} for the sub-agent; there are {_listed(left)}")
    return [t for t in left if t.name in wanted]


def _listed(tools: Iterable[Any]) -> str:
    return ", ".join(t.name for t in tools) or "none"
