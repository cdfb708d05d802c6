"""How often tools may be called in a run, and how much they may give back in a turn."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import RunOptions, Session, define_tool
from mainspring.errors import AgentProviderError, ModelError
from mainspring.loop.hooks import BudgetExceeded, ToolBudgetExceeded, ToolGate, ToolResultsAfter, ToolTransform
from mainspring.loop.option_types import ToolBudget
from mainspring.testing import ScriptedCall
from tests.unit.policies.harness import agent, requests, results, texts, words

STEER = "[Tool budget exceeded: look has had its 1 call in this run. Do not call it again; go on with what you have.]"


def tools() -> list[Any]:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return "x" * args.get("size", 3)

    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    made = {"description": "Look.", "parameters": schema, "execute": execute}
    return [define_tool("look", made), define_tool("other", made)]


def look(**arguments: Any) -> ScriptedCall:
    return ScriptedCall("look", arguments)


@pytest.mark.covers("GRD-07")
async def test_calls_beyond_the_budget_are_refused_and_others_are_not() -> None:
    made = agent(look(), look(), look(), ScriptedCall("other"), "done", tools=tools(), tool_budgets={"look": 2})

    result = await made.run("go")

    assert texts(made.messages) == [
        "xxx",
        "xxx",
        "Blocked: look has had its 2 calls in this run; go on without it",
        "xxx",
    ]
    assert [r.is_error for r in results(made.messages)] == [False, False, True, False]
    assert result.stats.tool_counts == {"look": 2, "other": 1}


@pytest.mark.covers("GRD-07", "TEX-25")
async def test_unset_by_default_and_each_run_begins_anew() -> None:
    made = agent(look(), look(), "done", look(), look(), "done", look(), "done", tools=tools())

    await made.run("go")
    assert not any(r.is_error for r in results(made.messages))
    for _ in range(2):
        await made.run("go", behavior=RunOptions(tool_budgets={"look": ToolBudget(1)}))
    assert [r.is_error for r in results(made.messages)] == [False, False, False, True, False]


@pytest.mark.covers("GRD-07", "TEX-24")
@pytest.mark.parametrize("execution", ["parallel", "sequential"])
async def test_calls_of_one_answer_cannot_pass_together(execution: Any) -> None:
    batch = [look(), look(), ScriptedCall("other"), look(), look()]
    made = agent(batch, batch, "done", tools=tools(), tool_budgets={"look": 3}, tool_execution=execution)

    await made.run("go")

    errors = [r.is_error for r in results(made.messages) if r.name == "look"]
    assert errors == [False, False, False, True, True, True, True, True]


@pytest.mark.covers("TEX-25")
@pytest.mark.parametrize("mode", ["block", "steer"])
async def test_a_run_that_takes_up_a_pause_begins_anew(mode: Any) -> None:
    made = agent(look(), [look(), look()], "done", tools=tools(), tool_budgets={"look": ToolBudget(1, mode)})

    def pause(hook: ToolGate) -> None:
        if hook.tool_counts:
            hook.pause = "may it?"

    assert (await made.run("go", hooks={ToolGate: pause})).status == "paused"
    assert (await made.run()).status == "completed"

    assert [r.is_error for r in results(made.messages)] == [False, False, mode == "block"]
    assert words(made.messages) == ["go", *([STEER] if mode == "steer" else [])]


@pytest.mark.covers("HOK-40")
async def test_a_call_that_an_application_refuses_takes_nothing_of_the_budget() -> None:
    made = agent(look(size=1), look(), look(), "done", tools=tools(), tool_budgets={"look": 1})
    made.on(ToolGate, lambda hook: {"block": "too small"} if hook.input.get("size") == 1 else None)

    await made.run("go")

    assert [t.split(":")[0] for t in texts(made.messages)] == ["Blocked", "xxx", "Blocked"]


@pytest.mark.covers("HOK-40")
async def test_what_a_later_gate_refuses_is_given_back() -> None:
    made = agent(look(size=1), look(), "done", tools=tools(), tool_budgets={"look": 1})
    made.on(ToolGate, lambda hook: {"block": "locked"} if hook.input.get("size") == 1 else None, order=40)

    await made.run("go")

    assert texts(made.messages) == ["Blocked: locked", "xxx"]


@pytest.mark.covers("GRD-08")
async def test_steer_lets_the_call_pass_and_tells_the_model_once() -> None:
    script = [look(), [look(), look()], look(), "done"]
    made = agent(*script, tools=tools(), tool_budgets={"look": ToolBudget(1, "steer")})

    result = await made.run("go")

    assert texts(made.messages) == ["xxx"] * 4
    assert words(made.messages) == ["go", STEER]
    assert [len(words(r.messages)) for r in requests(made)] == [1, 1, 2, 2]
    assert requests(made)[2].messages[-1].text == STEER  # right behind the results
    assert result.stats.tool_counts == {"look": 4}


@pytest.mark.covers("GRD-08")
async def test_each_tool_and_each_run_is_told_for_itself(tmp_path: Any) -> None:
    batch = [look(), look(), ScriptedCall("other"), ScriptedCall("other")]
    budgets = {"look": ToolBudget(1, "steer"), "other": ToolBudget(1, "steer")}
    session = Session.create(str(tmp_path), home=tmp_path)
    made = agent(batch, "done", batch, "done", tools=tools(), tool_budgets=budgets, session=session)

    await made.run("go")
    await made.run("go")

    told = ["go", STEER, STEER.replace("look", "other")]
    assert words(made.messages) == told * 2
    assert [m.id for m in session.messages] == [m.id for m in made.messages]
    session.close()


@pytest.mark.covers("GRD-09")
async def test_a_function_gives_mode_and_message() -> None:
    seen: list[tuple[str, int, int]] = []

    async def decide(tool: str, count: int, most: int) -> Mapping[str, str] | None:
        seen.append((tool, count, most))
        return {2: {"mode": "steer", "message": "slow down"}, 3: {"mode": "block", "message": "that is it"}}.get(count)

    made = agent(look(), look(), look(), look(), "done", tools=tools(), tool_budgets={"look": ToolBudget(1, decide)})

    await made.run("go")

    # the third was refused and so did not count: the next is the third again
    assert seen == [("look", 2, 1), ("look", 3, 1), ("look", 3, 1)]
    assert texts(made.messages) == ["xxx", "xxx", "Blocked: that is it", "Blocked: that is it"]
    assert words(made.messages) == ["go", "slow down"]


@pytest.mark.covers("GRD-09")
async def test_a_function_may_let_a_call_pass_or_leave_the_words_to_us() -> None:
    made = agent(look(), look(), "done", tools=tools(), tool_budgets={"look": ToolBudget(1, lambda *call: None)})
    await made.run("go")
    assert texts(made.messages) == ["xxx", "xxx"]
    assert words(made.messages) == ["go"]

    made = agent(
        look(), look(), "done", tools=tools(), tool_budgets={"look": ToolBudget(1, lambda *call: {"mode": "steer"})}
    )
    await made.run("go")
    assert words(made.messages) == ["go", STEER]


@pytest.mark.covers("HOK-32")
async def test_each_call_beyond_is_told() -> None:
    told: list[tuple[Any, ...]] = []
    made = agent(look(), [look(), look()], "done", tools=tools(), tool_budgets={"look": ToolBudget(1, "steer")})
    made.on(ToolBudgetExceeded, lambda h: told.append((h.turn, h.name, h.count, h.max, h.mode)))

    await made.run("go")

    assert told == [(2, "look", 2, 1, "steer"), (2, "look", 3, 1, "steer")]


@given(
    most=st.integers(0, 6),
    batches=st.lists(st.lists(st.sampled_from(["look", "other", "no"]), min_size=1, max_size=5), max_size=5),
    mode=st.sampled_from(["block", "steer"]),
)
@settings(max_examples=40)
@pytest.mark.covers("GRD-07", "GRD-08", "TEX-24")
async def test_never_more_than_the_budget_and_never_told_twice(most: int, batches: list[list[str]], mode: Any) -> None:
    script = [
        [ScriptedCall("look", {"size": 1} if n == "no" else {}) if n != "other" else ScriptedCall("other") for n in b]
        for b in batches
    ]
    made = agent(*script, "done", tools=tools(), tool_budgets={"look": ToolBudget(most, mode)})
    made.on(ToolGate, lambda hook: {"block": "no"} if hook.input.get("size") else None, order=25)

    result = await made.run("go")

    asked = sum(n == "look" for b in batches for n in b)
    counted = result.stats.tool_counts.get("look", 0)
    told = [w for w in words(made.messages) if w.startswith("[Tool budget")]
    if mode == "block":
        assert counted <= most
        assert told == []
    else:
        assert counted == asked
        assert len(told) <= 1
        assert bool(told) >= (asked > most)


# --- what tools give back -----------------------------------------------------------------------------------------------


def over(size: int, cap: int) -> str:
    return (
        f"[Tool output budget exceeded: {size} bytes returned in this turn (cap: {cap}). "
        "Summarize the salient findings before calling more tools.]"
    )


@pytest.mark.covers("GRD-10", "HOK-32")
async def test_a_turn_that_gives_back_too_much_is_told_so() -> None:
    told: list[tuple[Any, ...]] = []
    script = [look(size=100), [look(size=60), look(size=41)], look(size=100), "done"]
    made = agent(*script, tools=tools(), tool_output_budget=100)
    made.on(BudgetExceeded, lambda h: told.append((h.turn, h.turn_id != "", h.bytes, h.budget)))

    await made.run("go")

    assert words(made.messages) == ["go", over(101, 100)]
    assert requests(made)[2].messages[-1].text == over(101, 100)
    assert told == [(2, True, 101, 100)]


@pytest.mark.covers("GRD-10")
async def test_what_counts_are_the_bytes_after_transform() -> None:
    made = agent(look(size=1), look(size=1000), "done", tools=tools(), tool_output_budget=10)

    def change(hook: ToolTransform) -> None:
        hook.result.output = "ä" * 6 if hook.output_bytes == 1 else "short"

    made.on(ToolTransform, change)
    await made.run("go")

    assert words(made.messages) == ["go", over(12, 10)]


@pytest.mark.covers("GRD-10")
async def test_there_is_no_such_budget_by_default() -> None:
    made = agent(look(size=10**6), "done", tools=tools())

    await made.run("go")

    assert words(made.messages) == ["go"]


# --- handlers -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AGT-44")
async def test_policies_are_on_the_bus_only_while_a_run_goes() -> None:
    options: dict[str, Any] = {
        "tool_budgets": {"look": 1},
        "tool_output_budget": 1,
        "dedup_tools": {"look": str},
        "require_read_before_edit": True,
        "elide_stale_reads": True,
        "compact_strategy": "tail",
        "max_cost": 1.0,
        "persist_dir": "x",
        "persist_threshold": 10**6,
        "thinking_decay": lambda turn, base: base,
        "cache": False,
    }
    made = agent(look(), "done", ModelError("down"), "never", tools=tools(), retry=None, **options)
    seen: list[bool] = []
    made.on(ToolResultsAfter, lambda hook: seen.append(len(made.bus._handlers) > 5))
    before = {kind: list(handlers) for kind, handlers in made.bus._handlers.items()}

    await made.run("go")
    assert seen == [True]
    assert made.bus._handlers == before
    with pytest.raises(AgentProviderError):
        await made.run("go")
    assert made.bus._handlers == before


@pytest.mark.covers("HOK-40")
async def test_gates_are_asked_in_one_order() -> None:
    order: list[str] = []

    def hasher(arguments: Mapping[str, Any]) -> str:
        order.append("dedup")
        return ""

    def decide(tool: str, count: int, most: int) -> Mapping[str, str] | None:
        order.append("budget")
        return None

    made = agent(
        look(), "done", tools=tools(), tool_budgets={"look": ToolBudget(0, decide)}, dedup_tools={"look": hasher}
    )
    made.on(ToolGate, lambda hook: order.append("lifetime"))
    made.on(ToolGate, lambda hook: order.append("disclosure"), order=40)
    made.on(ToolGate, lambda hook: order.append("allowed tools"), order=10)

    await made.run("go", hooks={ToolGate: lambda hook: order.append("run")})

    assert order == ["lifetime", "run", "allowed tools", "budget", "dedup", "disclosure"]
