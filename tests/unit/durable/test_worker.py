"""Durable agents as an application uses them: misuse is reported, and the result of a run is readable."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import Agent, ToolContext, tool
from mainspring.durable import DurableClient, DurableWorker, Factory, MemoryEngine
from mainspring.durable.steps import DurableSteps
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentOutputError, AuthenticationError, ConfigError, DurableError
from mainspring.run_options import RunOptions
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool


def make_agent(steps: DurableSteps) -> Agent:
    return Agent(ScriptedModel(AuthenticationError("the key is wrong")), execution=MemoryEnv({}), steps=steps)


async def test_timeout_explains_that_the_worker_was_not_entered() -> None:
    agents = DurableWorker(MemoryEngine(), {"one": make_agent})
    run = await agents.start("one", "go")
    with pytest.raises(
        TimeoutError, match=r"is not finished after 0.01s. It is waiting: no worker.*only inside `async with`"
    ):
        await run.result(timeout=0.01)


async def test_finished_run_reports_its_error() -> None:
    async with DurableWorker(MemoryEngine(), {"one": make_agent}) as agents:
        run = await agents.start("one", "go")
        assert (await run.result()).status == "error"
        info = await run.info()
    assert (info.state, info.error) == ("done", "AgentProviderError: the key is wrong")


async def test_missing_output_is_the_error_of_a_durable_run() -> None:
    def make(steps: DurableSteps) -> Agent:
        options = RunOptions(schema={"type": "object"}, max_output_retries=0)
        return Agent(ScriptedModel("words"), execution=MemoryEnv({}), steps=steps, behavior=options)

    async with DurableWorker(MemoryEngine(), {"one": make}) as agents:
        run = await agents.start("one", "go")
        result = await run.result()
        info = await run.info()
    assert (result.status, result.output_or_none, result.text) == ("no_output", None, "words")
    assert isinstance(result.error, AgentOutputError)
    assert "in 1 attempt" in result.output_error
    assert info.error.startswith("AgentOutputError: The model stopped without the requested output")


@pytest.mark.parametrize("prompt", ["", "  ", []])
async def test_empty_prompt_is_rejected(prompt: str) -> None:
    runs = DurableClient(MemoryEngine())
    with pytest.raises(DurableError, match="The prompt is empty.|Nothing to run"):
        await runs.start("one", prompt)
    assert await runs.list() == []


async def test_result_names_the_agent_that_answered() -> None:
    def make(steps: DurableSteps) -> Agent:
        billing = Agent(ScriptedModel("Paid."), name="billing")
        model = ScriptedModel(ScriptedCall("transfer_to_billing"))
        return Agent(model, name="front", handoffs=[billing], execution=MemoryEnv({}), steps=steps)

    async with DurableWorker(MemoryEngine(), {"front": make}) as agents:
        result = await (await agents.start("front", "go")).result()
    assert (result.text, result.agent) == ("Paid.", "billing")


def test_agent_in_place_of_its_factory_is_an_error() -> None:
    agents: Any = {"one": Agent(ScriptedModel("x"), execution=MemoryEnv({}))}
    with pytest.raises(ConfigError, match="'one' of a DurableWorker must be a function that creates it"):
        DurableWorker(MemoryEngine(), agents)


@dataclass
class Shop:
    name: str


@tool
async def name_shop(ctx: ToolContext[Shop]) -> str:
    """Name the shop."""
    return ctx.deps.name


async def test_factory_provides_the_dependencies_of_the_runs() -> None:
    def make(steps: DurableSteps) -> Agent[Shop]:
        script = ScriptedModel(ScriptedCall("name_shop"), "Done.")
        return Agent(script, deps_type=Shop, tools=[name_shop], execution=MemoryEnv({}), steps=steps)

    @asynccontextmanager
    async def opened(steps: DurableSteps) -> AsyncGenerator[tuple[Agent[Shop], Shop]]:
        yield make(steps), Shop("opened")

    agents: dict[str, Factory] = {"plain": lambda steps: (make(steps), Shop("plain")), "opened": opened, "none": make}
    async with DurableWorker(MemoryEngine(), agents) as worker:
        for name in ("plain", "opened"):
            result = await (await worker.start(name, "go")).result()
            assert [r.text for r in result.tool_results] == [name]
        with pytest.raises(DurableError, match="deps"):
            await (await worker.start("none", "go")).result()


async def test_resumed_run_repeats_only_idempotent_calls_of_the_agent_that_answers() -> None:
    """Both agents have tools with the same names; those of the answering agent decide what is repeated."""
    calls: list[str] = []
    started = asyncio.Event()

    def make_tools(agent: str, *, repeatable: str) -> list[Tool]:
        def make(name: str) -> Tool:
            async def run() -> str:
                calls.append(f"{agent}.{name}")
                if len(calls) < 3:
                    if len(calls) == 2:
                        started.set()
                    await asyncio.Event().wait()
                return "done"

            return tool(name=name, description="Work.", idempotent=name == repeatable)(run)

        return [make("first"), make("second")]

    def make(steps: DurableSteps) -> Agent:
        billing = Agent(billing_model, name="billing", tools=make_tools("billing", repeatable="second"))
        tools = make_tools("front", repeatable="first")
        return Agent(front_model, name="front", tools=tools, handoffs=[billing], execution=MemoryEnv({}), steps=steps)

    front_model = ScriptedModel(ScriptedCall("transfer_to_billing"))
    billing_model = ScriptedModel([ScriptedCall("first"), ScriptedCall("second")], "Done.")
    engine = MemoryEngine()
    async with DurableWorker(engine, {"front": make}) as worker:
        run = await worker.start("front", "go")
        await started.wait()
    async with DurableWorker(engine, {"front": make}) as worker:
        result = await run.result(timeout=120)

    assert calls == ["billing.first", "billing.second", "billing.second"]
    first, second = result.tool_results[1:]
    assert "unknown" in first.text
    assert second.text == "done"
    assert (result.text, result.agent) == ("Done.", "billing")
