"""What a run, a conversation and everybody below may spend."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Agent, Cost, Message, RunOptions, Usage, define_tool
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentBusyError, AgentProviderError, ModelError
from mainspring.loop import LiveSteps
from mainspring.loop.hooks import BudgetWarning, SideModelCall, TurnAfter, TurnBefore
from mainspring.loop.option_types import Budget
from mainspring.models import ModelRequest
from mainspring.policies.budgets import Ledger
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.policies.harness import agent, requests


def reply(tokens: int = 10, cost: float | None = 0.1, *, call: bool = True) -> Reply:
    usage = Usage(output_tokens=tokens, cost=None if cost is None else Cost(output=cost))
    return Reply("" if call else "done", calls=(ScriptedCall("look"),) if call else (), usage=usage)


def look(work: Callable[[], Any] | None = None) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        if work is not None:
            await work()
        return "seen"

    return define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})


def looking(*replies: Reply, **options: Any) -> Agent:
    return agent(*(replies or [reply()] * 50), tools=[look()], **options)


class Clock(LiveSteps):
    """Time that passes with each look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def elapsed(self) -> float:
        self.time += 1.0
        return self.time


@pytest.mark.covers("BYD-20", "SEC-11")
@pytest.mark.parametrize(
    ("budget", "status", "made"),
    [
        (Budget(max_turns=3), "max_turns", 3),
        (Budget(max_total_tokens=35), "max_tokens", 4),
        (Budget(max_cost=0.25), "max_cost", 3),
    ],
)
async def test_a_conversation_stops_before_the_request_that_is_too_much(budget: Budget, status: str, made: int) -> None:
    run = looking(reply(), reply(call=False), *[reply()] * 50, session_budget=budget)

    assert (await run.run("go")).status == "completed"
    stopped = await run.run("go on")
    again = await run.run("and on")

    assert stopped.status == again.status == status
    assert len(requests(run)) == made
    assert again.turns == 0


@pytest.mark.covers("BYD-20")
async def test_a_conversation_may_last_so_long() -> None:
    run = looking(reply(), reply(call=False), session_budget=Budget(max_seconds=5), steps=Clock())

    await run.run("go")
    assert (await run.run("go on")).status == "max_seconds"


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize(
    ("limit", "status"),
    [({"max_turns": 4}, "max_turns"), ({"max_total_tokens": 100}, "max_tokens"), ({"max_cost": 1.0}, "max_cost")],
)
async def test_what_sub_agents_spend_counts_for_the_run_and_everybody_above(limit: Any, status: str) -> None:
    made: list[Agent] = []

    async def spawn() -> None:
        child = looking(*[reply(30, 0.3)] * 3, reply(30, 0.3, call=False), ledger=parent.ledger)
        made.append(child)
        await child.run("help")

    parent = agent(*[reply()] * 9, tools=[look(spawn)], **limit)
    result = await parent.run("go")

    assert result.status == status
    assert len(requests(parent)) == 1
    assert len(made) == 1
    assert made[0].ledger.tokens == 120
    assert parent.ledger.tokens == 130
    assert parent.ledger.cost == pytest.approx(1.3)
    assert parent.ledger.turns == 5


@pytest.mark.covers("BYD-20")
async def test_sub_agents_count_while_they_run() -> None:
    seen: list[tuple[int, int]] = []

    async def spawn() -> None:
        child = looking(reply(), reply(), reply(call=False), ledger=parent.ledger)
        child.on(TurnAfter, lambda hook: seen.append((parent.ledger.tokens, child.ledger.tokens)))
        await child.run("help")

    parent = agent(reply(100), reply(call=False), tools=[look(spawn)], max_cost=99)
    await parent.run("go")

    assert seen == [(110, 10), (120, 20), (130, 30)]


@pytest.mark.covers("BYD-20")
async def test_a_sub_agent_may_have_a_budget_of_its_own() -> None:
    async def spawn() -> None:
        child = looking(ledger=parent.ledger, session_budget=Budget(max_turns=2))
        assert (await child.run("help")).status == "max_turns"

    parent = agent(reply(), reply(call=False), tools=[look(spawn)])

    assert (await parent.run("go")).status == "completed"
    assert (parent.ledger.turns, parent.ledger.tokens) == (4, 40)


async def test_what_was_spent_is_known_without_any_limit() -> None:
    run = looking(reply(), reply(call=False), reply(5, None, call=False))

    await run.run("go")
    await run.run("go")

    assert (run.ledger.tokens, run.ledger.cost, run.ledger.turns) == (25, pytest.approx(0.2), 3)
    assert run.ledger.seconds > 0


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize("limit", [None, 9.0])
async def test_a_call_that_breaks_off_is_paid_for_too(limit: float | None) -> None:
    broken = ModelError("down", partial=Message.assistant("I", usage=Usage(output_tokens=7, cost=Cost(output=0.5))))
    run = agent(reply(), broken, tools=[look()], max_cost=limit, retry=None)

    with pytest.raises(AgentProviderError):
        await run.run("go")

    assert (run.ledger.tokens, run.ledger.cost) == (17, pytest.approx(0.6))


@pytest.mark.covers("BYD-20")
async def test_calls_beside_the_conversation_cost_but_are_no_turns() -> None:
    async def ask(hook: TurnBefore) -> None:
        side: SideModelCall = hook.side_call
        if hook.turn == 1:
            await side("title", ModelRequest([Message.user("Name it.")]))

    run = agent(reply(50, call=False), reply(call=False), tools=[look()], max_turns=9)
    run.on(TurnBefore, ask)
    await run.run("go")

    assert (run.ledger.tokens, run.ledger.turns) == (60, 1)


@pytest.mark.covers("BYD-20")
async def test_what_a_stored_conversation_cost_counts_when_it_is_taken_up() -> None:
    first = looking(reply(40), reply(call=False))
    await first.run("go")

    again = looking(reply(call=False), messages=first.messages, session_budget=Budget(max_total_tokens=50))

    assert (await again.run("go on")).status == "max_tokens"
    assert requests(again) == []


@pytest.mark.covers("SEC-11", "BYD-20")
async def test_a_warning_comes_once_before_a_limit_is_reached() -> None:
    told: list[tuple[Any, ...]] = []
    run = looking(max_total_tokens=100, session_budget=Budget(max_cost=20))
    run.on(BudgetWarning, lambda h: told.append((h.scope, h.status, h.spent, h.limit)))

    result = await run.run("go")

    assert result.status == "max_tokens"
    assert told == [("run", "max_tokens", 80, 100)]


@pytest.mark.parametrize(("warn_at", "count"), [(None, 0), (0.1, 2), (1.0, 0)])
async def test_when_to_warn_is_an_option(warn_at: Any, count: int) -> None:
    told: list[Any] = []
    run = looking(max_total_tokens=100, max_turns=10, warn_at=warn_at)
    run.on(BudgetWarning, told.append)

    await run.run("go")

    assert len(told) == count


@pytest.mark.covers("AGT-27")
async def test_a_run_may_have_other_limits_than_its_agent() -> None:
    run = looking(reply(), reply(), reply(), reply(call=False), max_turns=1, session_budget=Budget(max_turns=1))

    result = await run.run("go", behavior=RunOptions(max_turns=None, session_budget=None))

    assert result.status == "completed"


async def test_a_second_run_disturbs_nothing() -> None:
    async def again() -> None:
        with pytest.raises(AgentBusyError):
            await run.run("too")

    run = agent(reply(), reply(), reply(call=False), tools=[look(again)], max_total_tokens=20)

    assert (await run.run("go")).status == "max_tokens"
    assert run.ledger.tokens == 20


_entries = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 1000), st.floats(0, 10), st.integers(0, 3)), max_size=20
)


@given(_entries)
def test_everything_counts_all_the_way_up_and_nowhere_else(entries: list[tuple[int, int, float, int]]) -> None:
    top = Ledger()
    left, right = Ledger(top), Ledger(top)
    low, lowest = Ledger(left), Ledger(None)
    ledgers = [top, left, right, low, lowest]
    for which, tokens, cost, turns in entries:
        ledgers[which].add(Usage(output_tokens=tokens, cost=Cost(output=cost)), turns=turns)

    def own(*numbers: int) -> tuple[int, Any, int]:
        mine = [e for e in entries if e[0] in numbers]
        return sum(e[1] for e in mine), pytest.approx(sum(e[2] for e in mine)), sum(e[3] for e in mine)

    expected = [own(0, 1, 2, 3), own(1, 3), own(2), own(3), own(4)]
    assert [(x.tokens, x.cost, x.turns) for x in ledgers] == expected


def test_a_price_may_be_given_beside_the_tokens() -> None:
    ledger = Ledger()

    ledger.add(Usage(input_tokens=3, output_tokens=4), 0.5)

    assert (ledger.tokens, ledger.cost, ledger.turns) == (7, 0.5, 1)


def test_an_agent_in_a_thread_of_its_own_counts_as_well() -> None:
    run = Agent(ScriptedModel(reply(call=False)), execution=MemoryEnv({}), behavior=RunOptions(max_turns=1))

    assert run.run_sync("go").status == "completed"
    assert run.ledger.turns == 1
