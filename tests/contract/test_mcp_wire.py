"""What real servers said, recorded, to our client."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.mcp import ElicitResult, McpError, McpServerConfig, connect_mcp
from mainspring.mcp.content import prompt_to_messages, tool_result
from mainspring.messages import ImageBlock

PLAYER = Path(__file__).with_name("mcp_replay_server.py")


def played(material: Path, name: str) -> McpServerConfig:
    """The server of a transcript."""
    file = material / "mcp" / "wire" / f"{name}.json"
    return McpServerConfig(name=name, command=sys.executable, args=("-S", "-E", str(PLAYER), str(file)), mode="legacy")


def transcript(material: Path, name: str) -> list[dict[str, Any]]:
    """The calls of a transcript, with what came of them."""
    steps = json.loads((material / "mcp" / "wire" / f"{name}.json").read_text(encoding="utf-8"))["transcript"]
    told: list[dict[str, Any]] = []
    for step in steps:
        try:
            message = json.loads(step["line"])
        except ValueError:
            continue
        if isinstance(message, dict):
            told.append(message)
    request = {m["id"]: m for m in told if m.get("method") == "tools/call"}
    answers = {m["id"]: m for m in told if "method" not in m and m.get("id") in request}
    return [{**request[key]["params"], "answer": answers[key]} for key in request if key in answers]


@pytest.mark.covers("MCP-01", "MCP-06")
@pytest.mark.parametrize(
    "name", ["mcp-server-time", "server-everything", "server-everything-2024-11-05", "server-filesystem"]
)
async def test_every_recorded_call_gives_what_the_server_said(material: Path, name: str) -> None:
    async with connect_mcp(played(material, name), elicit=lambda request: ElicitResult("decline")) as server:
        assert server.tools
        assert all(len(t.name) <= 64 for t in server.tools)
        for call in transcript(material, name):
            said = call["answer"]
            if "error" in said:
                with pytest.raises(McpError, match="MCP server"):
                    await server.call(call["name"], call.get("arguments") or {})
                continue
            answer = await server.call(call["name"], call.get("arguments") or {})
            requested = said["result"]
            assert [b["type"] for b in answer.content] == [b["type"] for b in requested["content"]]
            assert [b.get("text") for b in answer.content] == [b.get("text") for b in requested["content"]]
            assert answer.structured == requested.get("structuredContent")
            result = tool_result(answer, name, call["name"])
            assert result.is_error is bool(requested.get("isError"))
            assert result.text
            images = [b for b in requested["content"] if b["type"] == "image"]
            shown = [] if isinstance(result.output, str) else [b for b in result.output if isinstance(b, ImageBlock)]
            assert [b.data for b in shown] == [b["data"] for b in images]


async def test_resources_prompts_and_progress_of_the_reference_server(material: Path) -> None:
    async with connect_mcp(
        played(material, "server-everything"), elicit=lambda request: ElicitResult("decline")
    ) as server:
        assert server.instructions.startswith("# Everything Server")
        resources = await server.list_resources()
        assert any(r.template for r in resources)
        (text,) = await server.read_resource("demo://resource/dynamic/text/1")
        assert text["resource"]["text"]
        (blob,) = await server.read_resource("demo://resource/dynamic/blob/2")
        assert blob["resource"]["blob"]
        with pytest.raises(McpError, match="Resource demo://nope not found"):
            await server.read_resource("demo://nope")
        assert {p.name for p in await server.list_prompts()} >= {"simple-prompt"}
        assert prompt_to_messages(await server.get_prompt("simple-prompt"))[0].role == "user"
        with pytest.raises(McpError, match="Prompt nope not found"):
            await server.get_prompt("nope")
        told: list[float] = []
        await server.call("trigger-long-running-operation", {"duration": 1, "steps": 3}, lambda p, t, m: told.append(p))
        assert told == [1, 2, 3]


async def test_a_server_of_another_protocol_is_taken_at_the_version_that_it_offers(material: Path) -> None:
    async with connect_mcp(played(material, "server-everything-bad-protocol")) as server:
        assert server.info.protocol == "2025-11-25"
        assert server.tools
