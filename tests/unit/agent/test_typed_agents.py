"""Agents with dependencies and typed outputs."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Protocol, TypedDict

import jsonschema_rs  # loaded here, as it reads files
import msgspec
import pydantic
import pytest

from mainspring import (
    Agent,
    AgentDefinition,
    AgentOutputError,
    Behavior,
    ConfigError,
    RunContext,
    Subagents,
    ToolContext,
    ToolError,
    ToolGate,
    tool,
)
from mainspring.loop.hooks import BeforeRun, PromptSubmitted, TurnBefore
from mainspring.testing import Call, MemoryEnv, Reply, ScriptedModel

assert jsonschema_rs
pytestmark = pytest.mark.usefixtures("no_blocking")


class Report(msgspec.Struct):
    title: str
    pages: int = 0


@dataclass
class Refusal:
    reason: str


class Row(TypedDict):
    city: str


class Model(pydantic.BaseModel):
    city: str
    days: Annotated[int, pydantic.Field(ge=1)] = 1


class Color(enum.Enum):
    RED = "red"


@dataclass
class Db:
    name: str


def to_report(pages: int) -> Report:
    """Write a report."""
    return Report("made", pages)


async def fetch_report(ctx: RunContext[Db], pages: int) -> Report:
    """Fetch a report."""
    return Report(ctx.deps.name, pages)


def output(value: Any = None, **fields: Any) -> Call:
    return Call("__output__", fields if value is None else value)


def options(*script: Any, **more: Any) -> dict[str, Any]:
    return {"model": ScriptedModel(*script), "execution": MemoryEnv({}), **more}


# --- dependencies --------------------------------------------------------------------------------------------------------


async def test_every_function_of_a_run_sees_its_dependencies() -> None:
    seen: dict[str, Any] = {}

    @tool
    async def look(ctx: ToolContext[Db], key: str) -> str:
        """Look something up."""
        return f"{ctx.deps.name}: {key}"

    def prompt(ctx: RunContext[Db]) -> str:
        return f"You work with {ctx.deps.name}."

    model = ScriptedModel(Call("look", {"key": "a"}), output(title="x"), output(title="y"))
    agent = Agent(
        model, deps_type=Db, output_type=Report, system=prompt, tools=[look], execution=MemoryEnv({}), name="reporter"
    )
    for hook in (PromptSubmitted, BeforeRun, TurnBefore, ToolGate):
        agent.on(hook, lambda ctx: seen.update({type(ctx).__name__: ctx.deps}))

    @agent.output_validator
    def check(ctx: RunContext[Db], report: Report) -> Report:
        return Report(f"{report.title} of {ctx.deps.name} by {ctx.agent}", report.pages)

    first = await agent.run("go", deps=Db("one"))
    assert first.output == Report("x of one by reporter")
    assert first.tool_results[0].text == "one: a"
    assert seen == dict.fromkeys(["PromptSubmitted", "BeforeRun", "TurnBefore", "ToolGate"], Db("one"))
    second = await agent.run("go", deps=Db("two"))
    assert second.output.title == "y of two by reporter"
    assert [r.request.system for r in model.requests] == ["You work with one."] * 2 + ["You work with two."]


async def test_system_prompt_of_one_run_replaces_that_of_the_function() -> None:
    async def prompt(ctx: RunContext[None]) -> str:
        raise AssertionError("not needed")

    agent = Agent(**options("ok"), system=prompt)
    await agent.run("go", system="Be brief.")
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests[0].request.system == "Be brief."


async def test_missing_and_wrong_dependencies_say_what_to_do() -> None:
    class HasName(Protocol):
        name: str

    agent: Agent[Any, str] = Agent(**options("ok"), deps_type=Db)
    with pytest.raises(
        ConfigError, match=r"deps_type=Db, so every run needs .*agent\.run\(\.\.\., deps=Db\(\.\.\.\)\)"
    ):
        await agent.run("go")
    with pytest.raises(ConfigError, match="deps must be of the agent's deps_type, Db, not int"):
        agent.stream("go", deps=3)
    optional: Agent[Any, str] = Agent(**options("ok", "ok"), deps_type=Db | None)
    assert (await optional.run("go")).text == (await optional.run("go", deps=Db("x"))).text
    with pytest.raises(ConfigError, match="deps must be"):
        await optional.run("go", deps=3)
    structural: Agent[Any, str] = Agent(**options("ok"), deps_type=HasName)
    assert (await structural.run("go", deps=Db("x"))).text == "ok"


async def test_subagent_inherits_the_dependencies() -> None:
    seen: list[Any] = []

    @tool
    async def look(ctx: ToolContext[Db]) -> str:
        """Look."""
        seen.append(ctx.deps)
        if ctx.spawn is not None:
            await ctx.spawn("go", "helper", deps=Db("own"))
            return "spawned"
        return ctx.deps.name

    helper = AgentDefinition(name="helper", model=ScriptedModel(Call("look"), "a", Call("look"), "b"))
    model = ScriptedModel(Call("spawn", {"task": "go", "agent": "helper"}), Call("look"), "done")
    agent = Agent(model, deps_type=Db, tools=[look], subagents=[helper], execution=MemoryEnv({}))
    await agent.run("go", deps=Db("inherited"))
    assert seen == [Db("inherited"), Db("inherited"), Db("own")]


def test_type_parameters_have_defaults_at_run_time() -> None:
    assert Agent[Db] == Agent[Db, str]


# --- outputs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (Report, {"title": "x"}, Report("x")),
        (Refusal, {"reason": "no"}, Refusal("no")),
        (Row, {"city": "Oslo"}, {"city": "Oslo"}),
        (Model, {"city": "Oslo"}, Model(city="Oslo")),
        (Color, {"output": "red"}, Color.RED),
        (Literal["yes", "no"], {"output": "no"}, "no"),
        (list[Report], {"output": [{"title": "x"}]}, [Report("x")]),
        (int, {"output": 3}, 3),
        (Annotated[int, msgspec.Meta(ge=1)], {"output": 3}, 3),
        (Report | Refusal, {"output": {"reason": "no"}}, Refusal("no")),
        (Model | Row, {"output": {"city": "Oslo"}}, Model(city="Oslo")),
        (Report | None, {"output": None}, None),
        ([Report, Refusal], {"output": {"title": "x"}}, Report("x")),
        (to_report, {"pages": 3}, Report("made", 3)),
        (fetch_report, {"pages": 3}, Report("main", 3)),
        ([to_report, Refusal], {"output": {"pages": 3}}, Report("made", 3)),
        ([to_report, Refusal], {"output": {"reason": "no"}}, Refusal("no")),
        ({"type": "object", "properties": {"a": {}}}, {"a": 1}, {"a": 1}),
    ],
)
async def test_output_is_of_its_type(kind: Any, data: Any, expected: Any) -> None:
    result = await Agent[Any, Any](**options(output(data)), output_type=kind).run("go", deps=Db("main"))
    assert result.output == expected
    assert type(result.output) is type(expected)


@pytest.mark.parametrize("kind", [Report, Row, Model, Color, Literal["red"], list[int], Report | Refusal, int | None])
async def test_invalid_output_is_returned_and_then_missing(kind: Any) -> None:
    agent = Agent[Any, Any](**options(*[output({"output": {"x": [3]}})] * 2), output_type=kind)
    result = await agent.run("go", behavior=Behavior(max_output_retries=1), raise_errors=False)
    assert (result.status, result.output_or_none) == ("no_output", None)
    assert len(result.tool_results) == 2
    assert "Not taken: " in result.tool_results[0].text


def test_output_type_and_schema_of_the_behavior_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="either output_type of the agent or schema of its behavior"):
        Agent(**options(), output_type=Report, behavior=Behavior(schema=Report))


@pytest.mark.parametrize("kind", [complex, [], {"type": "objekt"}, Report | complex])
def test_invalid_output_type_is_an_error_of_the_new_agent(kind: Any) -> None:
    with pytest.raises(ConfigError, match="output (type|schema) cannot be used|list of output types is empty"):
        Agent[Any, Any](**options(), output_type=kind)


async def test_runs_share_the_compiled_output_schema() -> None:
    agent = Agent(**options(output(title="x"), output(title="y"), "text"), output_type=Report)
    await agent.run("go")
    await agent.run("go")
    assert isinstance(agent.model, ScriptedModel)
    first, second = [request.request.tools[-1].input_schema for request in agent.model.requests]
    assert first is second


@pytest.mark.parametrize("script", [["It is fine."], [output({"output": "It is fine."})]])
async def test_text_can_be_one_of_several_outputs(script: Any) -> None:
    assert (await Agent[None, Any](**options(*script), output_type=[Report, str]).run("go")).output == "It is fine."
    typed = Agent[None, Any](**options('{"title": "x"}'), output_type=[Report, str])
    assert (await typed.run("go")).output == Report("x")


async def test_rejected_output_is_sent_back() -> None:
    agent = Agent(
        **options(output(title="a"), output(title="b"), '{"title": "a"}', output(title="c")), output_type=Report
    )

    @agent.output_validator
    async def check(report: Report) -> Report:
        if report.title == "a":
            raise ToolError("the title is taken")
        return Report(report.title.upper())

    first = await agent.run("go")
    assert first.output == Report("B")
    assert first.tool_results[0].text == "Not taken: the title is taken\nCall __output__ again."
    second = await agent.run("go")
    assert second.output == Report("C")
    assert second.messages[2].text == "Not taken: the title is taken\nAnswer again, in the same form."


async def test_output_function_can_reject_its_arguments() -> None:
    def divide(by: int) -> float:
        """Divide."""
        if by == 0:
            raise ToolError("by must not be 0")
        return 6 / by

    agent = Agent(**options(output(by=0), output(by=4)), output_type=divide)
    result = await agent.run("go")
    assert result.output == 1.5
    assert "by must not be 0" in result.tool_results[0].text


async def test_text_can_be_validated() -> None:
    agent = Agent(**options("short", "long enough"))

    @agent.output_validator
    def check(text: str) -> str:
        if len(text) < 6:
            raise ToolError("too short")
        return text.title()

    result = await agent.run("go")
    assert (result.output, result.messages[2].text) == (
        "Long Enough",
        "Not taken: too short\nAnswer again, in the same form.",
    )


async def test_bug_in_a_validator_ends_the_run_without_another_attempt() -> None:
    agent = Agent(**options(output(title="a"), output(title="b")), output_type=Report)

    @agent.output_validator
    def check(report: Report) -> Report:
        return {"secret": report}[report.title]

    with pytest.raises(AgentOutputError, match="could not be checked: KeyError: 'a'") as raised:
        await agent.run("go")
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.outcome is not None
    assert raised.value.outcome.turns == 1
    assert "KeyError" not in raised.value.outcome.messages[-1].tool_results[0].text


@pytest.mark.parametrize("validator", [lambda: None, lambda a, b, c: None], ids=["none", "three"])
def test_validator_with_other_parameters_is_refused(validator: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="takes the output, or the context and the output"):
        Agent(**options()).output_validator(validator)


# --- partial outputs -----------------------------------------------------------------------------------------------------


class Plan(msgspec.Struct):
    title: str = ""
    days: list[Report] = []
    count: int = 0


PLAN = {"title": "North", "days": [{"title": "Oslo", "pages": 12}, {"title": "Bergen", "pages": 345}], "count": 1234}


@pytest.mark.parametrize("is_call", [True, False])
async def test_output_grows_while_it_streams(is_call: bool) -> None:
    text = msgspec.json.encode(PLAN).decode()
    reply = Reply(calls=(output(PLAN),), chunk_count=60) if is_call else Reply(text, chunk_count=60)
    async with Agent(**options(reply), output_type=Plan).stream("go") as run:
        outputs = [found async for found in run.outputs()]
    final = msgspec.convert(PLAN, Plan)
    assert outputs[-1] == final
    assert len(outputs) > 12
    assert all(first != second for first, second in pairwise(outputs[:-1]))
    for found in outputs:
        assert final.title.startswith(found.title)
        assert found.count in (0, 1234)
        for day, expected in zip(found.days, final.days, strict=False):
            assert expected.title.startswith(day.title)
            assert day.pages in (0, expected.pages)
    assert {len(found.days) for found in outputs} == {0, 1, 2}


async def test_partial_text_grows_and_the_failure_is_raised_last() -> None:
    async with Agent(**options(Reply("one two three", chunk_count=3))).stream("go") as run:
        assert [found async for found in run.outputs()][-2:] == ["one two three"] * 2
    agent = Agent(**options("no"), output_type=Report, behavior=Behavior(max_output_retries=0))
    async with agent.stream("go") as run:
        with pytest.raises(AgentOutputError):
            [found async for found in run.outputs()]


async def test_arguments_of_an_output_function_are_not_partial_outputs() -> None:
    async with Agent(**options(Reply(calls=(output(pages=12),), chunk_count=5)), output_type=to_report).stream(
        "go"
    ) as run:
        assert [found async for found in run.outputs()] == [Report("made", 12)]


# --- subagents -----------------------------------------------------------------------------------------------------------


async def test_output_of_a_subagent_reaches_its_parent() -> None:
    outputs: list[Any] = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        assert ctx.spawn is not None
        typed = await ctx.spawn("go", "any", output_type=Report)
        plain = await ctx.spawn("go", "writer")
        outputs.extend([typed.output, plain.output])
        return "asked"

    kinds = [
        AgentDefinition(name="helper", model=ScriptedModel(output(title="x")), behavior=Behavior(schema=Report)),
        AgentDefinition(name="any", model=ScriptedModel(output(title="y"))),
        AgentDefinition(name="writer", model=ScriptedModel("text")),
    ]
    model = ScriptedModel(Call("spawn", {"task": "go", "agent": "helper"}), Call("ask"), "done")
    agent = Agent(model, tools=[ask], subagents=Subagents(kinds), execution=MemoryEnv({}))
    result = await agent.run("go")
    assert result.tool_results[0].text == '{"title":"x","pages":0}'
    assert not result.tool_results[0].is_error
    assert outputs == [Report("y"), "text"]


# --- results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Report, Report("x", 3)),
        (Model, None),
        (dict[str, Any], {"title": "x", "pages": 3}),
        (Report | Refusal, Report("x", 3)),
        (Row, None),
        (list[int], None),
    ],
)
async def test_output_can_be_read_as_any_type_that_it_fits(kind: Any, expected: Any) -> None:
    result = await Agent(**options(output(title="x", pages=3)), output_type={"type": "object"}).run("go")
    if expected is None:
        with pytest.raises(Exception, match="does not fit"):
            result.output_as(kind)
    else:
        assert result.output_as(kind) == expected
