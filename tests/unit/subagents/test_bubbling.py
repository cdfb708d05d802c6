"""Events of subagents reach their parents, which can decide their calls."""

from typing import Any

import pytest

from mainspring.loop.hooks import (
    CHILD_HOOKS,
    HOOKS,
    BeforeSpawn,
    ChildHook,
    ChildMcpToolGate,
    ChildToolBefore,
    ChildToolError,
    ChildToolGate,
    McpToolGate,
    ToolGate,
)
from mainspring.messages import ToolUseBlock
from mainspring.testing.scripted_model import Reply, ScriptedCall
from mainspring.tools import tool
from tests.unit.subagents.harness import make_definition, make_parent, record_events, requests_of, results, spawn_call

pytestmark = pytest.mark.usefixtures("no_blocking")

NAMES = [hook.event for hook in CHILD_HOOKS]


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
    assert {(h.child_id, h.child, h.depth) for _, h in events} == {("helper-1", "helper", 1)}
    hooks = dict(reversed(events))
    assert (hooks["child:stream:thinking"].thinking, hooks["child:stream:text"].text) == ("let me see", "hm")
    assert hooks["child:tool:gate"].name == "look"
    assert hooks["child:tool:after"].result.text == "value of a"
    assert str(hooks["child:tool:error"].error) == "bad key"
    assert hooks["child:turn:after"].usage.total_tokens == 0


@pytest.mark.covers("SUB-06", "HOK-37")
async def test_events_of_nested_subagents_reach_every_ancestor() -> None:
    inner = make_definition("inner", ScriptedCall("look", {"key": "a"}), "deep")
    outer = make_definition("outer", spawn_call("deeper", "inner"), "back")
    agent = make_parent(spawn_call("deep", "outer"), "done", kinds=[inner, outer], tools=[look], options={"depth": 2})
    events = record_events(agent, "child:tool:gate", "child:stream:text")
    await agent.run("go")
    assert [(n, h.child, h.child_id, h.depth) for n, h in events] == [
        ("child:tool:gate", "outer", "outer-1", 1),
        ("child:tool:gate", "inner", "inner-2", 2),
        ("child:stream:text", "inner", "inner-2", 2),
        ("child:stream:text", "outer", "outer-1", 1),
    ]


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

    @agent.on(ChildToolGate)
    async def gate(hook: ChildToolGate) -> Any:
        if hook.input["key"] == "a":
            hook.block = "not a"
        if hook.input["key"] == "b":
            return {"result": "from above"}
        return None

    @agent.on(ChildToolBefore)
    def change(hook: ChildToolBefore) -> None:
        hook.input = {"key": "changed"}

    await agent.run("go")
    texts = [m.tool_results[0].text for m in requests_of(helper)[-1].messages if m.tool_results]
    assert texts == ["Blocked: not a", "from above", "value of changed"]


@pytest.mark.covers("HOK-38")
async def test_failing_parent_gate_blocks_the_call_of_a_subagent() -> None:
    helper = make_definition("helper", ScriptedCall("look", {"key": "a"}), "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper], tools=[look])

    def broken(hook: ChildToolGate) -> None:
        raise ZeroDivisionError

    agent.on(ChildToolGate, broken)
    agent.on(ChildToolError, lambda hook: None)
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
    helper = make_definition("helper", "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper])
    agent.on(ChildMcpToolGate, lambda hook: {"block": f"not from {hook.server} for {hook.child_id}"})
    fired: list[McpToolGate] = []

    async def emit_gate(hook: BeforeSpawn) -> None:
        async def emit_before_turn(_: Any) -> None:
            gate = McpToolGate(ToolUseBlock("1", "mcp__docs__find"), "turn", {})
            gate.server = "docs"
            gate.side_call = _.side_call
            fired.append(await hook.agent.bus.emit(gate))

        hook.agent.on("turn:before", emit_before_turn)

    agent.on(BeforeSpawn, emit_gate)
    await agent.run("go")
    assert [g.block for g in fired] == ["not from docs for helper-1"]


@pytest.mark.covers("HOK-37")
def test_child_hooks_mirror_the_hooks_of_a_subagent() -> None:
    assert NAMES == [
        "child:stream:text", "child:stream:thinking", "child:stream:end", "child:tool:gate", "child:tool:before",
        "child:tool:after", "child:tool:error", "child:mcp:tool:gate", "child:turn:after",
    ]  # fmt: skip
    for hook in CHILD_HOOKS:
        assert hook.event == f"child:{hook.of.event}"
        assert hook.gate == hook.of.gate
        assert HOOKS[hook.event] is hook


def test_child_hook_reads_and_writes_the_original_fields() -> None:
    original = ToolGate(ToolUseBlock("1", "look", {"key": "a"}), "turn", {})
    hook: ChildHook = ChildToolGate("helper-1", "helper", 2, original)
    assert (hook.name, hook.input, hook.is_decided, hook.depth) == ("look", {"key": "a"}, False, 2)
    hook.block = "no"
    assert original.block == "no"
    assert hook.is_decided
    with pytest.raises(AttributeError):
        _ = hook.nothing
    with pytest.raises(AttributeError):
        _ = hook.side_call


async def test_subagent_emits_no_unneeded_events() -> None:
    helper = make_definition("helper", "end")
    agent = make_parent(spawn_call("go", "helper"), "done", kinds=[helper])
    has_listeners: list[bool] = []

    def check_listeners(hook: BeforeSpawn) -> None:
        hook.agent.on("turn:before", lambda _: has_listeners.append(hook.agent.bus.has(HOOKS["stream:text"])))

    agent.on(BeforeSpawn, check_listeners)
    await agent.run("go")
    assert has_listeners == [False]
    assert results(agent)[0].text == "end"
