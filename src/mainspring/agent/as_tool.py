"""An agent as a tool of another one: each call is a separate conversation, run as a subagent of the agent that calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol

from mainspring.loop import Plugin
from mainspring.permissions import Permissions
from mainspring.subagents.plug import Subagents, to_parent_result
from mainspring.tools import Tool, ToolContext, ToolResult, to_tool_result
from mainspring.tools.tool import AGENT_SOURCE
from mainspring.type_variables import NeededDepsT, OutputT

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

_TASK = "What to do, with all that must be known for it."
_DESCRIPTION = "Each call starts with an empty conversation and sees nothing of this one, so the task must contain everything it needs."


class CallableAgent(Protocol):
    """An agent that can be a tool."""

    name: str

    def create_counterpart(self, options: dict[str, Any]) -> CoreAgent:
        """Create the agent of another conversation."""
        ...


class AgentTool(Tool[NeededDepsT], Generic[NeededDepsT, OutputT], frozen=True, eq=False, kw_only=True):
    """A tool that runs an agent; `Agent.as_tool` creates it. ``await tool("task")`` runs it without another agent, for tests.

    Attributes:
        agent: The agent.
    """

    agent: CallableAgent

    if TYPE_CHECKING:

        async def __call__(self, /, *given: Any, **arguments: Any) -> ToolResult[OutputT]:
            """Run the agent without another one."""
            ...


def create_agent_tool(agent: CallableAgent, name: str, description: str) -> AgentTool[Any, Any]:
    """Create the tool of an agent."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        task, call = arguments["task"], ctx.extra.get("call_agent")
        title = " ".join(str(task).split())[:80]
        ctx.metadata(title=title)
        if call is None:  # outside of a run
            alone: Any = agent.create_counterpart({"plugs": ()})
            try:
                return to_tool_result((await alone.run(task, deps=ctx.deps)).output)
            finally:
                await alone.shutdown()
        subagents: Subagents = call()
        result = await subagents.call(agent, name, task, deps=ctx.deps, signal=ctx.signal)
        return to_parent_result(result, title, subagents.max_result_chars)

    return AgentTool(
        name=name,
        description=f"{description} {_DESCRIPTION}".strip(),
        input_schema={
            "type": "object",
            "properties": {"task": {"type": "string", "minLength": 1, "description": _TASK}},
            "required": ["task"],
            "additionalProperties": False,
        },
        execute=execute,
        label=name,
        source=AGENT_SOURCE,
        access=lambda arguments: (),  # each call of the agent is checked separately
        agent=agent,
    )


def share_approver(plugs: Iterable[Plugin], of_parent: Iterable[Plugin]) -> None:
    """Let permissions without an approver ask that of the parent."""
    found = next((p for p in of_parent if isinstance(p, Permissions)), None)
    for plug in plugs:
        if found is not None and isinstance(plug, Permissions) and plug.on_permission_request is None:
            plug.on_permission_request, plug.unattended = found.on_permission_request, found.unattended
