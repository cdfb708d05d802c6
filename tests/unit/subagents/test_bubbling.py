"""Events of subagents reach their parents, which can decide their calls."""

from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.events import SubagentEvent, TextDelta
from mainspring.loop.hooks import ALIASES, BeforeSpawn, ToolBefore, ToolFailed, ToolGate, resolve
from mainspring.testing.scripted_model import Reply, ScriptedCall
from mainspring.tools import tool
from tests.unit.subagents.harness import make_definition, make_parent, record_events, requests_of, results, spawn_call

pytestmark = pytest.mark.usefixtures("no_blocking")

NAMES = [name for name in ALIASES if name.startswith("child:")]


def read_identity(received: Any) -> tuple[str, int]:
    """Return the ID and depth of the subagent whose hook or event a parent received."""
    return (received.id if isinstance(received, SubagentEvent) else received.child_id), received.depth


@tool
async def look(key: str) -> str:
    """Look something up."""
    if key == "bad":
        raise ValueError("bad key")
    return f"value of {key}"


@pytest.mark.covers("HOK-37")
async def test_child_events_have_its_id_and_depth() -> None:
    helper = make_definition(
        "helper",
        Reply("hm", thinking="let me see", calls=[ScriptedCall("look", {"key": "a"})]),
        ScriptedCall("look", {"key": "bad"}),
        "end",
    )
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])
    events = record_events(agent, *NAMES)
    await agent.run("go")

    assert [name.removeprefix("child:") for name, _ in events] == [
        "stream:thinking", "stream:text", "stream:end", "turn:after", "tool:gate", "tool:before", "tool:after",
        "turn:after", "tool:gate", "tool:before", "tool:error", "tool:after",
        "stream:text", "stream:end", "turn:after",
    ]  # fmt: skip
    assert {read_identity(each) for _, each in events} == {("helper-1", 1)}
    assert {(h.child_id, h.depth) for _, h in events} == {("helper-1", 1)}, (
        "hooks and events have the same names for it"
    )
    assert {h.child for _, h in events if not isinstance(h, SubagentEvent)} == {"helper"}
    hooks = dict(reversed(events))
    thinking, text = hooks["child:stream:thinking"].event, hooks["child:stream:text"].event
    assert (thinking.text, text.text, hooks["child:stream:end"].event.text) == ("let me see", "hm", "hm")
    assert hooks["child:tool:gate"].name == "look"
    assert hooks["child:tool:after"].result.text == "value of a"
    assert str(hooks["child:tool:error"].error) == "bad key"
    assert hooks["child:turn:after"].usage.total_tokens == 0


@pytest.mark.covers("SUB-05", "SUB-06", "HOK-37")
async def test_events_of_nested_subagents_reach_every_ancestor() -> None:
    inner = make_definition("inner", ScriptedCall("look", {"key": "a"}), "deep")
    outer = make_definition("outer", spawn_call("deeper", "inner"), "back")
    agent = make_parent(spawn_call("deep", "outer"), "done", kinds=[inner, outer], tools=[look], options={"depth": 2})
    events = record_events(agent, "child:tool:gate", "child:stream:text")
    await agent.run("go")
    assert [(name, *read_identity(each)) for name, each in events] == [
        ("child:tool:gate", "outer-1", 1),
        ("child:tool:gate", "inner-2", 2),
        ("child:stream:text", "inner-2", 2),
        ("child:stream:text", "outer-1", 1),
    ]
    assert [h.child for _, h in events[:2]] == ["outer", "inner"]
    assert events[2][1].path == ("outer-1", "inner-2")


@pytest.mark.covers("HOK-38", "SUB-05")
async def test_parent_gate_can_decide_calls_of_a_subagent() -> None:
    helper = make_definition(
        "helper",
        ScriptedCall("look", {"key": "a"}),
        ScriptedCall("look", {"key": "b"}),
        ScriptedCall("look", {"key": "c"}),
        "end",
    )
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])

    @agent.on(ToolGate, subagents=True)
    async def gate(hook: ToolGate) -> Any:
        assert hook.child_id == "helper-1"
        if hook.input["key"] == "a":
            hook.block = "not a"
        if hook.input["key"] == "b":
            return {"result": "from above"}
        return None

    @agent.on(ToolBefore, subagents=True)
    def change(hook: ToolBefore) -> None:
        hook.input = {"key": "changed"}

    await agent.run("go")
    texts = [m.tool_results[0].text for m in requests_of(helper)[-1].messages if m.tool_results]
    assert texts == ["Blocked: not a", "from above", "value of changed"]


@pytest.mark.covers("HOK-38")
async def test_failing_parent_gate_blocks_the_call_of_a_subagent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])

    def broken(hook: ToolGate) -> None:
        raise ZeroDivisionError

    agent.on("child:tool:gate", broken)
    agent.on(ToolFailed, lambda hook: None, subagents=True)
    await agent.run("go")
    assert "ZeroDivisionError" in requests_of(helper)[-1].messages[-1].tool_results[0].text


@pytest.mark.covers("HOK-38")
async def test_parent_can_replace_a_tool_error_of_a_subagent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "bad"}), "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])
    agent.on("child:tool:error", lambda hook: {"result": "mended"})
    await agent.run("go")
    assert requests_of(helper)[-1].messages[-1].tool_results[0].text == "mended"


@pytest.mark.covers("HOK-38")
async def test_gate_added_during_a_subagent_run_is_called() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])

    def add_late_gate(hook: BeforeSpawn) -> None:
        hook.agent.on("turn:before", lambda _: agent.on("child:tool:gate", lambda g: {"block": "late"}))

    agent.on(BeforeSpawn, add_late_gate)
    await agent.run("go")
    assert requests_of(helper)[-1].messages[-1].tool_results[0].text == "Blocked: late"


@pytest.mark.covers("HOK-37")
async def test_mcp_tool_gate_reaches_the_parent() -> None:
    calls = [ScriptedCall("look", {"key": "a"}), ScriptedCall("find", {"key": "a"})]
    helper = make_definition("helper", calls, "end")
    find = replace(look, name="find", source="mcp:docs")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look, find])
    agent.on("child:mcp:tool:gate", lambda hook: {"block": f"not from {hook.server} for {hook.child_id}"})
    await agent.run("go")
    texts = [r.text for r in requests_of(helper)[-1].messages[-1].tool_results]
    assert texts == ["value of a", "Blocked: not from docs for helper-1"]


async def test_mcp_tool_gate_of_the_parent_applies_to_subagents() -> None:
    helper = make_definition("helper", ScriptedCall("find", {"key": "a"}), "end")
    find = replace(look, name="find", source="mcp:docs")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[find])
    agent.on("mcp:tool:gate", lambda hook: {"block": f"not {hook.name}"})
    await agent.run("go")
    assert [r.text for r in requests_of(helper)[-1].messages[-1].tool_results] == ["Blocked: not find"]


@pytest.mark.covers("HOK-37")
def test_child_names_select_the_hooks_and_events_of_a_subagent() -> None:
    assert sorted(NAMES) == sorted([
        "child:stream:text", "child:stream:thinking", "child:stream:end", "child:tool:gate", "child:tool:before",
        "child:tool:after", "child:tool:error", "child:mcp:tool:gate", "child:turn:after",
    ])  # fmt: skip
    for name in NAMES:
        own = resolve(name.removeprefix("child:"))
        assert not own.subagents
        assert resolve(name) == replace(own, subagents=True, when=ALIASES[name].when)


@pytest.mark.covers("HOK-38")
async def test_parent_gets_the_hook_of_its_subagent_itself() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])
    own: list[ToolGate] = []
    above: list[ToolGate] = []
    skipped: list[ToolGate] = []
    agent.on(BeforeSpawn, lambda hook: hook.agent.on(ToolGate, own.append) and None)

    @agent.on(ToolGate, subagents=True)
    def gate(hook: ToolGate) -> None:
        assert (hook.name, hook.input, hook.is_decided, hook.depth) == ("look", {"key": "a"}, False, 1)
        assert not hasattr(hook, "nothing")
        above.append(hook)
        hook.block = "no"

    agent.on("child:tool:gate", skipped.append)  # the call is decided
    parents: list[ToolGate] = []
    agent.on(ToolGate, parents.append)
    await agent.run("go")
    assert len(own) == len(above) == 1
    assert own[0] is above[0]
    assert own[0].block == "no"
    assert skipped == []
    assert [(h.name, h.child_id, h.child, h.depth) for h in parents[:1]] == [("spawn", "", "", 0)]


async def test_subagent_emits_no_unneeded_events() -> None:
    helper = make_definition("helper", "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper])
    has_listeners: list[bool] = []

    def check_listeners(hook: BeforeSpawn) -> None:
        hook.agent.on("turn:before", lambda _: has_listeners.append(hook.agent.bus.is_heard(TextDelta)))

    agent.on(BeforeSpawn, check_listeners)
    await agent.run("go")
    assert has_listeners == [False]
    assert results(agent)[0].text == "end"
