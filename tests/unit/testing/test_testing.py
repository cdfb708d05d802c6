"""Test doubles for applications."""

import asyncio

import pytest

from mainspring import Agent, TextDelta, ToolContext, tool
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentProviderError, RateLimitedError
from mainspring.models import RetryConfig
from mainspring.run_options import RunOptions
from mainspring.testing import Reply, ScriptedCall, ScriptedModel

pytest_plugins = ["mainspring.testing.pytest_plugin"]


@tool
async def save(path: str, text: str, ctx: ToolContext) -> str:
    """Save a file."""
    await ctx.env.write_bytes(path, text.encode())
    return "saved"


@pytest.mark.covers("TST-04")
async def test_agent_runs_with_test_doubles_only() -> None:
    env = MemoryEnv({})
    model = ScriptedModel(ScriptedCall("save", {"path": "a.txt", "text": "hi"}), Reply("done", chunk_count=2))
    agent = Agent(model, tools=[save], execution=env)
    async with agent.stream("save it") as run:
        pieces = [e.text async for e in run if isinstance(e, TextDelta)]
        result = await run.result()
    assert ("".join(pieces), len(pieces), result.text) == ("done", 2, "done")
    assert await env.read_bytes("a.txt") == b"hi"
    assert [len(seen.messages) for seen in model.requests] == [1, 3]
    assert model.remaining == 0


@pytest.mark.covers("TST-04")
async def test_script_can_fail_truncate_and_delay() -> None:
    model = ScriptedModel(RateLimitedError("slow down"), Reply("half an answer", truncate_after=1, chunk_count=2))
    agent = Agent(
        model,
        execution=MemoryEnv({}),
        behavior=RunOptions(retry=RetryConfig(base_delay_seconds=0.001, jitter=0, mid_stream=False)),
    )
    with pytest.raises(AgentProviderError, match="cut"):
        await agent.run("go")
    assert len(model.requests) == 2
    slow = Agent(ScriptedModel(Reply("x", delay=3600)), execution=MemoryEnv({}))
    async with slow.stream("go") as run:
        await asyncio.sleep(0)
        run.abort()


@pytest.mark.covers("TST-04")
async def test_fixtures_create_agents(scripted_agent, memory_env) -> None:
    agent = scripted_agent("Hello")
    assert (await agent.run("Hi")).text == "Hello"
    assert agent.env is memory_env


def test_run_sync_works_repeatedly_and_raises_inside_a_loop() -> None:
    agent = Agent(ScriptedModel("one", "two"), execution=MemoryEnv({}))
    assert agent.run_sync("a").text == "one"
    assert agent.run_sync("b").text == "two"

    async def call_inside_loop() -> None:
        with pytest.raises(RuntimeError, match="await agent.run"):
            agent.run_sync("c")

    asyncio.run(call_inside_loop())
