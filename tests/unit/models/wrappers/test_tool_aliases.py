"""Tool aliases, which only the model sees."""

from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, ConfigError
from mainspring.events import ToolCallEnd, ToolCallStart, ToolExecutionStart
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import ToolBefore, ToolGate
from mainspring.messages import Message
from mainspring.models import EncodingCache, ModelRequest, ToolAliasModel
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import provider_tool_names, tool


@tool
async def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool
async def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


ALIASES = {"shell": "bash", "read_file": "shell", "missing": "gone"}


def make_agent(*script: Any, aliases: Any = ALIASES, **options: Any) -> tuple[CoreAgent, ScriptedModel]:
    model = ScriptedModel(*script)
    return CoreAgent(model, env=MemoryEnv({}), tools=[shell, read_file], tool_aliases=aliases, **options), model


def names(message: Any) -> list[str]:
    """Return all tool names in a message."""
    return [b.name for b in message.content if hasattr(b, "name")]


@pytest.mark.covers("TDF-16", "TDF-17")
async def test_only_the_model_sees_the_aliases() -> None:
    seen: list[tuple[str, str]] = []
    agent, model = make_agent(
        [ScriptedCall("bash", {"command": "ls"}, "1"), ScriptedCall("shell", {"path": "a"}, "2")], "done"
    )
    agent.on(ToolGate, lambda ctx: seen.append((ctx.name, ctx.display_name)))
    agent.on(ToolBefore, lambda ctx: seen.append((ctx.name, ctx.display_name)))
    labels: list[str] = []
    async with agent.stream("go") as run:
        async for event in run:
            match event:
                case ToolCallStart(name=name):
                    assert name in ("shell", "read_file")
                    assert names(event.partial)[-1] == name
                case ToolCallEnd(call=call):
                    assert call.name in ("shell", "read_file")
                case ToolExecutionStart(label=label):
                    labels.append(label)
                case _:
                    pass
    assert seen == [("shell", "bash")] * 2 + [("read_file", "shell")] * 2
    assert labels == ["bash", "shell"]
    answer, results = agent.messages[1:3]
    assert names(answer) == names(results) == ["shell", "read_file"]
    assert isinstance(results, Message)
    assert [r.text for r in results.tool_results] == ["ran ls", "text of a"]
    assert [t.name for t in model.requests[0].request.tools] == ["bash", "shell"]
    assert [names(m) for m in model.requests[1].messages] == [[], ["bash", "shell"], ["bash", "shell"]]


@pytest.mark.covers("TDF-18")
async def test_changed_aliases_do_not_affect_stored_messages() -> None:
    agent, model = make_agent([ScriptedCall("bash", {"command": "ls"}, "1")], "done", "again")
    await agent.run("go")
    before = agent.messages
    agent.tool_aliases = {"shell": "execute"}
    await agent.run("go on")
    assert agent.messages[: len(before)] == before
    assert [names(m) for m in model.requests[-1].messages if names(m)] == [["execute"], ["execute"]]
    assert [t.name for t in model.requests[-1].request.tools] == ["execute", "read_file"]


@pytest.mark.covers("TDF-16")
async def test_interrupted_message_is_stored_under_the_real_tool_name() -> None:
    cut = Reply("wait", calls=[ScriptedCall("bash", {"command": "ls"}, "1")], chunk_count=3, truncate_after=4)
    agent, _ = make_agent(cut, behavior=RunOptions(retry=None))
    with pytest.raises(AgentProviderError):
        await agent.run("go")
    assert names(agent.messages[1]) == ["shell"]

    agent, _ = make_agent(
        Reply("", calls=[ScriptedCall("bash", {"command": "ls"}, "1")], chunk_count=9, delta_delay=0.01)
    )

    def stop(event: Any) -> None:
        if event.type == "message_update" and event.event.type == "toolcall_delta":
            agent.abort()

    agent.subscribe(stop)
    with pytest.raises(AgentAbortedError):
        await agent.run("go")
    assert names(agent.messages[1]) == ["shell"]


@pytest.mark.covers("TDF-16")
async def test_real_name_works_too_and_tool_choice_is_translated() -> None:
    agent, _ = make_agent(ScriptedCall("read_file", {"path": "a"}, "1"), "done", aliases={"read_file": "read"})
    assert (await agent.run("go")).stats.tool_counts == {"read_file": 1}
    model = ScriptedModel("ok")
    aliased = ToolAliasModel(model, {"shell": "bash"})
    await aliased.complete(ModelRequest(messages=[Message.user("go")], tools=[shell.spec], tool_choice="shell"))
    assert model.requests[0].request.tool_choice == "bash"
    assert (aliased.provider, aliased.model, aliased.info) == (model.provider, model.model, model.info)
    await aliased.aclose()


async def test_message_is_translated_once() -> None:
    scratch, history = EncodingCache(), [Message.user("go")]
    model = ScriptedModel("a", ScriptedCall("bash", {"command": "ls"}, "1"), "c", "d")
    aliased = ToolAliasModel(model, {"shell": "bash"})
    for _ in range(2):
        history.append((await aliased.complete(ModelRequest(messages=history, scratch=scratch))).message)
    other = ToolAliasModel(model, {"shell": "bash"})
    await other.complete(ModelRequest(messages=history, scratch=scratch))
    await other.complete(ModelRequest(messages=[*history, Message.user("more")], scratch=scratch))
    third, fourth = [list(seen.request.messages) for seen in model.requests[2:]]
    assert names(third[2]) == ["bash"]
    assert all(a is b for a, b in zip(third, fourth, strict=False)), "so the cached encodings stay valid"


@pytest.mark.covers("TDF-16")
@pytest.mark.parametrize(
    ("aliases", "text"),
    [
        ({"shell": "read_file"}, "Tools shell and read_file would both be sent to the model as 'read_file'"),
        ({"shell": "x", "read_file": "x"}, "Tools shell and read_file would both be sent to the model as 'x'"),
        ({"shell": "not a name"}, "Use 1 to 128 letters"),
    ],
)
def test_conflicting_aliases_are_rejected_at_construction(aliases: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_agent(aliases=aliases)
    with pytest.raises(ConfigError, match=text):
        provider_tool_names(["shell", "read_file"], aliases)


async def test_aliases_that_conflict_with_the_tools_of_a_run_are_rejected() -> None:
    @tool
    async def bash() -> str:
        """Do something else."""
        return ""

    agent, _ = make_agent("ok")
    with pytest.raises(ConfigError, match="would both be sent to the model"):
        await agent.run("go", tools=[shell, bash])
    assert not agent.running
    assert (await agent.run("go")).text == "ok"
