"""One conversation with parallel tools, a subagent, an MCP server, a retry, a denied call, and an abort."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, RateLimitedError
from mainspring.loop.hooks import ToolGate
from mainspring.mcp import McpPlug
from mainspring.messages import Cost, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.run_options import RunOptions
from mainspring.subagents import AgentDefinition
from mainspring.telemetry import Telemetry, Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("sky")

@server.tool()
def weather(city: str) -> str:
    "Tell the weather."
    return f"sunny in {city}"

server.run("stdio")
"""

USAGE = Usage(1200, 80, cache_read=400, reasoning_tokens=20, cost=Cost(0.0036, 0.0012, 0.0001))


@tool
async def look(key: str) -> str:
    """Look something up."""
    await asyncio.sleep(0.01)
    if key == "bad":
        raise FileNotFoundError("there is no bad")
    return f"value of {key}"


@tool
async def hang(ctx: ToolContext) -> str:
    """Wait forever."""
    ctx.extra["abort"]()
    await asyncio.Event().wait()
    return ""


def answer_as_subagent(request: ModelRequest) -> Any:
    return (
        Reply(calls=[ScriptedCall("look", {"key": "x"})], usage=USAGE)
        if len(request.messages) == 1
        else Reply("found", usage=USAGE)
    )


async def run_scenario(telemetry: Telemetry, folder: Path, script: Any = None) -> Agent:
    """Run the scenario: one run that completes, and one that is aborted."""
    script = script or [
        RateLimitedError("too many requests"),
        Reply(
            "Let me look.",
            thinking="Where to begin?",
            calls=[
                ScriptedCall("look", {"key": "a"}, "c1"),
                ScriptedCall("look", {"key": "bad"}, "c2"),
                ScriptedCall("look", {"key": "no"}, "c3"),
            ],
            usage=USAGE,
            chunk_count=5,
        ),
        Reply(
            calls=[
                ScriptedCall("spawn", {"task": "look around", "agent": "scout"}, "c4"),
                ScriptedCall("mcp__sky__weather", {"city": "Oslo"}, "c5"),
            ],
            usage=USAGE,
        ),
        Reply("It is sunny in Oslo.", usage=USAGE, chunk_count=8),
        Reply(calls=[ScriptedCall("hang", {}, "c6")], usage=USAGE),
    ]
    program = folder / "sky.py"
    program.write_text(SERVER)
    mcp = McpPlug({"mcpServers": {"sky": {"command": sys.executable, "args": [str(program)]}}}, startup_wait=30)
    agent = Agent(
        ScriptedModel(*script, provider="openai", model="gpt-5-mini"),
        name="assistant",
        system="Answer briefly.",
        execution=MemoryEnv(),
        tools=[look, hang],
        plugs=[Tracing(telemetry), mcp],
        subagents=[
            AgentDefinition(name="scout", description="Looks.", model=ScriptedModel(answer_as_subagent, loop=True))
        ],
        behavior=RunOptions(retry=RetryConfig(max_retries=2, base_delay_seconds=0.005, jitter=0.0)),
        extra={"abort": lambda: agent.abort()},
    )
    agent.on(ToolGate, lambda ctx: {"block": "not this one"} if ctx.input.get("key") == "no" else None)
    try:
        await agent.run("What is the weather in Oslo?")
        try:
            await agent.run("And now wait.")
        except AgentAbortedError:
            pass
    finally:
        await mcp.aclose()
    return agent
