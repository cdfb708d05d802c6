"""Sub-agents: agents that an agent starts for a part of its work."""

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.subagents.definition import AgentDefinition as AgentDefinition
    from mainspring.subagents.definition import Found as Found
    from mainspring.subagents.definition import Skipped as Skipped
    from mainspring.subagents.definition import load_definitions as load_definitions
    from mainspring.subagents.definition import parse_definition as parse_definition
    from mainspring.subagents.inheritance import ChildRequest as ChildRequest
    from mainspring.subagents.inheritance import Host as Host
    from mainspring.subagents.inheritance import Inherited as Inherited
    from mainspring.subagents.inheritance import NestingSteps as NestingSteps
    from mainspring.subagents.plug import Subagents as Subagents
    from mainspring.subagents.run import Child as Child
    from mainspring.subagents.run import ChildResult as ChildResult
    from mainspring.subagents.run import ChildStats as ChildStats
    from mainspring.subagents.tool import SPAWN_TOOL as SPAWN_TOOL

__all__, __getattr__ = exports(
    __name__,
    {
        "run": "Child ChildResult ChildStats",
        "definition": "AgentDefinition Found Skipped load_definitions parse_definition",
        "inheritance": "ChildRequest Host Inherited NestingSteps",
        "plug": "Subagents",
        "tool": "SPAWN_TOOL",
    },
)
