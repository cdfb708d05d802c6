"""Costs, tokens, time, and concurrency of subagents, and how to abort them."""

import asyncio
import contextlib
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.loop.hooks import ToolBefore
from mainspring.permissions import Permissions
from mainspring.run_options import RunOptions
from mainspring.subagents import SubagentRun
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from mainspring.tools.builtin import write_file
from tests.unit.subagents.harness import (
    make_definition,
    make_parent,
    make_reply,
    record_events,
    requests_of,
    results,
    spawn_call,
)

pytestmark = pytest.mark.usefixtures("no_blocking")


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def hang(ctx: ToolContext) -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


@pytest.mark.covers("SUB-03", "BYD-03", "BYD-20")
async def test_subagent_spending_is_added_to_the_run_of_the_parent() -> None:
    helper = make_definition(
        "helper", make_reply("", 0.25, ScriptedCall("look", {"key": "a"})), make_reply("end", 0.25)
    )
    agent = make_parent(
        make_reply("", 0.5, spawn_call("go", "helper")), make_reply("done", 0.125), kinds=[helper], tools=[look]
    )
    result = await agent.run("go")
    assert result.cost.total == 1.125
    assert result.usage.total_tokens == 40
    assert result.stats.side_usage["spawn"].total_tokens == 20
    assert result.stats.children[0].usage.total_tokens == 20
    assert (agent.ledger.cost, agent.ledger.tokens, agent.ledger.turns) == (1.125, 40, 4)


@pytest.mark.covers("BYD-20", "SUB-02")
async def test_limit_of_the_parent_stops_its_subagents() -> None:
    spender = make_definition("spender", *[make_reply("", 0.4, ScriptedCall("look", {"key": "a"}))] * 9)
    agent = make_parent(
        make_reply("", 0.1, spawn_call("go", "spender")),
        "never",
        kinds=[spender],
        tools=[look],
        behavior=RunOptions(max_cost=1.0),
    )
    result = await agent.run("go")
    assert len(requests_of(spender)) == 3  # 0.1 + 3 * 0.4 is over the limit
    assert result.status == "max_cost"
    assert result.stats.children[0].status == "max_cost"
    assert "reached its limit of cost" in results(agent)[0].text


@pytest.mark.covers("BYD-20")
async def test_limit_is_shared_by_parallel_and_nested_subagents() -> None:
    deep = make_definition("deep", *[make_reply("", 0.3, ScriptedCall("look", {"key": "a"}))] * 9)
    middle = make_definition("middle", make_reply("", 0.1, spawn_call("x", "deep"), spawn_call("y", "deep")), "never")
    agent = make_parent(
        make_reply("", 0.1, spawn_call("go", "middle")), "never", kinds=[deep, middle], tools=[look], options={"depth": 2},
        behavior=RunOptions(max_cost=1.0),
    )  # fmt: skip
    result = await agent.run("go")
    assert result.status == "max_cost"
    # 0.2 first, then 0.3 per request of two subagents: no request is sent above 1.0
    assert len(requests_of(deep)) in (3, 4)
    assert len(requests_of(middle)) == 1


@pytest.mark.covers("SUB-02")
async def test_subagent_can_have_tighter_limits() -> None:
    small = make_definition(
        "small", *[make_reply("part", 0.2, ScriptedCall("look", {"key": "a"}))] * 9, behavior=RunOptions(max_cost=0.3)
    )
    agent = make_parent(
        make_reply("", 0.1, spawn_call("go", "small")),
        "done",
        kinds=[small],
        tools=[look],
        behavior=RunOptions(max_cost=9),
    )
    result = await agent.run("go")
    assert (result.status, result.text, len(requests_of(small))) == ("completed", "done", 2)


@pytest.mark.covers("SUB-07")
async def test_three_subagents_run_at_the_same_time() -> None:
    running = limit = 0
    three = asyncio.Event()
    order: list[str] = []

    @tool
    async def work(key: str) -> str:
        """Work."""
        nonlocal running, limit
        running += 1
        limit = max(limit, running)
        if running == 3:
            three.set()
        await three.wait()
        await asyncio.sleep(0.01)
        running -= 1
        order.append(key)
        return key

    script = [ScriptedCall("work", {"key": "k"}), *["end"]]
    kinds = [make_definition(f"k{i}", *script) for i in range(7)]
    agent = make_parent([spawn_call("go", f"k{i}") for i in range(7)], "done", kinds=kinds, tools=[work])
    result = await agent.run("go")
    assert limit == 3
    assert len(order) == 7
    assert [r.text for r in results(agent)] == ["end"] * 7
    assert len(result.stats.children) == 7


@pytest.mark.covers("SUB-07")
async def test_number_of_subagents_per_run_is_limited() -> None:
    swarm = make_definition("swarm", [spawn_call("more", "swarm")] * 4, *["end"] * 60)
    agent = make_parent(
        [spawn_call("a", "swarm"), spawn_call("b", "swarm")], "done", kinds=[swarm], options={"depth": 3, "limit": 5}
    )
    result = await agent.run("go")

    def count_all(stats: Any) -> int:
        return sum(1 + count_all(s.children) for s in stats)

    assert result.status == "completed"
    assert count_all(result.stats.children) <= 5


@pytest.mark.covers("BYD-03")
async def test_one_subagent_can_be_aborted() -> None:
    slow, quick = make_definition("slow", ScriptedCall("hang"), "never"), make_definition("quick", "quick end")
    agent = make_parent([spawn_call("a", "slow"), spawn_call("b", "quick")], "done", kinds=[slow, quick], tools=[hang])
    seen: list[tuple[str, str, bool]] = []

    def abort_waiting(_: Any) -> None:
        seen.extend((c.id, c.task, c.running) for c in agent.children)
        next(c for c in agent.children if c.name == "slow").abort("not needed")

    agent.on("spawn:complete", abort_waiting)
    errors = record_events(agent, "spawn:error")
    result = await agent.run("go", behavior=RunOptions(abort_grace=0.05))
    first, second = results(agent)
    assert result.text == "done"
    assert "it was stopped" in first.text
    assert first.is_error
    assert second.text == "quick end"
    assert ("slow-1", "a", True) in seen
    assert [e.stats.status for _, e in errors] == ["aborted"]
    assert agent.children == ()


async def test_waiting_subagent_can_be_aborted_before_it_starts() -> None:
    slow = make_definition("slow", ScriptedCall("look", {"key": "x"}), "end")
    never = make_definition("never")
    agent = make_parent(
        [spawn_call("a", "slow"), spawn_call("b", "never")],
        "done",
        kinds=[slow, never],
        tools=[look],
        options={"concurrency": 1},
    )

    def abort_waiting(_: Any) -> None:
        waiting = [c for c in agent.children if c.name == "never"]
        assert [c.running for c in waiting] == [False]
        waiting[0].abort()

    agent.on("child:tool:gate", abort_waiting)
    await agent.run("go")
    assert results(agent)[0].text == "end"
    assert "stopped before it began" in results(agent)[1].text
    assert requests_of(never) == []


@pytest.mark.covers("BYD-03")
async def test_abort_of_the_parent_stops_all_subagents() -> None:
    finished = asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Ignore every request to stop."""
        while not finished.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await finished.wait()
        return ""

    deep = make_definition(
        "deep", make_reply("", 0.1, ScriptedCall("stubborn")), make_reply("", 0.1, ScriptedCall("stubborn")), "never"
    )
    middle = make_definition("middle", make_reply("", 0.1, spawn_call("x", "deep")), "never")
    agent = make_parent(
        [spawn_call("a", "middle"), spawn_call("b", "deep")], "never", kinds=[deep, middle], tools=[stubborn],
        options={"depth": 2}, behavior=RunOptions(abort_grace=0.1),
    )  # fmt: skip
    max_depth = asyncio.Event()
    agent.on(ToolBefore, lambda hook: max_depth.set() if hook.depth == 2 else None, subagents=True)
    errors = record_events(agent, "spawn:error")
    run = asyncio.ensure_future(agent.run("go"))
    await max_depth.wait()
    agent.abort("enough")
    with pytest.raises(AgentAbortedError):
        await run
    assert {e.stats.status for _, e in errors} == {"aborted"}
    assert len(results(agent)) == 2
    assert agent.children == ()
    finished.set()


async def test_usage_of_an_aborted_subagent_is_counted() -> None:
    helper = make_definition("helper", make_reply("", 0.25, ScriptedCall("hang")), "never")
    agent = make_parent(make_reply("", 0.5, spawn_call("a", "helper")), "never", kinds=[helper], tools=[hang])
    agent.on("child:tool:before", lambda hook: agent.abort())
    result = await agent.run("go", raise_errors=False, behavior=RunOptions(abort_grace=0.2))
    assert result.status == "aborted"
    assert result.stats.children[0].usage.total_tokens == 10
    assert agent.ledger.cost == 0.75


async def test_cancelling_the_run_stops_the_subagents() -> None:
    helper = make_definition("helper", ScriptedCall("hang"), "never")
    agent = make_parent(
        spawn_call("a", "helper"), "never", kinds=[helper], tools=[hang], behavior=RunOptions(abort_grace=0.05)
    )
    reached = asyncio.Event()
    agent.on("child:tool:before", lambda hook: reached.set())
    children: list[SubagentRun] = []
    run = asyncio.ensure_future(agent.run("go"))
    await reached.wait()
    children += agent.children
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [c.running for c in children] == [False]


def test_agent_with_subagents_works_in_consecutive_event_loops() -> None:
    model = ScriptedModel([spawn_call("a"), spawn_call("b")], "a end", "b end", "done", loop=True)
    agent = Agent(model, execution=MemoryEnv({}), subagents=True)
    assert [agent.run_sync("go").text for _ in range(3)] == ["done"] * 3


async def test_parallel_subagents_have_unique_ids() -> None:
    helper = make_definition("helper", *["end"] * 5)
    agent = make_parent([spawn_call(str(i), "helper") for i in range(5)], "done", kinds=[helper])
    result = await agent.run("go")
    assert len({s.child_id for s in result.stats.children}) == 5
    assert isinstance(agent.model, ScriptedModel)
    assert Reply("").usage is None


async def test_parallel_subagents_can_ask_for_approval() -> None:
    resources: list[str] = []

    async def ask(request: Any) -> bool:
        resources.append(request["resource"])
        await asyncio.sleep(0)
        return True

    kinds = [
        make_definition(f"k{i}", ScriptedCall("write_file", {"path": f"{i}.txt", "content": "x"}), "end")
        for i in range(3)
    ]
    agent = make_parent(
        [spawn_call("go", f"k{i}") for i in range(3)], "done", kinds=kinds, tools=[write_file],
        permissions=Permissions(on_permission_request=ask),
    )  # fmt: skip
    await agent.run("go")
    assert len(resources) == 3
    assert [(await agent.env.stat(f"{i}.txt")).size for i in range(3)] == [1, 1, 1]
