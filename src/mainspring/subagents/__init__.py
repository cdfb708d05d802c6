"""Subagents: agents that an agent starts for a part of its work."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.events.base import SubagentStats as SubagentStats
    from mainspring.subagents.definition import AgentDefinition as AgentDefinition
    from mainspring.subagents.definition import DefinitionScan as DefinitionScan
    from mainspring.subagents.definition import SkippedFile as SkippedFile
    from mainspring.subagents.definition import load_definitions as load_definitions
    from mainspring.subagents.definition import parse_definition as parse_definition
    from mainspring.subagents.plug import SPAWN_TOOL as SPAWN_TOOL
    from mainspring.subagents.plug import Subagents as Subagents
    from mainspring.subagents.run import NestedSteps as NestedSteps
    from mainspring.subagents.run import ParentContext as ParentContext
    from mainspring.subagents.run import SubagentHost as SubagentHost
    from mainspring.subagents.run import SubagentRequest as SubagentRequest
    from mainspring.subagents.run import SubagentResult as SubagentResult
    from mainspring.subagents.run import SubagentRun as SubagentRun

lazy_exports(
    __name__,
    {
        "run": "SubagentRun SubagentResult SubagentStats SubagentRequest SubagentHost ParentContext NestedSteps",
        "definition": "AgentDefinition DefinitionScan SkippedFile load_definitions parse_definition",
        "plug": "Subagents SPAWN_TOOL",
    },
)
