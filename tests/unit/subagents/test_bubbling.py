"""What sub-agents do is heard by those above them, and decided there."""

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
from tests.unit.subagents.harness import heard, kind, parent, requests_of, results, spawn

pytestmark = pytest.mark.usefixtures("no_blocking")

NAMES = [hook.event for hook in CHILD_HOOKS]


@tool
async def look(key: str) -> str:
    """Look something up."""
    if key == "bad":
        raise ValueError("bad key")
    return f"value of {key}"


@pytest.mark.covers("HOK-37")
async def test_what_a_child_does_is_heard_with_its_id_and_depth() -> None:
    helper = kind(
        "helper",
        Reply("hm", thinking="let me see", calls=[ScriptedCall("look", {"key": "a"})]),
        ScriptedCall("look", {"key": "bad"}),
        "end",
    )
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look])
    told = heard(one, *NAMES)
    await one.run("go")

    assert [name.removeprefix("child:") for name, _ in told] == [
        "stream:thinking", "stream:text", "stream:end", "turn:after", "tool:gate", "tool:before", "tool:after",
        "turn:after", "tool:gate", "tool:before", "tool:error", "tool:after",
        "stream:text", "stream:end", "turn:after",
    ]  # fmt: skip
    assert {(h.child_id, h.child, h.depth) for _, h in told} == {("helper-1", "helper", 1)}
    hooks = dict(reversed(told))
    assert (hooks["child:stream:thinking"].thinking, hooks["child:stream:text"].text) == ("let me see", "hm")
    assert hooks["child:tool:gate"].name == "look"
    assert hooks["child:tool:after"].result.text == "value of a"
    assert str(hooks["child:tool:error"].error) == "bad key"
    assert hooks["child:turn:after"].usage.total_tokens == 0


@pytest.mark.covers("SUB-06", "HOK-37")
async def test_grandchildren_are_heard_by_everybody_above_with_their_own_depth() -> None:
    inner = kind("inner", ScriptedCall("look", {"key": "a"}), "deep")
    outer = kind("outer", spawn("deeper", "inner"), "back")
    one = parent(spawn("deep", "outer"), "done", kinds=[inner, outer], tools=[look], options={"depth": 2})
    told = heard(one, "child:tool:gate", "child:stream:text")
    await one.run("go")
    assert [(n, h.child, h.child_id, h.depth) for n, h in told] == [
        ("child:tool:gate", "outer", "outer-1", 1),
        ("child:tool:gate", "inner", "inner-2", 2),
        ("child:stream:text", "inner", "inner-2", 2),
        ("child:stream:text", "outer", "outer-1", 1),
    ]


@pytest.mark.covers("HOK-38", "SUB-05")
async def test_a_parent_decides_within_the_childs_own_gate() -> None:
    helper = kind(
        "helper",
        ScriptedCall("look", {"key": "a"}),
        ScriptedCall("look", {"key": "b"}),
        ScriptedCall("look", {"key": "c"}),
        "end",
    )
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look])

    @one.on(ChildToolGate)
    async def gate(hook: ChildToolGate) -> Any:
        if hook.input["key"] == "a":
            hook.block = "not a"
        if hook.input["key"] == "b":
            return {"result": "from above"}
        return None

    @one.on(ChildToolBefore)
    def change(hook: ChildToolBefore) -> None:
        hook.input = {"key": "changed"}

    await one.run("go")
    texts = [m.tool_results[0].text for m in requests_of(helper)[-1].messages if m.tool_results]
    assert texts == ["Blocked: not a", "from above", "value of changed"]


@pytest.mark.covers("HOK-38")
async def test_a_parents_gate_that_fails_blocks_the_childs_call() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "a"}), "end")
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look])

    def broken(hook: ChildToolGate) -> None:
        raise ZeroDivisionError

    one.on(ChildToolGate, broken)
    one.on(ChildToolError, lambda hook: None)
    await one.run("go")
    assert "ZeroDivisionError" in requests_of(helper)[-1].messages[-1].tool_results[0].text


@pytest.mark.covers("HOK-38")
async def test_an_error_of_a_child_can_be_answered_from_above() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "bad"}), "end")
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look])
    one.on("child:tool:error", lambda hook: {"result": "mended"})
    await one.run("go")
    assert requests_of(helper)[-1].messages[-1].tool_results[0].text == "mended"


@pytest.mark.covers("HOK-38")
async def test_gates_that_are_added_while_a_child_runs_are_asked() -> None:
    helper = kind("helper", ScriptedCall("look", {"key": "a"}), "end")
    one = parent(spawn("go", "helper"), "done", kinds=[helper], tools=[look])

    def late(hook: BeforeSpawn) -> None:
        hook.agent.on("turn:before", lambda _: one.on("child:tool:gate", lambda g: {"block": "late"}))

    one.on(BeforeSpawn, late)
    await one.run("go")
    assert requests_of(helper)[-1].messages[-1].tool_results[0].text == "Blocked: late"


@pytest.mark.covers("HOK-37")
async def test_the_gate_of_mcp_tools_bubbles_too() -> None:
    helper = kind("helper", "end")
    one = parent(spawn("go", "helper"), "done", kinds=[helper])
    one.on(ChildMcpToolGate, lambda hook: {"block": f"not from {hook.server} for {hook.child_id}"})
    fired: list[McpToolGate] = []

    async def fire(hook: BeforeSpawn) -> None:
        async def during(_: Any) -> None:
            gate = McpToolGate(ToolUseBlock("1", "mcp__docs__find"), "turn", {})
            gate.server = "docs"
            gate.side_call = _.side_call
            fired.append(await hook.agent.bus.emit(gate))

        hook.agent.on("turn:before", during)

    one.on(BeforeSpawn, fire)
    await one.run("go")
    assert [g.block for g in fired] == ["not from docs for helper-1"]


@pytest.mark.covers("HOK-37")
def test_every_child_hook_stands_for_one_of_a_child() -> None:
    assert NAMES == [
        "child:stream:text", "child:stream:thinking", "child:stream:end", "child:tool:gate", "child:tool:before",
        "child:tool:after", "child:tool:error", "child:mcp:tool:gate", "child:turn:after",
    ]  # fmt: skip
    for hook in CHILD_HOOKS:
        assert hook.event == f"child:{hook.of.event}"
        assert hook.gate == hook.of.gate
        assert HOOKS[hook.event] is hook


def test_a_child_hook_reads_and_sets_the_fields_of_the_childs_own() -> None:
    own = ToolGate(ToolUseBlock("1", "look", {"key": "a"}), "turn", {})
    hook: ChildHook = ChildToolGate("helper-1", "helper", 2, own)
    assert (hook.name, hook.input, hook.is_decided, hook.depth) == ("look", {"key": "a"}, False, 2)
    hook.block = "no"
    assert own.block == "no"
    assert hook.is_decided
    with pytest.raises(AttributeError):
        _ = hook.nothing
    with pytest.raises(AttributeError):
        _ = hook.side_call


async def test_a_child_costs_its_parent_no_events_that_nobody_asked_for() -> None:
    helper = kind("helper", "end")
    one = parent(spawn("go", "helper"), "done", kinds=[helper])
    listened: list[bool] = []

    def look_at(hook: BeforeSpawn) -> None:
        hook.agent.on("turn:before", lambda _: listened.append(hook.agent.bus.has(HOOKS["stream:text"])))

    one.on(BeforeSpawn, look_at)
    await one.run("go")
    assert listened == [False]
    assert results(one)[0].text == "end"
