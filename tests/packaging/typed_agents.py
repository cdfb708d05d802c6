# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Typed agents, outputs, and dependencies: pyright and mypy report nothing in strict mode. It is checked, never run."""

import enum
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, assert_type

import msgspec

from mainspring import (
    Agent,
    Behavior,
    Handoff,
    LLMClient,
    RunContext,
    RunHandle,
    RunResult,
    ToolContext,
    ToolError,
    ToolGate,
    ToolResult,
    tool,
)
from mainspring.agent.as_tool import AgentTool
from mainspring.models import Success
from mainspring.testing import ScriptedModel
from mainspring.tools.toolset import Toolset


class Report(msgspec.Struct):
    """An output."""

    title: str
    pages: int


@dataclass
class Refusal:
    """Another output."""

    reason: str


class Row(TypedDict):
    """Plain data."""

    city: str


class Color(enum.Enum):
    """A choice."""

    RED = "red"


class Db:
    """Dependencies."""

    name = "main"


@tool
async def look(ctx: ToolContext[Db], key: str) -> str:
    """Look something up."""
    assert_type(ctx.deps, Db)
    if ctx.spawn is not None:
        typed = await ctx.spawn("Summarize.", output_type=Report, signal=ctx.signal)
        assert_type(typed.output, Report)
        plain = await ctx.spawn("Summarize.", "helper")
        assert_type(plain.text, str)
    return ctx.deps.name + key


@tool(name="find")
def find_sync(ctx: RunContext[Db], key: str) -> ToolResult[int]:
    """Find something, in a thread."""
    return ToolResult(output=ctx.deps.name + key)


@tool
async def add(first: int, second: int = 1) -> int:
    """Add numbers, without a context."""
    return first + second


@tool
async def describe(key: str, ctx: ToolContext) -> str:
    """Describe something, with a context of any agent."""
    return f"{ctx.env.cwd}{key}"


def plain(key: str, ctx: ToolContext[Db]) -> str:
    """Return the key."""
    return key


async def plain_with_context(ctx: ToolContext[Db], key: str) -> str:
    """Return the key."""
    return ctx.deps.name + key


def now() -> str:
    """Return the time."""
    return "12:00"


class Shelf:
    """Methods as tools."""

    async def put(self, ctx: ToolContext[Db], key: str) -> str:
        """Put something on the shelf."""
        return ctx.deps.name + key

    def count(self, key: str) -> int:
        """Count."""
        return len(key)


def to_report(pages: int) -> Report:
    """Write a report."""
    return Report("", pages)


async def fetch_report(ctx: RunContext[Db], pages: int) -> Report:
    """Fetch a report."""
    return Report(ctx.deps.name, pages)


def prompt(ctx: RunContext[Db]) -> str:
    """Return the system prompt."""
    return f"You work with {ctx.deps.name}."


async def async_prompt(ctx: RunContext[Db]) -> str:
    """Return the system prompt."""
    return prompt(ctx)


def use(*values: object) -> None:
    """Take any values."""


def check_none(agent: Agent) -> None:
    """Take an agent without dependencies."""


def check_any(agent: Agent[Any, Any]) -> None:
    """Take any agent."""


async def use_tools(model: ScriptedModel, db: Db) -> None:
    """Use tools for dependencies, and agents as tools."""
    agent = Agent(model, deps_type=Db, output_type=Report)
    shelf = Shelf()
    files = Toolset([look, add, plain_with_context]).prefix("f_").require_approval()
    every = Agent(
        model,
        deps_type=Db,
        tools=[
            look,
            find_sync,
            add,
            describe,
            plain,
            plain_with_context,
            now,
            partial(plain, "k"),
            files,
            Toolset([now]),
        ],
    )
    assert_type(every, Agent[Db, str])
    check_any(Agent(model, deps_type=Db, tools=[shelf.put, shelf.count, *files]))
    check_any(Agent(model, deps_type=Db, tools=files))
    check_none(Agent(model, tools=[add, describe, now, shelf.count]))
    use((await add(1)).value, (await look(ToolContext(env=agent.env, deps=db), "k")).value)
    assert_type(agent.as_tool("report"), AgentTool[Db, Report])
    assert_type((await agent.as_tool("report")("go")).value, Report)
    check_any(Agent(model, deps_type=Db, tools=[agent.as_tool("report"), Agent(model).as_tool("text")]))


async def main(model: ScriptedModel, db: Db, schema: dict[str, Any]) -> None:
    """Use typed agents."""
    text = Agent(model)
    assert_type(text, Agent[None, str])
    assert_type((await text.run("go")).output, str)
    assert_type(text.run_sync("go").output, str)

    agent = Agent(model, deps_type=Db, output_type=Report, system=prompt, tools=[look], behavior=Behavior(max_turns=3))
    assert_type(agent, Agent[Db, Report])
    result = await agent.run("go", deps=db, thinking="low")
    assert_type(result, RunResult[Report])
    assert_type(result.output.pages, int)
    assert_type(agent.run_sync("go", deps=db).output, Report)
    async with agent.stream("go", deps=db) as run:
        assert_type(run, RunHandle[Report])
        async for output in run.outputs():
            assert_type(output, Report)
        assert_type((await run.result()).output, Report)
    wider: Agent[Db, Report | Refusal] = agent
    check_any(wider)

    @agent.output_validator
    def check(ctx: RunContext[Db], output: Report) -> Report:
        if output.title == ctx.deps.name:
            raise ToolError("Choose another title.")
        return output

    @agent.output_validator
    async def check_more(output: Report) -> Report:
        return check(RunContext(env=agent.env, deps=db), output)

    @agent.on(ToolGate)
    async def gate(ctx: ToolGate) -> None:
        found: Db = ctx.deps
        await check_more(Report(found.name, 1))

    assert_type(Agent(model, deps_type=Db, system=async_prompt), Agent[Db, str])
    assert_type((await Agent(model, output_type=Report | Refusal).run("go")).output, Report | Refusal)
    assert_type((await Agent(model, output_type=list[Report]).run("go")).output, list[Report])
    assert_type((await Agent(model, output_type=Row).run("go")).output, Row)
    assert_type((await Agent(model, output_type=Color).run("go")).output, Color)
    choice = Agent(model, output_type=Literal["yes", "no"])
    assert_type((await choice.run("go")).output, Literal["yes", "no"])
    assert_type((await Agent(model, output_type=Annotated[int, msgspec.Meta(ge=1)]).run("go")).output, int)
    assert_type((await Agent(model, output_type=to_report).run("go")).output, Report)
    assert_type((await Agent(model, output_type=fetch_report, deps_type=Db).run("go", deps=db)).output, Report)
    several = Agent[None, Report | Refusal](model, output_type=[to_report, Refusal])
    assert_type((await several.run("go")).output, Report | Refusal)

    front = Agent[Db, Report | Refusal](model, deps_type=Db, output_type=Refusal, handoffs=[agent, Handoff(agent)])
    assert_type((await front.run("go", deps=db)).output, Report | Refusal)

    data = await Agent(model, output_type=schema).run("go")
    assert_type(data.output_as(Report), Report)
    assert_type(data.output_as(list[int]), list[int])
    assert_type(data.output_as(Report | Refusal), Report | Refusal)
    response = await LLMClient(model).structured("go", list[Report])
    if isinstance(response, Success):
        assert_type(response.result.value, list[Report] | None)

    for message in result.messages:  # any member of the union
        use(message.role, message.text, message.thinking, message.tool_calls, message.tool_results, message.usage)
    use([each.text for each in result.tool_results])
