"""Presets: fields, unpacking, and merging."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.loop.hooks import ToolGate, TurnBefore
from mainspring.presets import BUILD_AGENT, PLAN_AGENT, Preset, basic, merge_presets
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import Tool, define_tool, tool


@tool
async def look(key: str) -> str:
    """Look something up."""
    return key


def make_tool(name: str, description: str = "x") -> Tool:
    return define_tool(name, description=description, parameters={"type": "object"}, execute=lambda a, c: "")


def handler(_: Any) -> None:
    """One handler of several."""


@pytest.mark.covers("PRE-01", "PRE-02")
def test_preset_has_only_shareable_fields() -> None:
    assert set(Preset.__struct_fields__) == {
        "name", "system", "tools", "tool_aliases", "behavior", "mcp_servers", "skills", "hooks", "subagents", "eager",
    }  # fmt: skip
    for option in ("provider", "model", "session", "execution", "mcp_connector"):
        fields: dict[str, Any] = {option: None}
        with pytest.raises(TypeError):
            Preset(**fields)


@pytest.mark.covers("PRE-01", "PRE-08")
async def test_preset_unpacks_into_agent_arguments() -> None:
    model = ScriptedModel("hi")
    preset = Preset(name="one", system="Be brief.", tools=[look], behavior=RunOptions(max_turns=3))
    merged: dict[str, Any] = {**preset, "system": "Be long."}
    agent = Agent(model, execution=MemoryEnv({}), **merged)

    await agent.run("go")

    assert model.requests[0].request.system == "Be long."
    assert (agent.name, [t.name for t in agent.tools], agent.behavior) == ("one", ["look"], RunOptions(max_turns=3))
    assert dict(Preset()) == {}
    with pytest.raises(KeyError):
        _ = preset["eager"]


def test_preset_can_be_used_repeatedly_even_from_a_generator() -> None:
    def generate_tools() -> Iterator[Tool]:
        yield look

    preset = Preset(tools=generate_tools())
    for _ in range(2):
        assert [t.name for t in Agent(ScriptedModel(), execution=MemoryEnv({}), **preset).tools] == ["look"]


@pytest.mark.covers("PRE-03")
async def test_basic_preset_has_the_builtin_tools() -> None:
    agent = Agent(ScriptedModel(), execution=MemoryEnv({}), **basic)
    assert {"read_file", "write_file", "edit", "glob", "grep", "shell"} <= {t.name for t in agent.tools}


@pytest.mark.covers("PRE-04")
def test_last_preset_wins_for_single_values() -> None:
    first = Preset(name="a", system="one", eager=True, skills=["x"], subagents=True)
    assert dict(merge_presets(first, Preset(name="b", skills=["y"]))) == {
        "name": "b", "system": "one", "eager": True, "skills": ["y"], "subagents": True,
    }  # fmt: skip
    assert merge_presets(first, Preset(system="", eager=False))["system"] == ""
    assert merge_presets(first, Preset(eager=False))["eager"] is False


@pytest.mark.covers("PRE-05")
def test_tools_aliases_and_behavior_are_merged_by_name() -> None:
    newer = make_tool("look", "newer")
    merged_preset = merge_presets(
        Preset(tools=[look, make_tool("b")], tool_aliases={"look": "l", "b": "bee"}, behavior=RunOptions(max_turns=1, thinking="low")),
        Preset(tools={"c": make_tool("c"), "look": newer}, tool_aliases={"look": "peek"}, behavior=RunOptions(max_turns=2)),
    )  # fmt: skip
    assert [t.name for t in merged_preset["tools"]] == ["look", "b", "c"]
    assert merged_preset["tools"][0] is newer
    assert merged_preset["tool_aliases"] == {"look": "peek", "b": "bee"}
    assert merged_preset["behavior"] == RunOptions(max_turns=2, thinking="low")


def test_function_is_renamed_by_its_key_but_a_tool_is_not() -> None:
    async def plain(key: str) -> str:
        return key

    assert Preset(tools={"renamed": plain})["tools"][0].name == "renamed"
    with pytest.raises(ConfigError, match="'other'"):
        Preset(tools={"other": look})


@pytest.mark.covers("PRE-06")
def test_servers_are_merged_by_name() -> None:
    merged_preset = merge_presets(
        Preset(mcp_servers=[{"name": "docs", "url": "one"}, {"name": "git", "command": "git"}]),
        Preset(mcp_servers={"docs": {"url": "two"}, "web": {"url": "three"}}),
    )
    assert merged_preset["mcp_servers"] == (
        {"name": "docs", "url": "two"},
        {"name": "git", "command": "git"},
        {"name": "web", "url": "three"},
    )
    with pytest.raises(ConfigError, match="needs a name"):
        Preset(mcp_servers=[{"url": "x"}])


@pytest.mark.covers("PRE-07")
async def test_handlers_are_concatenated_per_hook() -> None:
    calls: list[str] = []
    one = Preset(hooks={ToolGate: handler, "turn:before": lambda c: calls.append("one")})
    two = Preset(hooks={"turn:before": [lambda c: calls.append("two"), lambda c: calls.append("three")]})
    three = Preset(hooks={TurnBefore: lambda c: calls.append("four")})
    merged_preset = merge_presets(one, two, three)
    assert {event: len(handlers) for event, handlers in merged_preset["hooks"].items()} == {
        "tool:gate": 1,
        "turn:before": 4,
    }
    assert all(isinstance(handlers, list) for handlers in merged_preset["hooks"].values())
    assert isinstance(merge_presets(one)["hooks"]["tool:gate"], list)

    await Agent(ScriptedModel("hi"), execution=MemoryEnv({}), **merged_preset).run("go")

    assert calls == ["one", "two", "three", "four"]
    with pytest.raises(ConfigError, match="turn:before"):
        Preset(hooks={"turn:befor": handler})


@pytest.mark.covers("PRE-09")
def test_agent_profiles_override_behavior_defaults() -> None:
    default = RunOptions()
    build, plan = BUILD_AGENT["behavior"], PLAN_AGENT["behavior"]
    assert default.max_turns is None
    assert (build.max_turns, plan.max_turns, plan.thinking) == (200, 50, "medium")
    assert merge_presets(BUILD_AGENT, Preset(behavior=RunOptions(max_turns=5)))["behavior"].max_turns == 5
    assert {t.name for t in PLAN_AGENT["tools"]} == {"read_file", "glob", "grep", "list_files"}


values = st.one_of(st.just(UNSET), st.sampled_from(["x", "y"]))
presets = st.builds(
    lambda name, system, tools, hooks: Preset(
        name=name,
        system=system,
        tools=UNSET if tools is None else [make_tool(t) for t in tools],
        hooks=UNSET if hooks is None else {h: [handler] for h in hooks},
    ),
    values,
    values,
    st.none() | st.lists(st.sampled_from("abc"), unique=True),
    st.none() | st.lists(st.sampled_from(["tool:gate", "turn:before"]), unique=True),
)


def normalize(preset: Preset) -> dict[str, Any]:
    merged_preset = dict(preset)
    if "tools" in merged_preset:
        merged_preset["tools"] = [id(t) for t in merged_preset["tools"]]
    return merged_preset


@pytest.mark.covers("PRE-04", "PRE-05", "PRE-07")
@given(presets, presets, presets)
def test_merging_is_associative_with_an_empty_identity(a: Preset, b: Preset, c: Preset) -> None:
    assert normalize(merge_presets(merge_presets(a, b), c)) == normalize(merge_presets(a, merge_presets(b, c)))
    assert normalize(merge_presets(a, Preset())) == normalize(merge_presets(a)) == normalize(merge_presets(Preset(), a))
