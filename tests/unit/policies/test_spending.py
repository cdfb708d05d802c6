"""Budgets of runs, sessions, and their subagents."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, Cost, Message, RunOptions, Usage, define_tool
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentBusyError, AgentProviderError, ErrorCode, ModelError
from mainspring.events import LimitWarning
from mainspring.loop import LiveSteps
from mainspring.loop.hooks import SideModelCall, TurnAfter, TurnBefore
from mainspring.models import ModelRequest
from mainspring.policies.budgets import Budget, Ledger
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.policies.harness import make_agent, requests


def reply(tokens: int = 10, cost: float | None = 0.1, *, call: bool = True) -> Reply:
    usage = Usage(output_tokens=tokens, cost=None if cost is None else Cost(output=cost))
    return Reply("" if call else "done", calls=(ScriptedCall("look"),) if call else (), usage=usage)


def make_look_tool(work: Callable[[], Any] | None = None) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        if work is not None:
            await work()
        return "seen"

    return define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})


def looking_agent(*replies: Reply, **options: Any) -> Agent:
    return make_agent(*(replies or [reply()] * 50), tools=[make_look_tool()], **options)


class FakeClock(LiveSteps):
    """A clock that advances one second per reading."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def elapsed(self) -> float:
        self.time += 1.0
        return self.time


@pytest.mark.covers("BYD-20", "SEC-11")
@pytest.mark.parametrize(
    ("budget", "status", "request_count"),
    [
        (Budget(max_turns=3), "max_turns", 3),
        (Budget(max_total_tokens=35), "max_total_tokens", 4),
        (Budget(max_cost=0.25), "max_cost", 3),
    ],
)
async def test_session_budget_stops_before_the_next_request(budget: Budget, status: str, request_count: int) -> None:
    agent = looking_agent(reply(), reply(call=False), *[reply()] * 50, session_budget=budget)

    assert (await agent.run("go")).status == "completed"
    stopped = await agent.run("go on")
    again = await agent.run("and on")

    assert stopped.status == again.status == status
    assert len(requests(agent)) == request_count
    assert again.turns == 0


@pytest.mark.covers("BYD-20")
async def test_session_budget_limits_the_time() -> None:
    agent = looking_agent(reply(), reply(call=False), session_budget=Budget(max_seconds=5), steps=FakeClock())

    await agent.run("go")
    assert (await agent.run("go on")).status == "max_seconds"


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize(
    ("limit", "status"),
    [({"max_turns": 4}, "max_turns"), ({"max_total_tokens": 100}, "max_total_tokens"), ({"max_cost": 1.0}, "max_cost")],
)
async def test_subagent_spending_counts_for_the_parent(limit: Any, status: str) -> None:
    children: list[Agent] = []

    async def spawn() -> None:
        child = looking_agent(*[reply(30, 0.3)] * 3, reply(30, 0.3, call=False), ledger=parent.ledger)
        children.append(child)
        await child.run("help")

    parent = make_agent(*[reply()] * 9, tools=[make_look_tool(spawn)], **limit)
    result = await parent.run("go")

    assert result.status == status
    assert len(requests(parent)) == 1
    assert len(children) == 1
    assert children[0].ledger.tokens == 120
    assert parent.ledger.tokens == 130
    assert parent.ledger.cost == pytest.approx(1.3)
    assert parent.ledger.turns == 5


@pytest.mark.covers("BYD-20")
async def test_subagent_spending_counts_while_it_runs() -> None:
    seen: list[tuple[int, int]] = []

    async def spawn() -> None:
        child = looking_agent(reply(), reply(), reply(call=False), ledger=parent.ledger)
        child.on(TurnAfter, lambda hook: seen.append((parent.ledger.tokens, child.ledger.tokens)))
        await child.run("help")

    parent = make_agent(reply(100), reply(call=False), tools=[make_look_tool(spawn)], max_cost=99)
    await parent.run("go")

    assert seen == [(110, 10), (120, 20), (130, 30)]


@pytest.mark.covers("BYD-20")
async def test_subagent_can_have_its_own_budget() -> None:
    async def spawn() -> None:
        child = looking_agent(ledger=parent.ledger, session_budget=Budget(max_turns=2))
        assert (await child.run("help")).status == "max_turns"

    parent = make_agent(reply(), reply(call=False), tools=[make_look_tool(spawn)])

    assert (await parent.run("go")).status == "completed"
    assert (parent.ledger.turns, parent.ledger.tokens) == (4, 40)


async def test_spending_is_recorded_without_limits() -> None:
    agent = looking_agent(reply(), reply(call=False), reply(5, None, call=False))

    await agent.run("go")
    await agent.run("go")

    assert (agent.ledger.tokens, agent.ledger.cost, agent.ledger.turns) == (25, pytest.approx(0.2), 3)
    assert agent.ledger.seconds > 0


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize("limit", [None, 9.0])
async def test_failed_call_is_counted(limit: float | None) -> None:
    broken = ModelError("down", partial=Message.assistant("I", usage=Usage(output_tokens=7, cost=Cost(output=0.5))))
    agent = make_agent(reply(), broken, tools=[make_look_tool()], max_cost=limit, retry=None)

    with pytest.raises(AgentProviderError):
        await agent.run("go")

    assert (agent.ledger.tokens, agent.ledger.cost) == (17, pytest.approx(0.6))


@pytest.mark.covers("BYD-20")
async def test_side_calls_cost_but_are_not_turns() -> None:
    async def ask(hook: TurnBefore) -> None:
        side: SideModelCall = hook.side_call
        if hook.turn == 1:
            await side("title", ModelRequest([Message.user("Name it.")]))

    agent = make_agent(reply(50, call=False), reply(call=False), tools=[make_look_tool()], max_turns=9)
    agent.on(TurnBefore, ask)
    await agent.run("go")

    assert (agent.ledger.tokens, agent.ledger.turns) == (60, 1)


@pytest.mark.covers("BYD-20")
async def test_resumed_conversation_counts_earlier_spending() -> None:
    first = looking_agent(reply(40), reply(call=False))
    await first.run("go")

    again = looking_agent(reply(call=False), messages=first.messages, session_budget=Budget(max_total_tokens=50))

    assert (await again.run("go on")).status == "max_total_tokens"
    assert requests(again) == []


@pytest.mark.covers("SEC-11", "BYD-20")
async def test_warning_fires_once_before_a_limit() -> None:
    warnings: list[tuple[Any, ...]] = []
    agent = looking_agent(max_total_tokens=100, session_budget=Budget(max_cost=20))
    agent.on("budget:warning", lambda w: warnings.append((w.scope, w.limit, w.spent, w.max)))

    result = await agent.run("go")

    assert result.status == "max_total_tokens"
    assert warnings == [("run", "max_total_tokens", 80, 100)]


async def test_warning_fires_at_exactly_the_share_of_a_cost_limit() -> None:
    warnings: list[Any] = []
    agent = looking_agent(*[reply(cost=0.04)] * 5, max_cost=0.1)
    agent.on("budget:warning", warnings.append)

    assert (await agent.run("go")).status == "max_cost"
    assert [w.spent for w in warnings] == [pytest.approx(0.08)]  # 0.1 * 0.8 is more than 0.08


@pytest.mark.parametrize(("warn_at", "count"), [(None, 0), (0.1, 2), (1.0, 0)])
async def test_warning_threshold_is_an_option(warn_at: Any, count: int) -> None:
    warnings: list[Any] = []
    agent = looking_agent(max_total_tokens=100, max_turns=10, warn_at=warn_at)
    agent.on("budget:warning", warnings.append)

    await agent.run("go")

    assert len(warnings) == count


@pytest.mark.covers("AGT-27")
async def test_run_limits_override_agent_limits() -> None:
    agent = looking_agent(reply(), reply(), reply(), reply(call=False), max_turns=1, session_budget=Budget(max_turns=1))

    result = await agent.run("go", behavior=RunOptions(max_turns=None, session_budget=None))

    assert result.status == "completed"


async def test_rejected_second_run_does_not_change_the_ledger() -> None:
    async def run_again() -> None:
        with pytest.raises(AgentBusyError):
            await agent.run("too")

    agent = make_agent(reply(), reply(), reply(call=False), tools=[make_look_tool(run_again)], max_total_tokens=20)

    assert (await agent.run("go")).status == "max_total_tokens"
    assert agent.ledger.tokens == 20


_entries = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 1000), st.floats(0, 10), st.integers(0, 3)), max_size=20
)


@given(_entries)
def test_spending_is_added_to_every_parent_ledger(entries: list[tuple[int, int, float, int]]) -> None:
    top = Ledger()
    left_ledger, right_ledger = Ledger(top), Ledger(top)
    low, lowest = Ledger(left_ledger), Ledger(None)
    ledgers = [top, left_ledger, right_ledger, low, lowest]
    for which, tokens, cost, turns in entries:
        ledgers[which].add(Usage(output_tokens=tokens, cost=Cost(output=cost)), turns=turns)

    def expected_total(*numbers: int) -> tuple[int, Any, int]:
        mine = [e for e in entries if e[0] in numbers]
        return sum(e[1] for e in mine), pytest.approx(sum(e[2] for e in mine)), sum(e[3] for e in mine)

    expected = [
        expected_total(0, 1, 2, 3),
        expected_total(1, 3),
        expected_total(2),
        expected_total(3),
        expected_total(4),
    ]
    assert [(x.tokens, x.cost, x.turns) for x in ledgers] == expected


def test_price_can_be_passed_explicitly() -> None:
    ledger = Ledger()

    ledger.add(Usage(input_tokens=3, output_tokens=4), 0.5)

    assert (ledger.tokens, ledger.cost, ledger.turns) == (7, 0.5, 1)


def test_spending_of_a_synchronous_run_is_counted() -> None:
    agent = Agent(ScriptedModel(reply(call=False)), execution=MemoryEnv({}), behavior=RunOptions(max_turns=1))

    assert agent.run_sync("go").status == "completed"
    assert agent.ledger.turns == 1


@pytest.mark.parametrize(
    ("limit", "status", "calls"),
    [
        (Budget(max_turns=3), "max_turns", 3),
        (Budget(max_total_tokens=35), "max_total_tokens", 4),
        (Budget(max_cost=0.25), "max_cost", 3),
    ],
)
async def test_ledger_limit_bounds_all_agents_that_share_it(limit: Budget, status: str, calls: int) -> None:
    shared = Ledger(limit=limit)
    agents = [make_agent(*[reply(call=False)] * 9, ledger=shared) for _ in range(2)]

    statuses = [(await agents[i % 2].run("go")).status for i in range(6)]

    assert statuses == ["completed"] * calls + [status] * (6 - calls)
    assert shared.turns == sum(len(requests(agent)) for agent in agents) == calls


async def run_in_parallel(shared: Ledger, count: int, message: Reply) -> list[str]:
    """Run agents that share a ledger, and let their model calls begin before any of them ends."""
    started, release = 0, anyio.Event()

    async def wait(hook: TurnBefore) -> None:
        nonlocal started
        if hook.stop is None:
            started += 1
            await release.wait()

    results: list[str] = []

    async def run() -> None:
        agent = make_agent(message, ledger=shared, tools=[make_look_tool()])
        agent.on(TurnBefore, wait, order=1000)
        results.append((await agent.run("x" * 400)).status)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        assert started + len(results) == count
        release.set()
    return results


async def test_parallel_runs_do_not_exceed_a_shared_limit_of_turns() -> None:
    shared = Ledger(limit=Budget(max_turns=7))

    results = await run_in_parallel(shared, 50, reply(call=False))

    assert shared.turns == 7
    assert (results.count("completed"), results.count("max_turns")) == (7, 43)


async def test_parallel_runs_reserve_their_prompts() -> None:
    shared = Ledger(limit=Budget(max_total_tokens=1000))

    results = await run_in_parallel(shared, 50, Reply("done", usage=Usage(100, 20)))

    assert results.count("completed") == 10, "each prompt has an estimated 100 tokens"
    assert shared.tokens == 1200


async def test_parallel_runs_reserve_the_average_cost_of_earlier_calls() -> None:
    shared = Ledger(limit=Budget(max_cost=1.0))
    shared.add(Usage(cost=Cost(output=0.2)), turns=1)

    results = await run_in_parallel(shared, 50, reply(cost=0.2, call=False))

    assert results.count("completed") == 4
    assert shared.cost == pytest.approx(1.0)


async def test_failed_and_aborted_calls_release_their_reservation() -> None:
    shared = Ledger(limit=Budget(max_total_tokens=1000))
    failing = make_agent(ModelError("bad", code=ErrorCode.UNKNOWN), ledger=shared)
    with pytest.raises(AgentProviderError):
        await failing.run("x" * 3000)
    hanging = Agent(ScriptedModel(Reply("never", delay=3600)), ledger=shared, execution=MemoryEnv({}))
    async with hanging.stream("x" * 3000):
        await anyio.wait_all_tasks_blocked()
    shared.tokens = 0  # an aborted call is charged; only what it reserved matters here

    assert (await run_in_parallel(shared, 9, Reply("done", usage=Usage(100)))).count("completed") == 9


async def test_shared_limit_bounds_subagents() -> None:
    shared = Ledger(limit=Budget(max_turns=3))
    spawn = Reply(calls=(ScriptedCall("spawn", {"task": "look"}),))
    agent = make_agent(spawn, reply(), reply(), reply(), tools=[make_look_tool()], subagents=True, ledger=shared)

    result = await agent.run("go")

    assert result.status == "max_turns"
    assert shared.turns == len(requests(agent)) == 3


async def test_both_limits_of_nested_ledgers_apply() -> None:
    company = Ledger(limit=Budget(max_turns=3))
    teams = [Ledger(company, limit=Budget(max_turns=2)) for _ in range(2)]
    agents = [make_agent(*[reply(call=False)] * 9, ledger=team) for team in teams]

    statuses = [(await agents[i].run("go")).status for i in (0, 0, 0, 1, 1)]

    assert statuses == ["completed", "completed", "max_turns", "completed", "max_turns"]
    assert [company.turns, *[team.turns for team in teams]] == [3, 2, 1]


async def test_shared_limit_of_seconds_counts_active_runs() -> None:
    shared = Ledger(limit=Budget(max_seconds=100))
    first = looking_agent(ledger=shared, steps=FakeClock())
    seen: list[float] = []
    first.on("turn:after", lambda hook: seen.append(shared.seconds))

    result = await first.run("go")

    assert result.status == "max_seconds"
    assert 0 < seen[0] < seen[-1] <= 110, "the run in progress is included"
    assert (await looking_agent(ledger=shared).run("go")).turns == 0


async def test_warning_names_the_ledger() -> None:
    warned: list[LimitWarning] = []
    agent = looking_agent(ledger=Ledger(limit=Budget(max_turns=5)), hooks={LimitWarning: warned.append})

    await agent.run("go")

    assert [(w.scope, w.limit, w.spent, w.max) for w in warned] == [("ledger", "max_turns", 4, 5)]


def test_threads_share_a_limit() -> None:
    shared = Ledger(limit=Budget(max_turns=60))

    def work(number: int) -> list[str]:
        agent = make_agent(*[reply(call=False)] * 20, ledger=shared)
        return [agent.run_sync("go").status for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        statuses = [status for each in pool.map(work, range(4)) for status in each]

    assert statuses.count("completed") == shared.turns == 60
