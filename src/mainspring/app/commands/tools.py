"""``mainspring tools``: list the built-in tools, or call one."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.agent.agent import Agent
from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DENIED, ERROR, OK
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import permission_flags, run_command, workspace_options
from mainspring.app.cli.signals import GracefulShutdown
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.compose.conversation import select_tools
from mainspring.app.compose.environment import tool_services
from mainspring.app.run.options import PermissionFlags, WorkspaceOptions
from mainspring.app.run.tool_summaries import summarize_tool
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.permissions import build_permissions
from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv
from mainspring.errors import AgentError
from mainspring.events import Done, StreamEvent, StreamStart, ToolExecutionEnd
from mainspring.messages import Message, TextBlock, ToolResultBlock
from mainspring.models import ModelInfo, ModelRequest, ModelResponse
from mainspring.models.message_builder import parse_call
from mainspring.policies.guardrails import Guardrails
from mainspring.run_options import RunOptions
from mainspring.tools import Tool
from mainspring.tools.builtin import builtin_tools


class BuiltinToolView(Struct, frozen=True, kw_only=True):
    """A built-in tool."""

    name: str
    summary: str
    description: str
    input_schema: dict[str, Any]


class ToolCallResult(Struct, frozen=True, kw_only=True):
    """The result of a tool call.

    Attributes:
        name: Tool name.
        output: Output for a model: text, or blocks of text and images.
        title: Summary for the user.
        metadata: Structured data.
        is_error: Whether the call failed.
        code: Kind of error.
        seconds: Duration.
    """

    name: str
    output: Any
    title: str = ""
    metadata: dict[str, Any] = {}
    is_error: bool = False
    code: str | None = None
    seconds: float = 0.0


def list_tools() -> list[BuiltinToolView]:
    """List the built-in tools."""
    return [
        BuiltinToolView(
            name=tool.name,
            summary=summarize_tool(tool),
            description=tool.description,
            input_schema=tool.input_schema,
        )
        for tool in builtin_tools(include_optional=True)
    ]


async def call_tool(
    name: str,
    arguments: str,
    place: WorkspaceOptions,
    rules: PermissionFlags,
    signal: CancelToken | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ToolCallResult:
    """Call a tool as a run would: with validation of its arguments, and a permission check.

    A call that the user types is allowed, unless a rule denies it or asks, or it accesses something sensitive, which requires an
    ``--allow`` that names it. Destructive calls are denied like in a run (`Guardrails`).

    Args:
        name: Tool name.
        arguments: Arguments as JSON text.
        place: Workspace options.
        rules: Permission rules.
        signal: Cancellation token.
        environ: Environment variables.

    Raises:
        ConfigError: If the tool is unknown, or the settings are invalid.
    """
    cwd, settings = load_rules(place, environ=environ)
    [tool] = select_tools(builtin_tools(include_optional=True), [name])
    env = LocalEnv(cwd)
    try:
        permissions = build_permissions(settings, rules, cwd, mode="allow")
        return await _tools_actions_call(
            tool, arguments, env, permissions, tool_services(settings.home), signal or CancelToken()
        )
    finally:
        await env.aclose()


async def _tools_actions_call(
    tool: Tool, arguments: str, env: LocalEnv, permissions: Any, extra: dict[str, Any], signal: CancelToken
) -> ToolCallResult:
    agent = Agent(
        _SingleCallModel(tool.name, arguments),
        tools=[tool],
        execution=env,
        permissions=permissions,
        behavior=RunOptions(max_turns=1, retry=None),
        extra=extra,
        plugs=[Guardrails()],
    )
    end: ToolExecutionEnd | None = None
    async with agent.stream("call", signal=signal) as run:
        async for event in run:
            if isinstance(event, ToolExecutionEnd):
                end = event
    if end is None:  # stopped before the call
        await run.result()
        raise AgentError("The call was not made.")
    return _result(end)


def _result(end: ToolExecutionEnd) -> ToolCallResult:
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
    return ToolCallResult(
        name=end.call.name,
        output=output,
        title=end.title,
        metadata=metadata,
        is_error=result.is_error,
        code=code,
        seconds=round(end.seconds, 3),
    )


class _SingleCallModel:
    """A model that makes one call and returns nothing else."""

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


def run(options: argparse.Namespace) -> int:
    """List or call tools, and return the exit code.

    Raises:
        UsageError: If the name of the tool is missing.
    """
    if options.action == "call" and not options.name:
        raise UsageError(
            'tools call requires a NAME and arguments, for example: mainspring tools call read_file \'{"path": "a.txt"}\''
        )
    return run_command(
        options, lambda console: _list(options, console) if options.action == "list" else _run_call(options, console)
    )


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_tools()
    width = max(len(tool.name) for tool in found)
    rows = (f"{tool.name:{width}}  {tool.summary}" for tool in found)
    console.write_list(found, rows, as_json=options.json)
    return OK


def _run_call(options: argparse.Namespace, console: Console) -> int:
    arguments = StdinReader().text() if options.arguments == STDIN_MARK else options.arguments or ""
    signal = CancelToken()

    async def call() -> ToolCallResult:
        return await call_tool(options.name, arguments, workspace_options(options), permission_flags(options), signal)

    with GracefulShutdown(signal, lambda number: None) as interrupts:
        result = asyncio.run(call())
    console.data(msgspec.json.encode(result, enc_hook=str).decode())
    if interrupts.number:
        return 128 + interrupts.number
    if result.code == "PERMISSION_DENIED":
        return DENIED
    return ERROR if result.is_error else OK
