"""Money, tokens, time and places of sub-agents, and how they are stopped."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError
from mainspring.loop import RunOptions
from mainspring.loop.hooks import ChildToolBefore
from mainspring.permissions import Permissions
from mainspring.subagents import SubagentRun
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from mainspring.tools.builtin import write_file
from tests.unit.subagents.harness import heard, kind, paid, parent, requests_of, results, spawn

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
async def test_what_children_spend_counts_in_their_parents_run() -> None:
    helper = kind("helper", paid("", 0.25, ScriptedCall("look", {"key": "a"})), paid("end", 0.25))
    one = parent(paid("", 0.5, spawn("go", "helper")), paid("done", 0.125), kinds=[helper], tools=[look])
    result = await one.run("go")
    assert result.cost is not None
    assert result.cost.total == 1.125
    assert result.usage.total_tokens == 40
    assert result.stats.side_usage["spawn"].total_tokens == 20
    assert result.stats.children[0].usage.total_tokens == 20
    assert (one.ledger.cost, one.ledger.tokens, one.ledger.turns) == (1.125, 40, 4)


@pytest.mark.covers("BYD-20", "SUB-02")
async def test_a_limit_of_the_parent_ends_its_children_before_their_next_request() -> None:
    spender = kind("spender", *[paid("", 0.4, ScriptedCall("look", {"key": "a"}))] * 9)
    one = parent(
        paid("", 0.1, spawn("go", "spender")), "never", kinds=[spender], tools=[look], behavior=RunOptions(max_cost=1.0)
    )
    result = await one.run("go")
    assert len(requests_of(spender)) == 3  # 0.1 + 3 * 0.4 is over the limit
    assert result.status == "max_cost"
    assert result.stats.children[0].status == "max_cost"
    assert "reached its limit of cost" in results(one)[0].text


@pytest.mark.covers("BYD-20")
async def test_a_limit_is_shared_by_children_side_by_side_and_on_all_levels() -> None:
    deep = kind("deep", *[paid("", 0.3, ScriptedCall("look", {"key": "a"}))] * 9)
    middle = kind("middle", paid("", 0.1, spawn("x", "deep"), spawn("y", "deep")), "never")
    one = parent(
        paid("", 0.1, spawn("go", "middle")), "never", kinds=[deep, middle], tools=[look], options={"depth": 2},
        behavior=RunOptions(max_cost=1.0),
    )  # fmt: skip
    result = await one.run("go")
    assert result.status == "max_cost"
    # 0.2 before, then 0.3 for each request of two children: nobody asks once 1.0 is reached
    assert len(requests_of(deep)) in (3, 4)
    assert len(requests_of(middle)) == 1


@pytest.mark.covers("SUB-02")
async def test_a_kind_may_have_tighter_limits_of_its_own() -> None:
    small = kind(
        "small", *[paid("part", 0.2, ScriptedCall("look", {"key": "a"}))] * 9, behavior=RunOptions(max_cost=0.3)
    )
    one = parent(
        paid("", 0.1, spawn("go", "small")), "done", kinds=[small], tools=[look], behavior=RunOptions(max_cost=9)
    )
    result = await one.run("go")
    assert (result.status, result.text, len(requests_of(small))) == ("completed", "done", 2)


@pytest.mark.covers("SUB-07")
async def test_three_run_at_once_and_the_rest_waits_its_turn() -> None:
    running = limit = 0
    order: list[str] = []

    @tool
    async def work(key: str) -> str:
        """Work."""
        nonlocal running, limit
        running += 1
        limit = max(limit, running)
        await asyncio.sleep(0.01)
        running -= 1
        order.append(key)
        return key

    script = [ScriptedCall("work", {"key": "k"}), *["end"]]
    kinds = [kind(f"k{i}", *script) for i in range(7)]
    one = parent([spawn("go", f"k{i}") for i in range(7)], "done", kinds=kinds, tools=[work])
    result = await one.run("go")
    assert limit == 3
    assert len(order) == 7
    assert [r.text for r in results(one)] == ["end"] * 7
    assert len(result.stats.children) == 7


@pytest.mark.covers("SUB-07")
async def test_a_run_starts_only_so_many_sub_agents_on_all_levels() -> None:
    swarm = kind("swarm", [spawn("more", "swarm")] * 4, *["end"] * 60)
    one = parent([spawn("a", "swarm"), spawn("b", "swarm")], "done", kinds=[swarm], options={"depth": 3, "limit": 5})
    result = await one.run("go")

    def total(stats: Any) -> int:
        return sum(1 + total(s.children) for s in stats)

    assert result.status == "completed"
    assert total(result.stats.children) <= 5


@pytest.mark.covers("BYD-03")
async def test_one_child_can_be_stopped_and_everybody_else_goes_on() -> None:
    slow, quick = kind("slow", ScriptedCall("hang"), "never"), kind("quick", "quick end")
    one = parent([spawn("a", "slow"), spawn("b", "quick")], "done", kinds=[slow, quick], tools=[hang])
    seen: list[tuple[str, str, bool]] = []

    def stop(_: Any) -> None:
        seen.extend((c.id, c.task, c.running) for c in one.children)
        next(c for c in one.children if c.name == "slow").abort("not needed")

    one.on("spawn:complete", stop)
    errors = heard(one, "spawn:error")
    result = await one.run("go", behavior=RunOptions(abort_grace=0.05))
    first, second = results(one)
    assert result.text == "done"
    assert "it was stopped" in first.text
    assert first.is_error
    assert second.text == "quick end"
    assert ("slow-1", "a", True) in seen
    assert [e.status for _, e in errors] == ["aborted"]
    assert one.children == ()


async def test_a_child_that_waits_for_its_turn_can_be_stopped_before_it_began() -> None:
    slow = kind("slow", ScriptedCall("look", {"key": "x"}), "end")
    never = kind("never")
    one = parent(
        [spawn("a", "slow"), spawn("b", "never")], "done", kinds=[slow, never], tools=[look], options={"concurrency": 1}
    )

    def stop(_: Any) -> None:
        waiting = [c for c in one.children if c.name == "never"]
        assert [c.running for c in waiting] == [False]
        waiting[0].abort()

    one.on("child:tool:gate", stop)
    await one.run("go")
    assert results(one)[0].text == "end"
    assert "stopped before it began" in results(one)[1].text
    assert requests_of(never) == []


@pytest.mark.covers("BYD-03")
async def test_an_abort_of_the_parent_ends_all_children_in_bounded_time() -> None:
    over = asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Ignore every request to stop."""
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return ""

    deep = kind("deep", paid("", 0.1, ScriptedCall("stubborn")), paid("", 0.1, ScriptedCall("stubborn")), "never")
    middle = kind("middle", paid("", 0.1, spawn("x", "deep")), "never")
    one = parent(
        [spawn("a", "middle"), spawn("b", "deep")], "never", kinds=[deep, middle], tools=[stubborn],
        options={"depth": 2}, behavior=RunOptions(abort_grace=0.1),
    )  # fmt: skip
    max_depth = asyncio.Event()
    one.on(ChildToolBefore, lambda hook: max_depth.set() if hook.depth == 2 else None)
    errors = heard(one, "spawn:error")
    run = asyncio.ensure_future(one.run("go"))
    await max_depth.wait()
    started = time.monotonic()
    one.abort("enough")
    with pytest.raises(AgentAbortedError):
        await run
    assert time.monotonic() - started < 2
    assert {h.status for _, h in errors} == {"aborted"}
    assert len(results(one)) == 2
    assert one.children == ()
    over.set()


async def test_figures_of_an_aborted_child_are_not_lost() -> None:
    helper = kind("helper", paid("", 0.25, ScriptedCall("hang")), "never")
    one = parent(paid("", 0.5, spawn("a", "helper")), "never", kinds=[helper], tools=[hang])
    one.on("child:tool:before", lambda hook: one.abort())
    result = await one.run("go", raise_errors=False, behavior=RunOptions(abort_grace=0.2))
    assert result.status == "aborted"
    assert result.stats.children[0].usage.total_tokens == 10
    assert one.ledger.cost == 0.75


async def test_cancelling_the_run_from_outside_ends_the_children() -> None:
    helper = kind("helper", ScriptedCall("hang"), "never")
    one = parent(spawn("a", "helper"), "never", kinds=[helper], tools=[hang], behavior=RunOptions(abort_grace=0.05))
    reached = asyncio.Event()
    one.on("child:tool:before", lambda hook: reached.set())
    children: list[SubagentRun] = []
    run = asyncio.ensure_future(one.run("go"))
    await reached.wait()
    children += one.children
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [c.running for c in children] == [False]


def test_an_agent_with_sub_agents_works_in_one_event_loop_after_another() -> None:
    model = ScriptedModel([spawn("a"), spawn("b")], "a end", "b end", "done", loop=True)
    one = Agent(model, execution=MemoryEnv({}), subagents=True)
    assert [one.run_sync("go").text for _ in range(3)] == ["done"] * 3


async def test_children_that_are_asked_for_at_the_same_moment_have_different_names() -> None:
    helper = kind("helper", *["end"] * 5)
    one = parent([spawn(str(i), "helper") for i in range(5)], "done", kinds=[helper])
    result = await one.run("go")
    assert len({s.child_id for s in result.stats.children}) == 5
    assert isinstance(one.model, ScriptedModel)
    assert Reply("").usage is None


async def test_children_side_by_side_may_all_ask_one_person() -> None:
    asked: list[str] = []

    async def ask(request: Any) -> bool:
        asked.append(request["resource"])
        await asyncio.sleep(0)
        return True

    kinds = [kind(f"k{i}", ScriptedCall("write_file", {"path": f"{i}.txt", "content": "x"}), "end") for i in range(3)]
    one = parent(
        [spawn("go", f"k{i}") for i in range(3)], "done", kinds=kinds, tools=[write_file],
        permissions=Permissions(on_permission_request=ask),
    )  # fmt: skip
    await one.run("go")
    assert len(asked) == 3
    assert [(await one.env.stat(f"{i}.txt")).size for i in range(3)] == [1, 1, 1]
