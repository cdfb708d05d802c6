"""Spans for connecting to MCP servers and for their tools."""

from typing import Any

import pytest

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.events import ErrorInfo, McpServer, McpStartup
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import TurnBefore
from mainspring.telemetry import Tracing
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")


class FakeServers(Plugin):
    """Publishes the events of connecting to servers."""

    def install(self, agent: CoreAgent) -> None:
        self.agent = agent

    def for_child(self) -> None:
        return None

    async def prepare(self) -> None:
        notify, error = self.agent.bus.notify, OSError("no such program")
        await notify(McpStartup("files"))
        await notify(McpStartup("gone"))
        await notify(McpServer("files", ("read", "write"), 0.5))
        await notify(McpStartup("files", 0.5, 2))
        await notify(McpServer("gone", error=ErrorInfo.from_exception(error), exception=error))
        await notify(McpStartup("gone", 0.75, error=ErrorInfo.from_exception(error)))


def make_traced_agent(
    recorder: Recorder, *script: Any, tools: tuple[Tool, ...] = (), plugs: tuple[Plugin, ...] = (FakeServers(),)
) -> Agent:
    return Agent(
        ScriptedModel(*script), execution=MemoryEnv(), tools=tools, plugs=[Tracing(recorder.telemetry), *plugs]
    )


@pytest.mark.covers("TEL-11")
async def test_bootstrap_span_is_a_child_of_the_waiting_run() -> None:
    recorder = Recorder()

    await make_traced_agent(recorder, "done").run("go")

    assert sorted(recorder.tree) == [
        ("chat scripted-1", "invoke_agent agent"),
        ("initialize", "mcp.bootstrap"),
        ("initialize", "mcp.bootstrap"),
        ("invoke_agent agent", ""),
        ("mcp.bootstrap", "invoke_agent agent"),
    ]
    run, bootstrap = recorder.span("invoke_agent agent"), recorder.span("mcp.bootstrap")
    assert run.start_time == bootstrap.start_time
    assert (run.attributes or {})["mainspring.mcp.bootstrap.duration"] == 0.75
    facts = bootstrap.attributes or {}
    assert facts["mainspring.mcp.server"] == ("files", "gone")
    assert facts["mainspring.mcp.outcome"] == "partial"
    servers = {(s.attributes or {})["mainspring.mcp.server"]: s for s in recorder.spans if s.name == "initialize"}
    files = servers["files"]
    assert ((files.end_time or 0) - (files.start_time or 0)) / 1e9 == pytest.approx(0.5)
    assert (files.attributes or {})["mainspring.mcp.tools"] == 2
    assert (servers["gone"].attributes or {})["error.type"] == "OSError"
    assert servers["gone"].status.description == "OSError"  # the error text may contain content
    points = recorder.metrics["mcp.client.operation.duration"]
    assert {p.attributes["mainspring.mcp.server"]: p.attributes.get("error.type") for p in points} == {
        "files": None,
        "gone": "OSError",
    }


@pytest.mark.covers("TEL-11")
async def test_bootstrap_that_ends_during_a_run_is_a_child_of_it() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, "done", plugs=())

    async def finish_bootstrap(_: TurnBefore) -> None:
        await agent.bus.notify(McpServer("files", (), 0.1))
        await agent.bus.notify(McpStartup("files", 0.2))
        await agent.bus.notify(McpServer("later", (), 0.1))

    agent.on(TurnBefore, finish_bootstrap)
    await agent.bus.notify(McpStartup("files"))
    await agent.run("go")

    parents = [recorder.parent_of(s) for s in recorder.spans if s.name == "initialize"]
    assert sorted(parents) == ["invoke_agent agent", "mcp.bootstrap"]
    assert ("mcp.bootstrap", "invoke_agent agent") in recorder.tree


async def test_next_run_has_no_bootstrap_span() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, "one", "two")

    await agent.run("go")
    await agent.run("go")

    assert recorder.names.count("mcp.bootstrap") == 1


async def test_tool_of_a_server_has_server_attributes() -> None:
    recorder = Recorder()

    async def execute(arguments: dict[str, object], ctx: ToolContext) -> str:
        return "sunny"

    schema = {"type": "object", "properties": {}}
    weather = Tool(
        name="mcp__sky__weather", description="Weather", input_schema=schema, execute=execute, source="mcp:sky"
    )

    await make_traced_agent(recorder, ScriptedCall("mcp__sky__weather"), "done", tools=(weather,), plugs=()).run("go")

    facts = recorder.span("execute_tool mcp__sky__weather").attributes or {}
    assert facts["mcp.method.name"] == "tools/call"
    assert facts["mainspring.mcp.server"] == "sky"
    assert facts["gen_ai.tool.type"] == "extension"
    assert recorder.metrics["mcp.client.operation.duration"][0].attributes["gen_ai.tool.name"] == "mcp__sky__weather"
