"""Starting subagents: what they inherit from their parent, and what the parent gets back."""

import json
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, NetworkError, ToolError
from mainspring.events.base import SubagentStats
from mainspring.loop.hooks import BeforeSpawn
from mainspring.permissions import Permissions
from mainspring.run_options import RunOptions
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from mainspring.tools.builtin import read_file, write_file
from tests.unit.subagents.harness import make_definition, make_parent, record_events, requests_of, results, spawn_call

pytestmark = pytest.mark.usefixtures("no_blocking")


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def count(key: str) -> str:
    """Count something."""
    return "3"


@pytest.mark.covers("CAC-10")
def test_kinds_are_listed_by_name() -> None:
    kinds = [make_definition(name, "x", description=f"Does {name}.") for name in ("zeta", "alpha", "mid")]
    tool = make_parent("x", kinds=kinds).tools.get("spawn")
    same = make_parent("x", kinds=kinds[::-1]).tools.get("spawn")
    assert tool is not None
    assert same is not None
    assert tool.description.endswith("- alpha: Does alpha.\n- mid: Does mid.\n- zeta: Does zeta.")
    assert tool.input_schema["properties"]["agent"]["enum"] == ["alpha", "mid", "zeta"]
    assert (same.description, same.input_schema) == (tool.description, tool.input_schema)


@pytest.mark.covers("SUB-01", "SUB-02", "TOL-20")
async def test_subagent_gets_only_its_task_and_the_setup_of_its_parent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "it is a", description="Looks.")
    agent = make_parent(
        spawn_call("find a", "helper"), "done", kinds=[helper], tools=[look], system="Be exact.",
        behavior=RunOptions(temperature=0.5, max_turns=7), tool_aliases={"look": "peek"},
    )  # fmt: skip
    result = await agent.run("a long story, and then: find a")

    assert result.text == "done"
    assert [r.text for r in results(agent)] == ["it is a"]
    first = requests_of(helper)[0]
    assert [m.text for m in first.messages] == ["find a"]
    assert (first.system, first.temperature) == ("Be exact.", 0.5)
    assert [t.name for t in first.tools] == ["peek"]
    assert agent.children == ()


@pytest.mark.covers("SUB-02")
async def test_definition_and_call_can_restrict_a_subagent() -> None:
    strict = make_definition(
        "strict", "x", system="Only count.", tools=("count", "look", "gone"), behavior=RunOptions(max_output_tokens=99)
    )
    agent = make_parent(
        spawn_call("go", "strict", tools=["sum"]), "done", kinds=[strict], tools=[look, count], system="Parent.",
        tool_aliases={"count": "sum"},
    )  # fmt: skip
    await agent.run("go")

    request = requests_of(strict)[0]
    assert (request.system, request.max_output_tokens) == ("Only count.", 99)
    assert [t.name for t in request.tools] == ["sum"]


@pytest.mark.covers("SUB-02")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (spawn_call("go", tools=["look", "shell"]), "Unknown tool for the subagent: shell. Available tools: look"),
        (spawn_call("go", "nobody"), "Validation error"),
        (spawn_call("go", "needy"), "needs the tools shell, but this agent has none of them"),
        (spawn_call("   "), "The task is empty"),
    ],
)
async def test_subagent_cannot_get_tools_that_its_parent_lacks(call: ScriptedCall, message: str) -> None:
    agent = make_parent(call, "done", kinds=[make_definition("needy", "x", tools=("shell",))], tools=[look])
    await agent.run("go")
    assert message in results(agent)[0].text
    assert results(agent)[0].is_error


@pytest.mark.covers("SUB-02")
async def test_run_options_of_the_parent_apply_to_its_subagents() -> None:
    model = ScriptedModel(spawn_call("go"), lambda r: Reply(",".join(t.name for t in r.tools)), "done")
    agent = make_parent(kinds=[], tools=[look, count])
    spawning = agent.tools.get("spawn")
    assert spawning is not None

    await agent.run(
        "go", model=model, tools=[count, spawning], system="This run.", behavior=RunOptions(temperature=0.1)
    )

    request = model.requests[1].request
    assert (results(agent)[0].text, request.system, request.temperature) == ("count", "This run.", 0.1)


@pytest.mark.covers("SUB-02")
async def test_inactive_tools_are_not_passed_to_a_subagent() -> None:
    helper = make_definition("helper", "x")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look, count])
    agent.active_tools = ("look", "spawn")
    await agent.run("go")
    assert [t.name for t in requests_of(helper)[0].tools] == ["look"]


@pytest.mark.covers("SUB-06", "SUB-03", "SUB-02", "SUB-07")
async def test_subagent_can_spawn_only_down_to_the_depth() -> None:
    def reply_with_tool_names(request: Any) -> Reply:
        return Reply(",".join(t.name for t in request.tools))

    agent = make_parent(spawn_call("go"), reply_with_tool_names, "done", tools=[look])
    await agent.run("go")
    assert results(agent)[0].text == "look"

    depths: list[int] = []
    second_agent = make_parent(
        spawn_call("one"), spawn_call("two"), reply_with_tool_names, "back at one", "done", tools=[look], options={"depth": 2},
        hooks={BeforeSpawn: lambda h: depths.append(h.depth)},
    )  # fmt: skip
    result = await second_agent.run("go")
    assert results(second_agent)[0].text == "back at one"
    inner = result.stats.children[0].children[0]
    assert (inner.depth, inner.child_id, result.stats.children[0].depth) == (2, "agent-2", 1)
    assert depths == [1]
    assert "look" in second_agent.tools
    with pytest.raises(ConfigError, match="1 to 3"):
        Subagents(depth=4)


@pytest.mark.covers("SUB-02")
async def test_definition_without_spawn_in_its_tools_cannot_spawn() -> None:
    helper = make_definition("helper", "x", tools=("look",))
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look], options={"depth": 3})
    await agent.run("go")
    assert [t.name for t in requests_of(helper)[0].tools] == ["look"]


@pytest.mark.covers("SUB-02")
async def test_permissions_apply_to_subagents() -> None:
    resources: list[str] = []

    def ask(request: Any) -> bool:
        resources.append(request.resource)
        return False

    helper = make_definition(
        "helper",
        ScriptedCall("write_file", {"path": "b.txt", "content": "x"}),
        ScriptedCall("read_file", {"path": "a.txt"}),
        "end",
    )
    env = MemoryEnv({"a.txt": "text"})
    agent = Agent(
        ScriptedModel(spawn_call("write b", "helper"), "done"), execution=env, tools=[write_file, read_file],
        permissions=Permissions(on_permission_request=ask), subagents=[helper],
    )  # fmt: skip
    await agent.run("go")

    seen = requests_of(helper)[-1].messages
    assert "Permission denied" in seen[2].tool_results[0].text
    assert "text" in seen[4].tool_results[0].text
    assert len(resources) == 1
    with pytest.raises(FileNotFoundError):
        await env.stat("b.txt")


@pytest.mark.covers("SUB-02", "SUB-05")
async def test_gates_of_the_application_apply_to_all_nested_subagents() -> None:
    def block_look(hook: Any) -> None:
        if hook.name == "look":
            hook.block = "not today"

    def deny_count(hook: Any) -> None:
        if hook.name == "count":
            hook.deny("not counted")

    inner = make_definition("inner", [ScriptedCall("look", {"key": "a"}), ScriptedCall("count", {"key": "b"})], "end")
    outer = make_definition("outer", spawn_call("inner task", "inner"), "end")
    agent = make_parent(
        spawn_call("outer task", "outer"), "done", kinds=[inner, outer], tools=[look, count], options={"depth": 2}
    )
    agent.on("tool:gate", block_look)
    await agent.run("go", hooks={"tool:permit": deny_count})

    answers = requests_of(inner)[-1].messages[-1].tool_results
    assert [r.text for r in answers] == ["Blocked: not today", "Permission denied: not counted"]


async def test_tool_budget_of_the_parent_does_not_apply_to_a_subagent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"}), "end")
    agent = make_parent(
        ScriptedCall("look", {"key": "c"}), spawn_call("go", "helper"), "done", kinds=[helper], tools=[look],
        behavior=RunOptions(tool_budgets={"look": 2}),
    )  # fmt: skip
    await agent.run("go")
    texts = [m.tool_results[0].text for m in requests_of(helper)[-1].messages if m.tool_results]
    assert texts == ["value of a", "value of b"]


@pytest.mark.covers("SUB-03", "HOK-36", "AGT-42")
async def test_parent_gets_events_and_stats_of_each_subagent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "it is a")
    agent = make_parent(spawn_call("find a", "helper"), "done", kinds=[helper], tools=[look])
    spawn_events = record_events(agent, "spawn:before", "spawn:complete", "spawn:error")
    result = await agent.run("go")

    assert [name for name, _ in spawn_events] == ["spawn:before", "spawn:complete"]
    before, complete = spawn_events[0][1], spawn_events[1][1]
    assert (before.child_id, before.child, before.depth, before.task) == ("helper-1", "helper", 1, "find a")
    assert (complete.text, complete.stats.status, complete.stats.turns) == ("it is a", "completed", 2)
    assert (complete.id, complete.name, complete.depth, complete.task) == ("helper-1", "helper", 1, "find a")
    assert complete.error is None
    assert complete.stats.tool_counts == {"look": 1}
    assert 0 < complete.stats.seconds <= result.stats.seconds
    assert result.stats.children == (complete.stats,)
    assert isinstance(complete.stats, SubagentStats)
    details = results(agent)[0].details
    assert (details["child_id"], details["status"], details["turns"]) == ("helper-1", "completed", 2)

    again = await agent.run("nothing to start", model=ScriptedModel("ok"))
    assert again.stats.children == ()


@pytest.mark.covers("HOK-36")
async def test_handler_can_change_or_block_a_spawn() -> None:
    helper = make_definition("helper", "ok")
    agent = make_parent(spawn_call("a", "helper"), spawn_call("b", "helper"), "done", kinds=[helper])

    def gate(hook: BeforeSpawn) -> None:
        if hook.task == "b":
            hook.block = "enough"
        hook.task = f"{hook.task}, please"

    agent.on(BeforeSpawn, gate)
    errors = record_events(agent, "spawn:error")
    await agent.run("go")
    assert [m.text for m in requests_of(helper)[0].messages] == ["a, please"]
    assert "Blocked: enough" in results(agent)[1].text
    assert [(e.stats.status, str(e.exception)) for _, e in errors] == [("denied", "Blocked: enough")]
    assert [e.error.message for _, e in errors] == ["Blocked: enough"]

    second_agent = make_parent(spawn_call("a"), "done")

    def broken(hook: BeforeSpawn) -> None:
        raise ZeroDivisionError

    second_agent.on(BeforeSpawn, broken)  # a failing check blocks the subagent
    await second_agent.run("go")
    assert "ZeroDivisionError" in results(second_agent)[0].text


@pytest.mark.covers("SUB-04", "HOK-36")
async def test_failed_subagent_is_reported_and_the_parent_continues() -> None:
    broken = make_definition("broken", Reply("half an", error=NetworkError("the line is cut", retryable=False)))
    fine = make_definition("fine", "fine")
    agent = make_parent([spawn_call("a", "broken"), spawn_call("b", "fine")], "both seen", kinds=[broken, fine])
    ends = record_events(agent, "spawn:error", "spawn:complete")
    result = await agent.run("go")

    assert result.text == "both seen"
    first, second = results(agent)
    assert first.is_error
    assert "it failed (the line is cut)" in first.text
    assert "half an" in first.text
    assert (second.text, second.is_error) == ("fine", False)
    assert {(name, end.name, end.stats.status) for name, end in ends} == {
        ("spawn:error", "broken", "error"),
        ("spawn:complete", "fine", "completed"),
    }
    assert len(ends) == 2
    assert {s.status for s in result.stats.children} == {"error", "completed"}


@pytest.mark.covers("SUB-04")
async def test_unusable_model_fails_only_the_subagent() -> None:
    agent = make_parent(spawn_call("a", "odd"), "done", kinds=[AgentDefinition(name="odd", model="nosuch:model")])
    errors = record_events(agent, "spawn:error")
    assert (await agent.run("go")).text == "done"
    assert results(agent)[0].is_error
    assert len(errors) == 1


@pytest.mark.covers("SUB-04")
async def test_incomplete_subagent_result_is_marked() -> None:
    endless = make_definition(
        "endless", Reply("so far", calls=[ScriptedCall("look", {"key": "a"})]), behavior=RunOptions(max_turns=1)
    )
    mute = make_definition(
        "mute", ScriptedCall("look", {"key": "a"}), "", "", "", "", behavior=RunOptions(max_repairs=0)
    )
    agent = make_parent(
        [spawn_call("a", "endless"), spawn_call("b", "mute")], "done", kinds=[endless, mute], tools=[look]
    )
    await agent.run("go")
    first, second = results(agent)
    assert first.text == "[The subagent did not finish: it reached its limit of turns. What it had so far:]\nso far"
    assert not first.is_error
    assert second.is_error
    assert "did not finish: it failed" in second.text


async def test_middle_of_a_long_result_is_cut() -> None:
    agent = make_parent(spawn_call("a"), "x" * 90 + "THE END", "done", options={"max_characters": 30})
    await agent.run("go")
    text = results(agent)[0].text
    assert text.startswith("x" * 20 + "\n[… 67 characters left out …]\n")
    assert text.endswith("THE END")


@pytest.mark.covers("BYD-03")
def test_order_of_definitions_does_not_change_the_tool() -> None:
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


async def test_tool_can_spawn_a_subagent_through_its_context() -> None:
    @tool
    async def survey(topic: str, ctx: ToolContext) -> str:
        """Survey something."""
        assert ctx.spawn is not None
        found = await ctx.spawn(f"survey {topic}", "helper", signal=ctx.signal)
        return f"found: {found.text}"

    helper = make_definition("helper", "much")
    agent = make_parent(ScriptedCall("survey", {"topic": "x"}), "done", kinds=[helper], tools=[survey])
    result = await agent.run("go")
    assert results(agent)[0].text == "found: much"
    assert len(result.stats.children) == 1
    assert ToolContext(env=MemoryEnv({})).spawn is None


async def test_application_can_spawn_a_subagent() -> None:
    subagents = Subagents([make_definition("helper", "much")])
    Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=subagents)
    result = await subagents.spawn("go", "helper")
    assert (result.text, result.status, result.error) == ("much", "completed", None)
    with pytest.raises(ToolError, match="Unknown kind of subagent: 'other'"):
        await subagents.spawn("go", "other")


async def test_subagents_of_an_agent_subclass_are_plain_agents() -> None:
    class CustomAgent(Agent):
        def __init__(self, name: str, *script: Any) -> None:
            super().__init__(ScriptedModel(*script), name=name, execution=MemoryEnv({}), subagents=True)

    agent = CustomAgent("mine", spawn_call("go"), "child's", "done")
    await agent.run("go")
    assert results(agent)[0].text == "child's"


def test_plugin_belongs_to_one_agent() -> None:
    subagents = Subagents()
    with pytest.raises(ConfigError, match="Agent"):
        subagents.install(Agent(ScriptedModel(), execution=MemoryEnv({})))
    Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=subagents)
    with pytest.raises(ConfigError, match="another agent"):
        Agent(ScriptedModel(), execution=MemoryEnv({}), plugs=[subagents])
    assert "spawn" not in Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=False).tools
    assert "spawn" in Agent(ScriptedModel(), execution=MemoryEnv({}), subagents=True).tools
