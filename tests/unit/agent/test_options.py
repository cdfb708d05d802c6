"""Unknown and invalid options of an agent or a run are rejected before anything runs."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring import Agent, Permissions, create_agent
from mainspring.env import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.subagents import Subagents
from mainspring.testing import ScriptedModel
from mainspring.tools import ToolContext


def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"


def make_agent(**options: Any) -> Agent:
    options.setdefault("execution", MemoryEnv({}))
    return Agent(options.pop("model", None) or ScriptedModel("done"), **options)


def test_unknown_agent_option_suggests_the_right_name() -> None:
    for make in (make_agent, lambda **o: create_agent(ScriptedModel(), **o)):
        with pytest.raises(TypeError, match=r"'temprature'\. Did you mean behavior=RunOptions\(temperature=\.\.\.\)\?"):
            make(temprature=0.1)
        with pytest.raises(TypeError, match="Unknown option of Agent: 'sytem'. Did you mean 'system'"):
            make(sytem="x")
    with pytest.raises(TypeError, match="Did you mean 'tool_aliases'"):
        make_agent(tool_alias={})
    with pytest.raises(TypeError, match="'zzz'. Options: behavior, callbacks, convert, deps_type, eager, execution"):
        make_agent(zzz=1)


async def test_unknown_run_option_suggests_the_right_name() -> None:
    with pytest.raises(TypeError, match="Unknown option of a run: 'behaviour'. Did you mean 'behavior'"):
        await make_agent().run("go", **cast("Any", {"behaviour": None}))
    with pytest.raises(TypeError, match="Did you mean 'tools'"):
        make_agent().stream("go", **cast("Any", {"tool": []}))  # raised by the call, not by the first await


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("model", 5, "'provider:model', or a ModelProvider"),
        ("provider", 5, "a provider's name"),
        ("name", 5, "a text"),
        ("system", 5, "a text"),
        ("tools", "read_file", "a list of tools and functions"),
        ("tools", greet, "a list of tools and functions"),
        ("tools", ["read_file"], "'read_file', which is not a tool"),
        ("execution", 5, "a folder, or an ExecutionEnv"),
        ("execution", LocalEnv, "a folder, or an ExecutionEnv"),
        ("subagents", 5, "AgentDefinition"),
        ("subagents", ["x"], "AgentDefinition"),
        ("skills", 5, "a list of folders"),
        ("extensions", 5, "a list of functions"),
        ("callbacks", 5, "AgentCallbacks"),
        ("plugs", 5, "a list of plugs"),
        ("plugs", Permissions(), "a list of plugs"),
        ("hooks", [1], "hooks={ToolGate: check}"),
        ("messages", 5, "a list of messages"),
        ("steps", 5, "Steps"),
        ("ledger", 5, "the ledger of another agent"),
        ("tool_aliases", "x", "a mapping"),
        ("eager", "yes", "True or False"),
        ("convert", 5, "a function"),
        ("transform", 5, "a function"),
        ("extra", 5, "a mapping"),
    ],
)
def test_invalid_agent_option_value_is_rejected(option: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        make_agent(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("model", 5), ("tools", "greet"), ("tools", ["greet"]), ("system", 5), ("hooks", [1]), ("signal", 5)],
)
async def test_invalid_run_option_value_is_rejected(option: str, value: Any) -> None:
    agent = make_agent()
    with pytest.raises(ConfigError):
        await agent.run("go", **cast("Any", {option: value}))
    assert agent.messages == ()


def test_missing_working_folder_is_rejected_and_not_created(tmp_path: Path) -> None:
    wrong = tmp_path / "typo"
    for make in (
        lambda: make_agent(execution=str(wrong)),
        lambda: make_agent(execution=wrong),
        lambda: LocalEnv(wrong),
    ):
        with pytest.raises(ConfigError, match=f"Folder not found: {re.escape(str(wrong))}"):
            make()
    assert not wrong.exists()
    assert make_agent(execution=tmp_path).env.cwd == str(tmp_path)


async def test_missing_skills_folder_is_rejected_before_the_model_call(tmp_path: Path) -> None:
    agent = make_agent(skills=str(tmp_path / "typo"))
    with pytest.raises(ConfigError, match=f"Skills folder not found: {re.escape(str(tmp_path / 'typo'))}"):
        await agent.run("go")
    assert agent.messages == ()
    assert (await make_agent(skills=tmp_path).run("go")).text == "done"


def test_subagents_must_be_agent_definitions() -> None:
    with pytest.raises(ConfigError, match=r"Subagents must be AgentDefinition\(...\), not 'x'"):
        Subagents(cast("Any", ["x"]))


def test_tool_function_with_an_untyped_context_is_rejected_with_a_hint() -> None:
    def look(ctx, key: str) -> str:
        """Look."""
        return key

    with pytest.raises(TypeError, match=f"Write `ctx: {ToolContext.__name__}` if it receives the context of the call"):
        make_agent(tools=[look])
