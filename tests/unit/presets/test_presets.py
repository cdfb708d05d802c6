"""Presets: what they hold, how they unpack, and how several become one."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.loop import RunOptions
from mainspring.loop.hooks import ToolGate, TurnBefore
from mainspring.presets import BUILD_AGENT, PLAN_AGENT, Preset, basic, merge_presets
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import Tool, define_tool, tool


@tool
async def look(key: str) -> str:
    """Look something up."""
    return key


def named(name: str, description: str = "x") -> Tool:
    return define_tool(name, description=description, parameters={"type": "object"}, execute=lambda a, c: "")


def handler(_: Any) -> None:
    """One handler of several."""


@pytest.mark.covers("PRE-01", "PRE-02")
def test_a_preset_holds_what_can_be_shared_and_nothing_else() -> None:
    assert set(Preset.__struct_fields__) == {
        "name", "system", "tools", "tool_aliases", "behavior", "mcp_servers", "skills", "hooks", "subagents", "eager",
    }  # fmt: skip
    for option in ("provider", "model", "session", "execution", "mcp_connector"):
        fields: dict[str, Any] = {option: None}
        with pytest.raises(TypeError):
            Preset(**fields)


@pytest.mark.covers("PRE-01", "PRE-08")
async def test_a_preset_unpacks_into_an_agent_and_plain_merging_overrides_it() -> None:
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


def test_a_preset_can_be_used_many_times_whatever_it_was_made_of() -> None:
    def generated() -> Iterator[Tool]:
        yield look

    preset = Preset(tools=generated())
    for _ in range(2):
        assert [t.name for t in Agent(ScriptedModel(), execution=MemoryEnv({}), **preset).tools] == ["look"]


@pytest.mark.covers("PRE-03")
async def test_basic_is_the_built_in_tools() -> None:
    agent = Agent(ScriptedModel(), execution=MemoryEnv({}), **basic)
    assert {"read_file", "write_file", "edit", "glob", "grep", "shell"} <= {t.name for t in agent.tools}


@pytest.mark.covers("PRE-04")
def test_the_last_word_wins_for_single_values() -> None:
    first = Preset(name="a", system="one", eager=True, skills=["x"], subagents=True)
    assert dict(merge_presets(first, Preset(name="b", skills=["y"]))) == {
        "name": "b", "system": "one", "eager": True, "skills": ["y"], "subagents": True,
    }  # fmt: skip
    assert merge_presets(first, Preset(system="", eager=False))["system"] == ""
    assert merge_presets(first, Preset(eager=False))["eager"] is False


@pytest.mark.covers("PRE-05")
def test_tools_aliases_and_behavior_merge_by_name() -> None:
    newer = named("look", "newer")
    made = merge_presets(
        Preset(tools=[look, named("b")], tool_aliases={"look": "l", "b": "bee"}, behavior=RunOptions(max_turns=1, thinking="low")),
        Preset(tools={"c": named("c"), "look": newer}, tool_aliases={"look": "peek"}, behavior=RunOptions(max_turns=2)),
    )  # fmt: skip
    assert [t.name for t in made["tools"]] == ["look", "b", "c"]
    assert made["tools"][0] is newer
    assert made["tool_aliases"] == {"look": "peek", "b": "bee"}
    assert made["behavior"] == RunOptions(max_turns=2, thinking="low")


def test_a_function_under_a_name_gets_it_and_a_tool_has_one_already() -> None:
    async def plain(key: str) -> str:
        return key

    assert Preset(tools={"renamed": plain})["tools"][0].name == "renamed"
    with pytest.raises(ConfigError, match="'other'"):
        Preset(tools={"other": look})


@pytest.mark.covers("PRE-06")
def test_servers_are_joined_and_of_one_name_the_last_wins() -> None:
    made = merge_presets(
        Preset(mcp_servers=[{"name": "docs", "url": "one"}, {"name": "git", "command": "git"}]),
        Preset(mcp_servers={"docs": {"url": "two"}, "web": {"url": "three"}}),
    )
    assert made["mcp_servers"] == (
        {"name": "docs", "url": "two"},
        {"name": "git", "command": "git"},
        {"name": "web", "url": "three"},
    )
    with pytest.raises(ConfigError, match="needs a name"):
        Preset(mcp_servers=[{"url": "x"}])


@pytest.mark.covers("PRE-07")
async def test_handlers_are_joined_per_hook_in_the_order_of_the_presets() -> None:
    heard: list[str] = []
    one = Preset(hooks={ToolGate: handler, "turn:before": lambda c: heard.append("one")})
    two = Preset(hooks={"turn:before": [lambda c: heard.append("two"), lambda c: heard.append("three")]})
    three = Preset(hooks={TurnBefore: lambda c: heard.append("four")})
    made = merge_presets(one, two, three)
    assert {event: len(handlers) for event, handlers in made["hooks"].items()} == {"tool:gate": 1, "turn:before": 4}
    assert all(isinstance(handlers, list) for handlers in made["hooks"].values())
    assert isinstance(merge_presets(one)["hooks"]["tool:gate"], list)

    await Agent(ScriptedModel("hi"), execution=MemoryEnv({}), **made).run("go")

    assert heard == ["one", "two", "three", "four"]
    with pytest.raises(ConfigError, match="turn:before"):
        Preset(hooks={"turn:befor": handler})


@pytest.mark.covers("PRE-09")
def test_chat_profiles_override_the_defaults_of_behavior() -> None:
    default = RunOptions().resolve()
    build, plan = BUILD_AGENT["behavior"].resolve(), PLAN_AGENT["behavior"].resolve()
    assert default.max_turns is None
    assert (build.max_turns, plan.max_turns, plan.thinking) == (200, 50, "medium")
    assert merge_presets(BUILD_AGENT, Preset(behavior=RunOptions(max_turns=5)))["behavior"].resolve().max_turns == 5
    assert {t.name for t in PLAN_AGENT["tools"]} == {"read_file", "glob", "grep", "list_files"}


values = st.one_of(st.just(UNSET), st.sampled_from(["x", "y"]))
presets = st.builds(
    lambda name, system, tools, hooks: Preset(
        name=name,
        system=system,
        tools=UNSET if tools is None else [named(t) for t in tools],
        hooks=UNSET if hooks is None else {h: [handler] for h in hooks},
    ),
    values,
    values,
    st.none() | st.lists(st.sampled_from("abc"), unique=True),
    st.none() | st.lists(st.sampled_from(["tool:gate", "turn:before"]), unique=True),
)


def shape(preset: Preset) -> dict[str, Any]:
    made = dict(preset)
    if "tools" in made:
        made["tools"] = [id(t) for t in made["tools"]]
    return made


@pytest.mark.covers("PRE-04", "PRE-05", "PRE-07")
@given(presets, presets, presets)
def test_composing_is_associative_and_an_empty_preset_changes_nothing(a: Preset, b: Preset, c: Preset) -> None:
    assert shape(merge_presets(merge_presets(a, b), c)) == shape(merge_presets(a, merge_presets(b, c)))
    assert shape(merge_presets(a, Preset())) == shape(merge_presets(a)) == shape(merge_presets(Preset(), a))
