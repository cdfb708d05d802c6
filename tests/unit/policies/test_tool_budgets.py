"""Budgets for tool calls per run and for output bytes per turn."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring import RunOptions, Session, define_tool
from mainspring.errors import AgentProviderError, ModelError
from mainspring.events import LimitWarning
from mainspring.loop.hooks import ToolGate, ToolResultsAfter, ToolTransform
from mainspring.policies.budgets import ToolBudget
from mainspring.skills import Skill
from mainspring.testing import Reply, ScriptedCall
from tests.unit.policies.harness import make_agent, requests, results, texts, words

STEER = "[Tool budget exceeded: look has had its 1 call in this run. Do not call it again; work with the results that you have.]"


def make_tools() -> list[Any]:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return "x" * args.get("size", 3)

    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    fields = {"description": "Look.", "parameters": schema, "execute": execute}
    return [define_tool("look", fields), define_tool("other", fields)]


def look_call(**arguments: Any) -> ScriptedCall:
    return ScriptedCall("look", arguments)


@pytest.mark.covers("GRD-07")
async def test_calls_over_the_budget_are_blocked() -> None:
    agent = make_agent(
        look_call(),
        look_call(),
        look_call(),
        ScriptedCall("other"),
        "done",
        tools=make_tools(),
        tool_budgets={"look": 2},
    )

    result = await agent.run("go")

    assert texts(agent.messages) == [
        "xxx",
        "xxx",
        "Blocked: look has had its 2 calls in this run; continue without it",
        "xxx",
    ]
    assert [r.is_error for r in results(agent.messages)] == [False, False, True, False]
    assert result.stats.tool_counts == {"look": 2, "other": 1}


@pytest.mark.covers("GRD-07", "TEX-25")
async def test_budget_is_off_by_default_and_counts_per_run() -> None:
    agent = make_agent(
        look_call(), look_call(), "done", look_call(), look_call(), "done", look_call(), "done", tools=make_tools()
    )

    await agent.run("go")
    assert not any(r.is_error for r in results(agent.messages))
    for _ in range(2):
        await agent.run("go", behavior=RunOptions(tool_budgets={"look": ToolBudget(1)}))
    assert [r.is_error for r in results(agent.messages)] == [False, False, False, True, False]


@pytest.mark.covers("GRD-07", "TEX-24")
@pytest.mark.parametrize("execution", ["parallel", "sequential"])
async def test_calls_in_one_turn_share_the_budget(execution: Any) -> None:
    batch = [look_call(), look_call(), ScriptedCall("other"), look_call(), look_call()]
    agent = make_agent(batch, batch, "done", tools=make_tools(), tool_budgets={"look": 3}, tool_execution=execution)

    await agent.run("go")

    errors = [r.is_error for r in results(agent.messages) if r.name == "look"]
    assert errors == [False, False, False, True, True, True, True, True]


@pytest.mark.covers("TEX-25")
@pytest.mark.parametrize("mode", ["block", "steer"])
async def test_resumed_run_starts_a_new_budget(mode: Any) -> None:
    agent = make_agent(
        look_call(), [look_call(), look_call()], "done", tools=make_tools(), tool_budgets={"look": ToolBudget(1, mode)}
    )

    def pause(hook: ToolGate) -> None:
        if hook.tool_counts:
            hook.pause = "may it?"

    assert (await agent.run("go", hooks={ToolGate: pause})).status == "paused"
    assert (await agent.run()).status == "completed"

    assert [r.is_error for r in results(agent.messages)] == [False, False, mode == "block"]
    assert words(agent.messages) == ["go", *([STEER] if mode == "steer" else [])]


@pytest.mark.covers("HOK-40")
async def test_call_blocked_by_the_application_is_not_counted() -> None:
    agent = make_agent(
        look_call(size=1), look_call(), look_call(), "done", tools=make_tools(), tool_budgets={"look": 1}
    )
    agent.on(ToolGate, lambda hook: {"block": "too small"} if hook.input.get("size") == 1 else None)

    await agent.run("go")

    assert [t.split(":")[0] for t in texts(agent.messages)] == ["Blocked", "xxx", "Blocked"]


@pytest.mark.covers("HOK-40")
async def test_call_blocked_by_a_later_gate_is_not_counted() -> None:
    agent = make_agent(look_call(size=1), look_call(), "done", tools=make_tools(), tool_budgets={"look": 1})
    agent.on(ToolGate, lambda hook: {"block": "locked"} if hook.input.get("size") == 1 else None, order=40)

    await agent.run("go")

    assert texts(agent.messages) == ["Blocked: locked", "xxx"]


@pytest.mark.covers("GRD-08")
async def test_steer_mode_allows_the_call_and_notifies_the_model_once() -> None:
    script = [look_call(), [look_call(), look_call()], look_call(), "done"]
    agent = make_agent(*script, tools=make_tools(), tool_budgets={"look": ToolBudget(1, "steer")})

    result = await agent.run("go")

    assert texts(agent.messages) == ["xxx"] * 4
    assert words(agent.messages) == ["go", STEER]
    assert [len(words(r.messages)) for r in requests(agent)] == [1, 1, 2, 2]
    assert requests(agent)[2].messages[-1].text == STEER  # directly after the results
    assert result.stats.tool_counts == {"look": 4}


@pytest.mark.covers("GRD-08")
async def test_steering_message_is_sent_per_tool_and_run(tmp_path: Any) -> None:
    batch = [look_call(), look_call(), ScriptedCall("other"), ScriptedCall("other")]
    budgets = {"look": ToolBudget(1, "steer"), "other": ToolBudget(1, "steer")}
    session = Session.create(str(tmp_path), home=tmp_path)
    agent = make_agent(batch, "done", batch, "done", tools=make_tools(), tool_budgets=budgets, session=session)

    await agent.run("go")
    await agent.run("go")

    messages_sent = ["go", STEER, STEER.replace("look", "other")]
    assert words(agent.messages) == messages_sent * 2
    assert [m.id for m in session.messages] == [m.id for m in agent.messages]
    session.close()


@pytest.mark.covers("GRD-09")
async def test_function_sets_mode_and_message() -> None:
    seen: list[tuple[str, int, int]] = []

    async def decide(tool: str, count: int, max_calls: int) -> Mapping[str, str] | None:
        seen.append((tool, count, max_calls))
        return {2: {"mode": "steer", "message": "slow down"}, 3: {"mode": "block", "message": "that is it"}}.get(count)

    agent = make_agent(
        look_call(),
        look_call(),
        look_call(),
        look_call(),
        "done",
        tools=make_tools(),
        tool_budgets={"look": ToolBudget(1, decide)},
    )

    await agent.run("go")

    # blocked calls are not counted, so the next call is the third again
    assert seen == [("look", 2, 1), ("look", 3, 1), ("look", 3, 1)]
    assert texts(agent.messages) == ["xxx", "xxx", "Blocked: that is it", "Blocked: that is it"]
    assert words(agent.messages) == ["go", "slow down"]


@pytest.mark.covers("GRD-09")
async def test_function_can_allow_a_call_or_use_the_default_message() -> None:
    agent = make_agent(
        look_call(), look_call(), "done", tools=make_tools(), tool_budgets={"look": ToolBudget(1, lambda *call: None)}
    )
    await agent.run("go")
    assert texts(agent.messages) == ["xxx", "xxx"]
    assert words(agent.messages) == ["go"]

    agent = make_agent(
        look_call(),
        look_call(),
        "done",
        tools=make_tools(),
        tool_budgets={"look": ToolBudget(1, lambda *call: {"mode": "steer"})},
    )
    await agent.run("go")
    assert words(agent.messages) == ["go", STEER]


@pytest.mark.covers("HOK-32")
async def test_event_fires_for_each_call_over_the_budget() -> None:
    messages_sent: list[tuple[Any, ...]] = []
    agent = make_agent(
        look_call(),
        [look_call(), look_call()],
        "done",
        tools=make_tools(),
        tool_budgets={"look": ToolBudget(1, "steer")},
    )
    agent.on("tool-budget:exceeded", lambda w: messages_sent.append((w.turn, w.tool, w.spent, w.max, w.mode)))

    await agent.run("go")

    assert messages_sent == [(2, "look", 2, 1, "steer"), (2, "look", 3, 1, "steer")]


@given(
    max_calls=st.integers(0, 6),
    batches=st.lists(st.lists(st.sampled_from(["look", "other", "no"]), min_size=1, max_size=5), max_size=5),
    mode=st.sampled_from(["block", "steer"]),
)
@settings(max_examples=40)
@pytest.mark.covers("GRD-07", "GRD-08", "TEX-24")
async def test_budget_is_never_exceeded_and_the_message_is_sent_once(
    max_calls: int, batches: list[list[str]], mode: Any
) -> None:
    script = [
        [ScriptedCall("look", {"size": 1} if n == "no" else {}) if n != "other" else ScriptedCall("other") for n in b]
        for b in batches
    ]
    agent = make_agent(*script, "done", tools=make_tools(), tool_budgets={"look": ToolBudget(max_calls, mode)})
    agent.on(ToolGate, lambda hook: {"block": "no"} if hook.input.get("size") else None, order=25)

    result = await agent.run("go")

    request = sum(n == "look" for b in batches for n in b)
    counted = result.stats.tool_counts.get("look", 0)
    messages_sent = [w for w in words(agent.messages) if w.startswith("[Tool budget")]
    if mode == "block":
        assert counted <= max_calls
        assert messages_sent == []
    else:
        assert counted == request
        assert len(messages_sent) <= 1
        assert bool(messages_sent) >= (request > max_calls)


# --- output of tools ----------------------------------------------------------------------------------------------------


def budget_message(size: int, cap: int) -> str:
    return (
        f"[Tool output budget exceeded: {size} bytes returned in this turn (cap: {cap}). "
        "Summarize the salient findings before calling more tools.]"
    )


@pytest.mark.covers("GRD-10", "HOK-32")
async def test_output_over_the_turn_budget_sends_a_message() -> None:
    messages_sent: list[tuple[Any, ...]] = []
    script = [look_call(size=100), [look_call(size=60), look_call(size=41)], look_call(size=100), "done"]
    agent = make_agent(*script, tools=make_tools(), tool_output_budget=100)
    agent.on("budget:exceeded", lambda h: messages_sent.append((h.turn, h.turn_id != "", h.bytes, h.budget)))

    await agent.run("go")

    assert words(agent.messages) == ["go", budget_message(101, 100)]
    assert requests(agent)[2].messages[-1].text == budget_message(101, 100)
    assert messages_sent == [(2, True, 101, 100)]


@pytest.mark.covers("GRD-10")
async def test_output_budget_counts_bytes_after_transform() -> None:
    agent = make_agent(look_call(size=1), look_call(size=1000), "done", tools=make_tools(), tool_output_budget=10)

    def change(hook: ToolTransform) -> None:
        hook.result.output = "ä" * 6 if hook.output_bytes == 1 else "short"

    agent.on(ToolTransform, change)
    await agent.run("go")

    assert words(agent.messages) == ["go", budget_message(12, 10)]


@pytest.mark.covers("GRD-10")
async def test_output_budget_is_off_by_default() -> None:
    agent = make_agent(look_call(size=10**6), "done", tools=make_tools())

    await agent.run("go")

    assert words(agent.messages) == ["go"]


# --- handlers -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AGT-44")
async def test_policies_are_subscribed_only_during_a_run() -> None:
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
    agent = make_agent(look_call(), "done", ModelError("down"), "never", tools=make_tools(), retry=None, **options)
    seen: list[bool] = []
    agent.on(ToolResultsAfter, lambda hook: seen.append(len(agent.bus._handlers) > 5))
    before = {kind: list(handlers) for kind, handlers in agent.bus._handlers.items()}

    await agent.run("go")
    assert seen == [True]
    assert agent.bus._handlers == before
    with pytest.raises(AgentProviderError):
        await agent.run("go")
    assert agent.bus._handlers == before


@pytest.mark.covers("HOK-40")
async def test_gates_run_in_a_fixed_order() -> None:
    order: list[str] = []

    def hasher(arguments: Mapping[str, Any]) -> str:
        order.append("dedup")
        return ""

    def decide(tool: str, count: int, max_calls: int) -> Mapping[str, str] | None:
        order.append("budget")
        return None

    agent = make_agent(
        *(look_call(), "done") * 2,
        tools=make_tools(),
        tool_budgets={"look": ToolBudget(0, decide)},
        dedup_tools={"look": hasher},
    )
    agent.on(ToolGate, lambda hook: order.append("lifetime"))
    agent.on(ToolGate, lambda hook: order.append("disclosure"), order=40)
    agent.on(ToolGate, lambda hook: order.append("allowed tools"), order=10)

    await agent.run("go", hooks={ToolGate: lambda hook: order.append("run")})

    assert order == ["lifetime", "run", "allowed tools", "budget", "dedup", "disclosure"]


@pytest.mark.covers("HOK-40")
@pytest.mark.parametrize("hook", ["result", "block"])
async def test_built_in_gates_do_not_change_what_a_handler_of_the_application_set(hook: str) -> None:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return pytest.fail("the call does not run")

    lazy = define_tool("mcp__s__look", description="Look.", parameters={}, execute=execute, source="mcp:s")
    warnings: list[Any] = []
    agent = make_agent(
        ScriptedCall("mcp__s__look", {}),
        "done",
        tools=[lazy],
        tool_disclosure="lazy",
        skills=[
            Skill(
                name="careful",
                description="d",
                brief="d",
                source="inline",
                trusted=True,
                text="c",
                allowed_tools=("other",),
            )
        ],
        tool_budgets={"mcp__s__look": 0},
        dedup_tools={"mcp__s__look": str},
    )
    agent.on(LimitWarning, warnings.append)
    await agent.activate_skill("careful")

    await agent.run("go", hooks={ToolGate: lambda _: {hook: "by the application"}})

    expected = {"result": "by the application", "block": "Blocked: by the application"}
    assert texts(agent.messages) == [expected[hook]]
    assert warnings == []


@pytest.mark.covers("TEX-24")
async def test_result_of_a_handler_counts_in_the_budget() -> None:
    agent = make_agent(Reply(calls=(look_call(), look_call())), "done", tools=make_tools(), tool_budgets={"look": 1})
    seen: list[str] = []

    def replace_first(hook: ToolGate) -> None:
        if not seen:
            hook.result = "cached"
        seen.append(hook.call_id)

    agent.on(ToolGate, replace_first)
    result = await agent.run("go")
    assert texts(agent.messages)[0] == "cached"
    assert texts(agent.messages)[1].startswith("Blocked: look has had its 1 call")
    assert result.stats.tool_counts == {"look": 1}
