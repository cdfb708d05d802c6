"""Tools of servers as toolsets, and requests of servers during calls of several conversations."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from mainspring import Agent, McpPlug, McpServerConfig, Permissions, Toolset, connect_mcp
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.mcp import ElicitRequest, ElicitResult, InMemoryConnector, InMemoryServer, SamplingRequest
from mainspring.mcp.types import PromptMessage
from mainspring.messages import Message, ToolResultBlock
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool
from tests.unit.mcp.harness import get_plugin, make_agent, make_echo_server, make_tool_info, results, wait_until


def tool_names(tools: Iterable[Tool]) -> list[str]:
    return [tool.name for tool in tools]


def tool_results(messages: Iterable[object]) -> list[ToolResultBlock]:
    return [r for m in messages if isinstance(m, Message) for r in m.tool_results]


async def test_tools_of_a_connected_server_are_a_toolset() -> None:
    connector = InMemoryConnector({"s": make_echo_server("find", "delete")})
    async with connect_mcp({"name": "s", "command": "-"}, connector=connector) as server:
        tools = server.toolset().filter(lambda each: each.name != "mcp__s__delete").prefix("x_")
        agent = Agent(
            ScriptedModel(ScriptedCall("x_mcp__s__find", {"text": "a"}), "ok"), tools=tools, execution=MemoryEnv()
        )
        await agent.run("go")
        assert results(agent)[0].content == "find: a"


async def test_tools_of_an_agents_servers_are_changed_like_a_toolset() -> None:
    server = make_echo_server("find", "delete")
    script = [ScriptedCall("files_find", {"text": "a"}), ScriptedCall("files_delete", {"text": "b"}), "ok"]
    agent = make_agent({"s": server}, *script, permissions=Permissions(allow=["*"], deny=["mcp__s__find"]))
    get_plugin(agent).change_tools(
        "s",
        lambda tools: tools.rename({"mcp__s__find": "files_find", "mcp__s__delete": "files_delete"}).require_approval(
            "files_delete"
        ),
    )
    await agent.run("go")
    denied, approval = results(agent)
    assert "Permission denied" in str(denied.content)  # the rule for its earlier name
    assert approval.is_error  # no user to approve it
    assert server.calls == []
    server.set_tools([(make_tool_info(name), lambda text="": text) for name in ("find", "delete", "new")])
    await wait_until(lambda: "mcp__s__new" in tool_names(agent.tools))
    assert {"files_find", "files_delete"} <= set(tool_names(agent.tools))
    await agent.shutdown()


async def test_conversations_share_the_changed_tools() -> None:
    server = make_echo_server("find")
    agent = make_agent({"s": server}, ScriptedCall("w_mcp__s__find", {"text": "a"}), "ok")
    get_plugin(agent).change_tools("s", lambda tools: tools.prefix("w_"))
    conversation = agent.conversation()
    await conversation.run("go")
    assert tool_results(conversation.messages)[0].content == "find: a"
    await agent.shutdown()


async def test_failing_function_leaves_the_server_without_tools_and_fails_the_run() -> None:
    agent = make_agent({"s": make_echo_server("find")}, "ok")
    plug = get_plugin(agent)
    plug.change_tools("s", lambda tools: tools.rename({"nope": "x"}))
    with pytest.raises(ConfigError, match=r"change_tools for MCP server 's' failed.*Unknown tool: nope"):
        await agent.run("go")
    assert tool_names(agent.tools) == []
    plug.change_tools("s", Toolset.combine)
    assert tool_names(agent.tools) == ["mcp__s__find"]
    with pytest.raises(ConfigError, match="Unknown MCP server: 'other'"):
        plug.change_tools("other", Toolset.combine)
    await agent.shutdown()


async def test_function_that_fails_after_a_run_fails_each_later_run() -> None:
    def break_names(tools: Toolset) -> Toolset:
        return tools.rename({"nope": "x"})

    for is_conversation in (False, True):
        agent = make_agent({"s": make_echo_server("find")}, "ok", "ok")
        runner = agent.conversation() if is_conversation else agent
        await runner.run("go")
        get_plugin(agent).change_tools("s", break_names)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"change_tools for MCP server 's' failed.*Unknown tool: nope"):
                await runner.run("go")
        get_plugin(agent).change_tools("s", Toolset.combine)
        assert (await runner.run("go")).text == "ok"
        await agent.shutdown()


def test_function_that_fails_is_an_error_in_another_event_loop() -> None:
    agent = make_agent({"s": make_echo_server("find")}, "ok")
    agent.run_sync("go")
    get_plugin(agent).change_tools("s", lambda tools: tools.rename({"nope": "x"}))
    with pytest.raises(ConfigError, match="change_tools for MCP server 's' failed"):
        agent.run_sync("go")


def test_required_server_that_does_not_start_again_fails_the_run() -> None:
    connector = InMemoryConnector({"s": make_echo_server("find")})
    servers = McpPlug([McpServerConfig(name="s", command="-", required=True)], connector=connector)
    agent = Agent(ScriptedModel("ok", "ok"), mcp_servers=servers, execution=MemoryEnv())
    agent.run_sync("go")
    connector.servers.clear()
    with pytest.raises(ConfigError, match="A required MCP server did not start"):
        agent.run_sync("go")


async def test_call_of_a_renamed_tool_waits_for_its_connecting_server() -> None:
    delay = asyncio.Event()
    server = make_echo_server("find", delay=delay)
    agent = make_agent({"s": server}, ScriptedCall("look", {"text": "a"}), "ok", mcp={"startup_wait": 0.0})
    get_plugin(agent).change_tools("s", lambda tools: tools.rename({"mcp__s__find": "look"}))
    model = agent.model
    assert isinstance(model, ScriptedModel)
    running = asyncio.create_task(agent.run("go"))
    await wait_until(lambda: model.requests)
    delay.set()
    await running
    assert results(agent)[0].content == "find: a"
    await agent.shutdown()


def asking_server(*, together: int = 1) -> InMemoryServer:
    """Return a server that asks the user and the model during a call, once so many calls are in progress."""
    calls = 0
    ready = asyncio.Event()

    async def ask(side: Any, text: str = "") -> str:
        nonlocal calls
        calls += 1
        if calls >= together:
            ready.set()
        await ready.wait()
        answer = await side.elicit(ElicitRequest(server="?", message="Who?"))
        message = PromptMessage(role="user", content=({"type": "text", "text": "Say hi"},))
        reply = await side.sample(SamplingRequest(server="?", messages=(message,)))
        return f"{answer.action} {dict(answer.content)}; {reply if isinstance(reply, str) else reply.text}"

    return InMemoryServer([(make_tool_info("ask"), ask)])


def asking_agent(server: InMemoryServer, *script: Any) -> Agent[str]:
    def elicit(request: ElicitRequest) -> ElicitResult:
        if request.context is None:
            return ElicitResult("decline")
        return ElicitResult("accept", {"name": request.context.deps})

    plug = McpPlug(
        {"s": {"command": "-"}},
        connector=InMemoryConnector({"s": server}),
        elicit=elicit,
        allow_sampling=lambda request: request.context is not None,
    )
    return Agent(ScriptedModel(*script), execution=MemoryEnv(), mcp_servers=plug, deps_type=str)


async def test_server_asks_the_user_and_the_model_of_the_calling_conversation() -> None:
    call = ScriptedCall("mcp__s__ask", {})
    agent = asking_agent(asking_server(), call, "hello Ada", "done", call, "hello Bob", "done")
    for name in ("Ada", "Bob"):
        conversation = agent.conversation(deps=name)
        result = await conversation.run("go")
        assert tool_results(conversation.messages)[0].content == f"accept {{'name': '{name}'}}; hello {name}"
        assert list(result.stats.side_usage) == ["mcp:sampling"]
    await agent.shutdown()


async def test_question_during_calls_of_several_conversations_reaches_none_of_them() -> None:
    call = ScriptedCall("mcp__s__ask", {})
    agent = asking_agent(asking_server(together=2), call, call, "done", "done")
    conversations = [agent.conversation(deps=name) for name in ("Ada", "Bob")]
    await asyncio.gather(*[conversation.run("go") for conversation in conversations])
    first = str(tool_results(conversations[0].messages)[0].content)
    assert first.startswith("decline {}; Several conversations are using the server")
    await agent.shutdown()


async def test_users_of_conversations_are_asked_at_the_same_time() -> None:
    """A user who does not answer must not block the questions of others."""
    asked: list[str] = []
    answered = asyncio.Event()

    async def elicit(request: ElicitRequest) -> ElicitResult:
        assert request.context is not None
        asked.append(request.context.deps)
        await answered.wait()
        return ElicitResult("accept")

    async def ask(side: Any, text: str = "") -> str:
        return (await side.elicit(ElicitRequest(server="?", message="Who?"))).action

    servers = {name: InMemoryServer([(make_tool_info("ask"), ask)]) for name in ("s", "t")}
    plug = McpPlug({name: {"command": "-"} for name in servers}, connector=InMemoryConnector(servers), elicit=elicit)
    model = ScriptedModel(ScriptedCall("mcp__s__ask", {}), ScriptedCall("mcp__t__ask", {}), "done", "done")
    agent = Agent(model, execution=MemoryEnv(), mcp_servers=plug, deps_type=str)
    runs = [asyncio.create_task(agent.conversation(deps=name).run("go")) for name in ("Ada", "Bob")]
    await wait_until(lambda: sorted(asked) == ["Ada", "Bob"])
    answered.set()
    await asyncio.gather(*runs)
    await agent.shutdown()
