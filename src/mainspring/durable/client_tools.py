"""Tools and context that the client of a run provides with the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from msgspec import Struct

from mainspring.durable.engine import RunLog
from mainspring.durable.records import decode
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import TurnBefore
from mainspring.messages import AgentMessage, Message, ToolResultBlock
from mainspring.tools import Tool, ToolContext, ToolResult

SOURCE = "client"
"""Source of client tools. Subagents do not get them, since no client would answer their calls."""

_HANDED_OVER_TEXT = "This call was handed to the application. Its answer comes with the next message."
_MARK = "client"


class ClientTool(Struct, frozen=True, kw_only=True):
    """A tool that the client runs.

    Attributes:
        name: The name. Ignored if the agent has a tool with this name.
        description: The description for the model.
        parameters: JSON Schema of the arguments.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class ClientContext(Struct, frozen=True, kw_only=True):
    """Tools and context of a client.

    Attributes:
        tools: Tools that the client runs. A run ends when it has called one. The result comes with the next run's prompt.
        extra: Values that the agent's tools find as ``ctx.extra["client"]``.
    """

    tools: tuple[ClientTool, ...] = ()
    extra: dict[str, Any] = {}


def client_call_state(result: ToolResultBlock) -> Literal["waits", "answered"] | None:
    """Return whether the client runs this call, and whether it has returned the result."""
    details = cast("object", result.details)
    return cast("dict[str, Any]", details).get(_MARK) if isinstance(details, dict) else None


def answer_topic(call_id: str) -> str:
    """Return the topic for the client's result of a call, for a run that is paused at another call."""
    return f"client {call_id}"


def install_client_tools(agent: CoreAgent, client_context: ClientContext, log: RunLog) -> None:
    """Add the client's tools and context to an agent."""
    agent.extra = {**agent.extra, "client": client_context.extra}
    used_names = {tool.name for tool in agent.tools} | set(agent.tool_aliases.values())
    for tool in client_context.tools:
        if tool.name not in used_names:
            agent.tools.add(_tool(tool, log))
    agent.on(TurnBefore, lambda hook: _stop_where_handed_over(agent, hook))


def _tool(tool: ClientTool, log: RunLog) -> Tool:
    read: set[int] = set()  # Some models reuse call IDs: a result belongs to one call.

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        requested = answer_topic(ctx.call_id)
        for message in await log.messages(0):
            if message.topic == requested and message.number not in read:
                read.add(message.number)
                given = decode(message.body, ToolResultBlock)
                return ToolResult(output=given.content, is_error=given.is_error, metadata={_MARK: "answered"})
        return ToolResult(output=_HANDED_OVER_TEXT, metadata={_MARK: "waits"})

    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        execute=execute,
        source=SOURCE,
        idempotent=True,
        access=lambda arguments: (),  # Client tools change nothing on this machine.
    )


def _stop_where_handed_over(agent: CoreAgent, hook: TurnBefore) -> None:
    if any(client_call_state(result) == "waits" for result in _last_results(agent.messages)):
        hook.stop = "completed"


def _last_results(messages: Sequence[AgentMessage]) -> list[ToolResultBlock]:
    """Return the results after the model's last response."""
    found: list[ToolResultBlock] = []
    for message in reversed(messages):
        if isinstance(message, Message):
            if message.role == "assistant":
                break
            found += message.tool_results
    return found
