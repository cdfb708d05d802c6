"""Subagents: agents that an agent starts for a part of its work."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.events.base import SubagentStats as SubagentStats
    from mainspring.subagents.definition import (
        AgentDefinition as AgentDefinition,
        DefinitionScan as DefinitionScan,
        SkippedFile as SkippedFile,
        load_definitions as load_definitions,
        parse_definition as parse_definition,
    )
    from mainspring.subagents.plug import SPAWN_TOOL as SPAWN_TOOL, Subagents as Subagents
    from mainspring.subagents.run import (
        NestedSteps as NestedSteps,
        ParentContext as ParentContext,
        SubagentHost as SubagentHost,
        SubagentRequest as SubagentRequest,
        SubagentResult as SubagentResult,
        SubagentRun as SubagentRun,
    )

lazy_exports(
    __name__,
    {
        "run": "SubagentRun SubagentResult SubagentStats SubagentRequest SubagentHost ParentContext NestedSteps",
        "definition": "AgentDefinition DefinitionScan SkippedFile load_definitions parse_definition",
        "plug": "Subagents SPAWN_TOOL",
    },
)
