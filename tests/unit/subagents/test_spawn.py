"""Sub-agents: started by the tool, with what their parent has and no more, and what their parent gets of them."""

import json
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, NetworkError, ToolError
from mainspring.events.types import SubagentStats
from mainspring.loop import RunOptions
from mainspring.loop.hooks import BeforeSpawn
from mainspring.permissions import Permissions
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from mainspring.tools.builtin import read_file, write_file
from tests.unit.subagents.harness import heard, kind, parent, requests_of, results, spawn

pytestmark = pytest.mark.usefixtures("no_blocking")


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def count(key: str) -> str:
    """Count something."""
    return "3"


@pytest.mark.covers("SUB-01", "SUB-02", "TOL-20")
async def test_a_child_works_on_its_task_alone_with_what_its_parent_has() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "a"}), "it is a", description="Looks.")
    one = parent(
        spawn("find a", "helper"), "done", kinds=[helper], tools=[look], system="Be exact.",
        behavior=RunOptions(temperature=0.5, max_turns=7), tool_aliases={"look": "peek"},
    )  # fmt: skip
    result = await one.run("a long story, and then: find a")

    assert result.text == "done"
    assert [r.text for r in results(one)] == ["it is a"]
    first = requests_of(helper)[0]
    assert [m.text for m in first.messages] == ["find a"]
    assert (first.system, first.temperature) == ("Be exact.", 0.5)
    assert [t.name for t in first.tools] == ["peek"]
    assert one.children == ()


@pytest.mark.covers("SUB-02")
async def test_a_child_can_be_restricted_by_its_kind_and_by_the_call() -> None:
    strict = kind(
        "strict", "x", system="Only count.", tools=("count", "look", "gone"), behavior=RunOptions(max_output_tokens=99)
    )
    one = parent(
        spawn("go", "strict", tools=["sum"]), "done", kinds=[strict], tools=[look, count], system="Parent.",
        tool_aliases={"count": "sum"},
    )  # fmt: skip
    await one.run("go")

    request = requests_of(strict)[0]
    assert (request.system, request.max_output_tokens) == ("Only count.", 99)
    assert [t.name for t in request.tools] == ["sum"]


@pytest.mark.covers("SUB-02")
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (spawn("go", tools=["look", "shell"]), "unknown tool for the sub-agent: shell; available: look"),
        (spawn("go", "nobody"), "Validation error"),
        (spawn("go", "needy"), "needs shell, and this agent has none of them"),
        (spawn("   "), "the task is empty"),
    ],
)
async def test_a_child_never_gets_what_its_parent_does_not_have(call: ScriptedCall, told: str) -> None:
    one = parent(call, "done", kinds=[kind("needy", "x", tools=("shell",))], tools=[look])
    await one.run("go")
    assert told in results(one)[0].text
    assert results(one)[0].is_error


@pytest.mark.covers("SUB-02")
async def test_the_tools_the_model_and_the_limits_of_the_run_hold_for_its_children() -> None:
    model = ScriptedModel(spawn("go"), lambda r: Reply(",".join(t.name for t in r.tools)), "done")
    one = parent(kinds=[], tools=[look, count])
    spawning = one.tools.get("spawn")
    assert spawning is not None

    await one.run("go", model=model, tools=[count, spawning], system="This run.", behavior=RunOptions(temperature=0.1))

    request = model.requests[1].request
    assert (results(one)[0].text, request.system, request.temperature) == ("count", "This run.", 0.1)


@pytest.mark.covers("SUB-02")
async def test_tools_that_are_not_active_are_not_passed_on() -> None:
    helper = kind("helper", "x")
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look, count])
    one.active_tools = ("look", "spawn")
    await one.run("go")
    assert [t.name for t in requests_of(helper)[0].tools] == ["look"]


@pytest.mark.covers("SUB-02", "SUB-07")
async def test_a_child_has_no_spawn_unless_it_is_allowed_and_then_down_to_the_depth() -> None:
    def tools_of(request: Any) -> Reply:
        return Reply(",".join(t.name for t in request.tools))

    one = parent(spawn("go"), tools_of, "done", tools=[look])
    await one.run("go")
    assert results(one)[0].text == "look"

    depths: list[int] = []
    two = parent(
        spawn("one"), spawn("two"), tools_of, "back at one", "done", tools=[look], options={"depth": 2},
        hooks={BeforeSpawn: lambda h: depths.append(h.depth)},
    )  # fmt: skip
    result = await two.run("go")
    assert results(two)[0].text == "back at one"
    inner = result.stats.children[0].children[0]
    assert (inner.depth, inner.child_id, result.stats.children[0].depth) == (2, "agent-2", 1)
    assert depths == [1]
    assert "look" in two.tools
    with pytest.raises(ConfigError, match="1 to 3"):
        Subagents(depth=4)


@pytest.mark.covers("SUB-02")
async def test_a_child_of_a_kind_that_does_not_list_spawn_has_none() -> None:
    helper = kind("helper", "x", tools=("look",))
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look], options={"depth": 3})
    await one.run("go")
    assert [t.name for t in requests_of(helper)[0].tools] == ["look"]


@pytest.mark.covers("SUB-02")
async def test_permissions_hold_for_children_with_the_same_grants() -> None:
    asked: list[str] = []

    def ask(request: Any) -> bool:
        asked.append(request.resource)
        return False

    helper = kind(
        "helper",
        ScriptedCall("write_file", {"path": "b.txt", "content": "x"}),
        ScriptedCall("read_file", {"path": "a.txt"}),
        "end",
    )
    env = MemoryEnv({"a.txt": "text"})
    one = Agent(
        ScriptedModel(spawn("write b", "helper"), "done"), execution=env, tools=[write_file, read_file],
        permissions=Permissions(on_permission_request=ask), subagents=[helper],
    )  # fmt: skip
    await one.run("go")

    seen = requests_of(helper)[-1].messages
    assert "Permission denied" in seen[2].tool_results[0].text
    assert "text" in seen[4].tool_results[0].text
    assert len(asked) == 1
    with pytest.raises(FileNotFoundError):
        await env.stat("b.txt")


@pytest.mark.covers("SUB-02", "SUB-05")
async def test_what_an_application_refuses_its_agent_is_refused_to_children_on_every_level() -> None:
    def refuse(hook: Any) -> None:
        if hook.name == "look":
            hook.block = "not today"

    def permit(hook: Any) -> None:
        if hook.name == "count":
            hook.deny("not counted")

    inner = kind("inner", [ScriptedCall("look", {"key": "a"}), ScriptedCall("count", {"key": "b"})], "end")
    outer = kind("outer", spawn("inner task", "inner"), "end")
    one = parent(spawn("outer task", "outer"), "done", kinds=[inner, outer], tools=[look, count], options={"depth": 2})
    one.on("tool:gate", refuse)
    await one.run("go", hooks={"tool:permit": permit})

    answers = requests_of(inner)[-1].messages[-1].tool_results
    assert [r.text for r in answers] == ["Blocked: not today", "Permission denied: not counted"]


async def test_policies_of_the_parent_do_not_judge_children_by_its_own_history() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"}), "end")
    one = parent(
        ScriptedCall("look", {"key": "c"}), spawn("go", "helper"), "done", kinds=[helper], tools=[look],
        behavior=RunOptions(tool_budgets={"look": 2}),
    )  # fmt: skip
    await one.run("go")
    texts = [m.tool_results[0].text for m in requests_of(helper)[-1].messages if m.tool_results]
    assert texts == ["value of a", "value of b"]


@pytest.mark.covers("SUB-03", "HOK-36", "AGT-42")
async def test_the_parent_is_told_of_each_child_and_gets_its_figures() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "a"}), "it is a")
    one = parent(spawn("find a", "helper"), "done", kinds=[helper], tools=[look])
    told = heard(one, "spawn:before", "spawn:complete", "spawn:error")
    result = await one.run("go")

    assert [name for name, _ in told] == ["spawn:before", "spawn:complete"]
    before, complete = told[0][1], told[1][1]
    assert (before.child_id, before.child, before.depth, before.task) == ("helper-1", "helper", 1, "find a")
    assert (complete.text, complete.status, complete.stats.turns) == ("it is a", "completed", 2)
    assert complete.stats.tool_counts == {"look": 1}
    assert result.stats.children == (complete.stats,)
    assert isinstance(complete.stats, SubagentStats)
    details = results(one)[0].details
    assert (details["child_id"], details["status"], details["turns"]) == ("helper-1", "completed", 2)

    again = await one.run("nothing to start", model=ScriptedModel("ok"))
    assert again.stats.children == ()


@pytest.mark.covers("HOK-36")
async def test_a_handler_may_change_the_task_or_keep_the_child_from_running() -> None:
    helper = kind("helper", "ok")
    one = parent(spawn("a", "helper"), spawn("b", "helper"), "done", kinds=[helper])

    def gate(hook: BeforeSpawn) -> None:
        if hook.task == "b":
            hook.block = "enough"
        hook.task = f"{hook.task}, please"

    one.on(BeforeSpawn, gate)
    errors = heard(one, "spawn:error")
    await one.run("go")
    assert [m.text for m in requests_of(helper)[0].messages] == ["a, please"]
    assert "Blocked: enough" in results(one)[1].text
    assert [(e.status, str(e.error)) for _, e in errors] == [("denied", "Blocked: enough")]

    two = parent(spawn("a"), "done")

    def broken(hook: BeforeSpawn) -> None:
        raise ZeroDivisionError

    two.on(BeforeSpawn, broken)  # a check that fails is no consent
    await two.run("go")
    assert "ZeroDivisionError" in results(two)[0].text


@pytest.mark.covers("SUB-04", "HOK-36")
async def test_a_child_that_fails_is_told_and_its_parent_goes_on() -> None:
    broken = kind("broken", Reply("half an", error=NetworkError("the line is cut", retryable=False)))
    fine = kind("fine", "fine")
    one = parent([spawn("a", "broken"), spawn("b", "fine")], "both seen", kinds=[broken, fine])
    errors = heard(one, "spawn:error")
    result = await one.run("go")

    assert result.text == "both seen"
    first, second = results(one)
    assert first.is_error
    assert "it failed (the line is cut)" in first.text
    assert "half an" in first.text
    assert (second.text, second.is_error) == ("fine", False)
    assert len(errors) == 1
    assert errors[0][1].status == "error"
    assert {s.status for s in result.stats.children} == {"error", "completed"}


@pytest.mark.covers("SUB-04")
async def test_a_model_that_cannot_be_used_is_a_failure_of_the_child_only() -> None:
    one = parent(spawn("a", "odd"), "done", kinds=[AgentDefinition(name="odd", model="nosuch:model")])
    errors = heard(one, "spawn:error")
    assert (await one.run("go")).text == "done"
    assert results(one)[0].is_error
    assert len(errors) == 1


@pytest.mark.covers("SUB-04")
async def test_a_child_that_stops_at_a_limit_or_says_nothing_is_no_success_in_disguise() -> None:
    endless = kind(
        "endless", Reply("so far", calls=[ScriptedCall("look", {"key": "a"})]), behavior=RunOptions(max_turns=1)
    )
    mute = kind("mute", ScriptedCall("look", {"key": "a"}), "", "", "", "", behavior=RunOptions(max_repairs=0))
    one = parent([spawn("a", "endless"), spawn("b", "mute")], "done", kinds=[endless, mute], tools=[look])
    await one.run("go")
    first, second = results(one)
    assert first.text == "[The sub-agent did not finish: it reached its limit of turns. What it had so far:]\nso far"
    assert not first.is_error
    assert second.is_error
    assert "did not finish: it failed" in second.text


async def test_a_long_answer_loses_its_middle() -> None:
    one = parent(spawn("a"), "x" * 90 + "THE END", "done", options={"max_characters": 30})
    await one.run("go")
    text = results(one)[0].text
    assert text.startswith("x" * 20 + "\n[… 67 characters left out …]\n")
    assert text.endswith("THE END")


@pytest.mark.covers("BYD-03")
def test_kinds_stand_in_the_tool_in_an_order_that_never_changes() -> None:
    kinds = [AgentDefinition(name="b", description="B\nis  two."), AgentDefinition(name="a", description="y" * 999)]
    specs = [
        Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=order).tools.specs[0]
        for order in (kinds, kinds[::-1])
    ]
    assert json.dumps(specs[0].input_schema) == json.dumps(specs[1].input_schema)
    assert specs[0].description == specs[1].description
    assert specs[0].input_schema["properties"]["agent"]["enum"] == ["a", "b"]
    assert "- b: B is two." in specs[0].description
    assert len(specs[0].description) < 1300
    with pytest.raises(ConfigError, match="Two kinds"):
        Subagents([AgentDefinition(name="a"), AgentDefinition(name="a")])


async def test_a_tool_may_start_a_sub_agent_through_its_context() -> None:
    @tool
    async def survey(topic: str, ctx: ToolContext) -> str:
        """Survey something."""
        assert ctx.spawn is not None
        found = await ctx.spawn(f"survey {topic}", "helper", signal=ctx.signal)
        return f"found: {found.text}"

    helper = kind("helper", "much")
    one = parent(ScriptedCall("survey", {"topic": "x"}), "done", kinds=[helper], tools=[survey])
    result = await one.run("go")
    assert results(one)[0].text == "found: much"
    assert len(result.stats.children) == 1
    assert ToolContext(env=MemoryEnv({})).spawn is None


async def test_sub_agents_can_be_started_from_code_too() -> None:
    subagents = Subagents([kind("helper", "much")])
    Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=subagents)
    result = await subagents.spawn("go", "helper")
    assert (result.text, result.status, result.error) == ("much", "completed", None)
    with pytest.raises(ToolError, match="unknown kind of sub-agent: 'other'"):
        await subagents.spawn("go", "other")


async def test_children_of_an_agent_of_ones_own_class_are_plain_agents() -> None:
    class Mine(Agent):
        def __init__(self, name: str, *script: Any) -> None:
            super().__init__(ScriptedModel(*script), name=name, execution=MemoryEnv({}), subagents=True)

    one = Mine("mine", spawn("go"), "child's", "done")
    await one.run("go")
    assert results(one)[0].text == "child's"


def test_a_plug_serves_one_agent_and_needs_one_that_makes_children() -> None:
    subagents = Subagents()
    with pytest.raises(ConfigError, match="Agent"):
        subagents.install(Agent(ScriptedModel(), execution=MemoryEnv({})))
    Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=subagents)
    with pytest.raises(ConfigError, match="another agent"):
        Agent(ScriptedModel(), execution=MemoryEnv({}), plugs=[subagents])
    assert "spawn" not in Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=False).tools
    assert "spawn" in Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=True).tools
