"""Budgets of runs, sessions, and their subagents."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Agent, Cost, Message, RunOptions, Usage, define_tool
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentBusyError, AgentProviderError, ModelError
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
