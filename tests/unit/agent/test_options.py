"""What an agent and a run are given is what they know, or is refused in words before anything is done with it."""

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


def agent(**options: Any) -> Agent:
    options.setdefault("execution", MemoryEnv({}))
    return Agent(options.pop("model", None) or ScriptedModel("done"), **options)


def test_an_option_that_does_not_exist_names_the_one_that_was_meant() -> None:
    for make in (agent, lambda **o: create_agent(ScriptedModel(), **o)):
        with pytest.raises(TypeError, match="Unknown option of Agent: 'sytem'. Did you mean 'system'"):
            make(sytem="x")
    with pytest.raises(TypeError, match="Did you mean 'tool_aliases'"):
        agent(tool_alias={})
    with pytest.raises(TypeError, match="'zzz'. Options: behavior, callbacks, convert, eager, execution"):
        agent(zzz=1)


async def test_so_does_one_of_a_run() -> None:
    with pytest.raises(TypeError, match="Unknown option of a run: 'behaviour'. Did you mean 'behavior'"):
        await agent().run("go", **cast("Any", {"behaviour": None}))
    with pytest.raises(TypeError, match="Did you mean 'tools'"):
        agent().stream("go", **cast("Any", {"tool": []}))  # at once, not when somebody waits


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
def test_a_value_that_cannot_be_is_told(option: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        agent(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("model", 5), ("tools", "greet"), ("tools", ["greet"]), ("system", 5), ("hooks", [1]), ("signal", 5)],
)
async def test_nor_can_one_of_a_run(option: str, value: Any) -> None:
    made = agent()
    with pytest.raises(ConfigError):
        await made.run("go", **cast("Any", {option: value}))
    assert made.messages == ()


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    wrong = tmp_path / "typo"
    for make in (lambda: agent(execution=str(wrong)), lambda: agent(execution=wrong), lambda: LocalEnv(wrong)):
        with pytest.raises(ConfigError, match=f"Folder not found: {re.escape(str(wrong))}"):
            make()
    assert not wrong.exists()
    assert agent(execution=tmp_path).env.cwd == str(tmp_path)


async def test_so_is_a_folder_of_skills_before_the_model_is_asked(tmp_path: Path) -> None:
    made = agent(skills=str(tmp_path / "typo"))
    with pytest.raises(ConfigError, match=f"Skills folder not found: {re.escape(str(tmp_path / 'typo'))}"):
        await made.run("go")
    assert made.messages == ()
    assert (await agent(skills=tmp_path).run("go")).text == "done"


def test_sub_agents_are_definitions() -> None:
    with pytest.raises(ConfigError, match=r"Subagents must be AgentDefinition\(...\), not 'x'"):
        Subagents(cast("Any", ["x"]))


def test_a_function_that_cannot_be_a_tool_says_what_to_write() -> None:
    def look(ctx, key: str) -> str:
        """Look."""
        return key

    with pytest.raises(TypeError, match=f"Write `ctx: {ToolContext.__name__}` if it receives the context of the call"):
        agent(tools=[look])
