"""What the client of a run brings to it beside the prompt: tools that it runs itself, and facts for the agent's own tools."""

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
"""Where such tools come from; sub-agents do not get them, since nobody would answer."""

_HANDED_OVER_TEXT = "This call was handed to the application. Its answer comes with the next message."
_MARK = "client"


class ClientTool(Struct, frozen=True, kw_only=True):
    """A tool that the client runs.

    Attributes:
        name: Its name; one that the agent has itself is left out.
        description: For the model.
        parameters: JSON Schema of its arguments.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class ClientContext(Struct, frozen=True, kw_only=True):
    """What a client brings.

    Attributes:
        tools: Tools that it runs itself. A run ends once it has called one; the answer comes with the next run's prompt.
        extra: What tools of the agent find as ``ctx.extra["client"]``.
    """

    tools: tuple[ClientTool, ...] = ()
    extra: dict[str, Any] = {}


def client_call_state(result: ToolResultBlock) -> Literal["waits", "answered"] | None:
    """Whether a call was the client's to answer, and whether it has."""
    details = cast("object", result.details)
    return cast("dict[str, Any]", details).get(_MARK) if isinstance(details, dict) else None


def answer_topic(call_id: str) -> str:
    """Under which topic the client's answer to a call is sent to a run that is paused at another one."""
    return f"client {call_id}"


def install_client_tools(agent: CoreAgent, brought: ClientContext, log: RunLog) -> None:
    """Give an agent what the client brings."""
    agent.extra = {**agent.extra, "client": brought.extra}
    taken = {tool.name for tool in agent.tools} | set(agent.tool_aliases.values())
    for tool in brought.tools:
        if tool.name not in taken:
            agent.tools.add(_tool(tool, log))
    agent.on(TurnBefore, lambda hook: _stop_where_handed_over(agent, hook))


def _tool(tool: ClientTool, log: RunLog) -> Tool:
    read: set[int] = set()  # some models use the ids of their calls again: an answer is to one call

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        wanted = answer_topic(ctx.call_id)
        for letter in await log.letters(0):
            if letter.topic == wanted and letter.number not in read:
                read.add(letter.number)
                given = decode(letter.body, ToolResultBlock)
                return ToolResult(output=given.content, is_error=given.is_error, metadata={_MARK: "answered"})
        return ToolResult(output=_HANDED_OVER_TEXT, metadata={_MARK: "waits"})

    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        execute=execute,
        source=SOURCE,
        idempotent=True,
        access=lambda arguments: (),  # here it touches nothing
    )


def _stop_where_handed_over(agent: CoreAgent, hook: TurnBefore) -> None:
    if any(client_call_state(result) == "waits" for result in _last_results(agent.messages)):
        hook.stop = "completed"


def _last_results(messages: Sequence[AgentMessage]) -> list[ToolResultBlock]:
    """The results behind the model's last answer."""
    found: list[ToolResultBlock] = []
    for message in reversed(messages):
        if isinstance(message, Message):
            if message.role == "assistant":
                break
            found += message.tool_results
    return found
