"""Sub-agents: agents that an agent starts for a part of its work."""

from mainspring.subagents.child import Child, ChildResult, ChildStats
from mainspring.subagents.definition import AgentDefinition, Found, load_definitions, parse_definition
from mainspring.subagents.host import ChildRequest, Host, Inherited
from mainspring.subagents.plug import Subagents
from mainspring.subagents.tool import SPAWN_TOOL

__all__ = [
    "SPAWN_TOOL",
    "AgentDefinition",
    "Child",
    "ChildRequest",
    "ChildResult",
    "ChildStats",
    "Found",
    "Host",
    "Inherited",
    "Subagents",
    "load_definitions",
    "parse_definition",
]
