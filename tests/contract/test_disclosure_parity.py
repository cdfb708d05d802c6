"""Tool search works with every protocol, without a search feature of the host."""

import json

import pytest

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.models import MemoryResponse, MemoryTransport
from mainspring.policies.disclosure import Disclosure
from mainspring.tools import ToolContext, ToolResult, define_tool
from tests.contract.wire_scenarios import SPEAKERS, Speaker


async def send(arguments: dict[str, object], ctx: ToolContext) -> ToolResult:
    return ToolResult(output="sent")


@pytest.mark.covers("BYD-11", "DIS-09")
@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda s: s.name)
async def test_lazy_tool_is_named_found_and_then_offered(speaker: Speaker) -> None:
    transport = MemoryTransport(*(MemoryResponse(list(speaker.plain)) for _ in range(2)))
    mail = define_tool(
        "mcp__mail__send", description="Posts a letter.", parameters={"type": "object"}, execute=send, source="mcp:mail"
    )
    disclosure = Disclosure("lazy")
    agent = Agent(
        speaker.model("http://host.example/v1").with_transport(transport),
        execution=MemoryEnv({}),
        tools=[mail],
        tool_disclosure=disclosure,
    )

    await agent.run("go")
    search = agent.tools.get("tool_search")
    assert search is not None
    found = await search(ToolContext(env=MemoryEnv({})), query="letter")
    assert "Posts a letter." in found.text
    disclosure.on_found(["mcp__mail__send"])
    await agent.run("go on")

    first, second = (json.dumps(json.loads(request.body)) for request in transport.requests)
    assert "tool_search" in first
    assert "mcp__mail__send" in first
    assert "Posts a letter." not in first
    assert "Posts a letter." in second
