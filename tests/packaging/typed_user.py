# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""A user's program in pyright's strict mode: no type in it is unknown. It is checked, never run."""

from dataclasses import dataclass
from typing import assert_type

from mainspring import (
    Agent,
    AgentError,
    AgentProviderError,
    AgentStats,
    McpServerConfig,
    ModelError,
    Permissions,
    RunOptions,
    RunResult,
    Session,
    TextDelta,
    ToolContext,
    ToolGate,
    ToolResult,
    create_agent,
    tool,
)
from mainspring.env.memory import MemoryEnv
from mainspring.events.base import SubagentStats


@dataclass
class Trip:
    """The requested output."""

    city: str
    days: int


@tool
async def forecast(city: str, ctx: ToolContext) -> str:
    """Forecast for a city."""
    return f"{city}: {ctx.env.cwd}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def gate(ctx: ToolGate) -> None:
    """Block the shell."""
    if ctx.name == "shell":
        ctx.block = "not today"


async def main() -> None:
    """Use the public API."""
    assert_type(await forecast(ToolContext(env=MemoryEnv()), "Oslo"), ToolResult)
    with Session.create() as session:
        agent = Agent(
            "openai:gpt-5-mini",
            system="Be brief.",
            tools=[forecast, add],
            session=session,
            permissions=Permissions(deny=["shell(rm *)"], ask_timeout=5.0),
            mcp_servers={"files": {"command": "files"}},
            extra={"who": 1},
            eager=False,
        )
        agent.on(ToolGate, gate)
        result = await agent.run("go", behavior=RunOptions(schema=Trip), thinking="low", raise_errors=False)
        assert_type(result, RunResult[str])
        assert_type(result.output_as(Trip), Trip)
        assert_type(result.stats.children, tuple[SubagentStats, ...])
        async with agent.stream("go", system="Be long.") as run:
            async for event in run:
                match event:
                    case TextDelta(text=text):
                        assert_type(text, str)
                    case _:
                        pass
        try:
            agent.run_sync("go")
        except AgentProviderError as error:
            assert_type(error.cause, ModelError | None)
        except AgentError as error:
            if error.outcome is not None:
                stats: AgentStats = error.outcome.stats
                print(stats)
    assert_type(create_agent("openai:gpt-5-mini", mcp_servers=[McpServerConfig(name="x", command="y")]), Agent)
