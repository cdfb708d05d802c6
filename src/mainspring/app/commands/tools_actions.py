"""The built-in tools: what there is, and one call of one of them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec import Struct

from mainspring.agent.agent import Agent
from mainspring.app.compose.conversation import chosen
from mainspring.app.compose.services import services
from mainspring.app.run.options import Place, Rules
from mainspring.app.workspace.load import load
from mainspring.app.workspace.permissions import permissions_of
from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv
from mainspring.errors import AgentError
from mainspring.events import Done, StreamEvent, StreamStart, ToolExecutionEnd
from mainspring.loop import Behavior
from mainspring.messages import Message, TextBlock, ToolResultBlock
from mainspring.models import ModelInfo, ModelRequest, ModelResponse
from mainspring.models.message_builder import parse_call
from mainspring.policies.guardrails import Guardrails
from mainspring.tools import Tool
from mainspring.tools.builtin import builtin_tools


class ToolView(Struct, frozen=True, kw_only=True):
    """A tool, for people and programs."""

    name: str
    summary: str
    description: str
    input_schema: dict[str, Any]


class CallResult(Struct, frozen=True, kw_only=True):
    """What a call gave.

    Attributes:
        name: The tool.
        output: What a model would read: text, or blocks of text and images.
        title: A line for people.
        metadata: Facts.
        is_error: Whether it failed.
        code: What kind of failure.
        seconds: How long the tool took.
    """

    name: str
    output: Any
    title: str = ""
    metadata: dict[str, Any] = {}
    is_error: bool = False
    code: str | None = None
    seconds: float = 0.0


def list_tools() -> list[ToolView]:
    """The built-in tools."""
    return [
        ToolView(
            name=tool.name,
            summary=" ".join(tool.description.split("\n\n")[0].split()),
            description=tool.description,
            input_schema=tool.input_schema,
        )
        for tool in builtin_tools(every=True)
    ]


async def call_tool(
    name: str,
    arguments: str,
    place: Place,
    rules: Rules,
    signal: CancelToken | None = None,
    environ: Mapping[str, str] = os.environ,
) -> CallResult:
    """Run one tool as a run would: arguments checked and repaired, permission decided on what runs.

    Who types the call has decided to make it: it is allowed, unless a rule denies it or asks, or it touches something
    sensitive, which needs an ``--allow`` that names it. What destroys much is refused as in a run (`Guardrails`).

    Args:
        name: The tool.
        arguments: Its arguments, as JSON text.
        place: Where.
        rules: Permission rules.
        signal: Set it to stop the call.
        environ: The environment.

    Raises:
        ConfigError: If there is no such tool, or the settings are broken.
    """
    cwd, settings = load(place, {}, environ)
    [tool] = chosen(builtin_tools(every=True), [name])
    env = LocalEnv(cwd)
    try:
        permissions = permissions_of(settings, rules, cwd, mode="allow")
        return await _call(tool, arguments, env, permissions, services(settings.home), signal or CancelToken())
    finally:
        await env.aclose()


async def _call(
    tool: Tool, arguments: str, env: LocalEnv, permissions: Any, extra: dict[str, Any], signal: CancelToken
) -> CallResult:
    agent = Agent(
        _OneCall(tool.name, arguments),
        tools=[tool],
        execution=env,
        permissions=permissions,
        behavior=Behavior(max_turns=1, retry=None),
        extra=extra,
        plugs=[Guardrails()],
    )
    end: ToolExecutionEnd | None = None
    async with agent.stream("call", signal=signal) as run:
        async for event in run:
            if isinstance(event, ToolExecutionEnd):
                end = event
    if end is None:  # stopped before it began
        await run.result()
        raise AgentError("the call was not made")
    return _result(end)


def _result(end: ToolExecutionEnd) -> CallResult:
    result: ToolResultBlock = end.result
    metadata: dict[str, Any] = dict(result.details or {})
    code = metadata.pop("code", None)
    output: Any = result.content
    if not isinstance(result.content, str):
        output = [
            {"type": "text", "text": b.text}
            if isinstance(b, TextBlock)
            else {"type": "image", "media_type": b.media_type, "data": b.data}
            for b in result.content
        ]
    return CallResult(
        name=end.call.name,
        output=output,
        title=end.title,
        metadata=metadata,
        is_error=result.is_error,
        code=code,
        seconds=round(end.seconds, 3),
    )


class _OneCall:
    """In the place of a model: makes one call and says no more."""

    def __init__(self, name: str, arguments: str) -> None:
        call = parse_call("call_1", name, arguments)
        self._message = Message("assistant", (call,), stop_reason="tool_use")

    @property
    def provider(self) -> str:
        return "user"

    @property
    def model(self) -> str:
        return "call"

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("call", "user")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        yield StreamStart()
        yield Done("tool_use", self._message)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(self._message)

    async def aclose(self) -> None:
        return None
