"""The MCP client with recorded messages of real servers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.mcp import ElicitResult, McpError, McpServerConfig, connect_mcp
from mainspring.mcp.content import prompt_to_messages, tool_result
from mainspring.messages import ImageBlock

PLAYER = Path(__file__).with_name("mcp_replay_server.py")


def replay_server(material: Path, name: str) -> McpServerConfig:
    """Return the server that replays a transcript."""
    file = material / "mcp" / "wire" / f"{name}.json"
    return McpServerConfig(name=name, command=sys.executable, args=("-S", "-E", str(PLAYER), str(file)), mode="legacy")


def load_calls(material: Path, name: str) -> list[dict[str, Any]]:
    """Return the calls of a transcript with their results."""
    steps = json.loads((material / "mcp" / "wire" / f"{name}.json").read_text(encoding="utf-8"))["transcript"]
    received: list[dict[str, Any]] = []
    for step in steps:
        try:
            message = json.loads(step["line"])
        except ValueError:
            continue
        if isinstance(message, dict):
            received.append(message)
    requests = {m["id"]: m for m in received if m.get("method") == "tools/call"}
    answers = {m["id"]: m for m in received if "method" not in m and m.get("id") in requests}
    return [{**requests[key]["params"], "answer": answers[key]} for key in requests if key in answers]


@pytest.mark.parametrize(
    "name", ["mcp-server-time", "server-everything", "server-everything-2024-11-05", "server-filesystem"]
)
async def test_recorded_calls_return_the_server_results(material: Path, name: str) -> None:
    async with connect_mcp(replay_server(material, name), elicit=lambda requests: ElicitResult("decline")) as server:
        assert server.tools
        assert all(len(t.name) <= 64 for t in server.tools)
        for call in load_calls(material, name):
            recorded = call["answer"]
            if "error" in recorded:
                with pytest.raises(McpError, match="MCP server"):
                    await server.call(call["name"], call.get("arguments") or {})
                continue
            answer = await server.call(call["name"], call.get("arguments") or {})
            requested = recorded["result"]
            assert [b["type"] for b in answer.content] == [b["type"] for b in requested["content"]]
            assert [b.get("text") for b in answer.content] == [b.get("text") for b in requested["content"]]
            assert answer.structured == requested.get("structuredContent")
            result = tool_result(answer, name, call["name"])
            assert result.is_error is bool(requested.get("isError"))
            assert result.text
            images = [b for b in requested["content"] if b["type"] == "image"]
            shown_images = (
                [] if isinstance(result.output, str) else [b for b in result.output if isinstance(b, ImageBlock)]
            )
            assert [b.data for b in shown_images] == [b["data"] for b in images]


async def test_reference_server_resources_prompts_and_progress(material: Path) -> None:
    async with connect_mcp(
        replay_server(material, "server-everything"), elicit=lambda requests: ElicitResult("decline")
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
        received: list[float] = []
        await server.call(
            "trigger-long-running-operation", {"duration": 1, "steps": 3}, lambda p, t, m: received.append(p)
        )
        assert received == [1, 2, 3]


async def test_client_accepts_the_protocol_version_of_the_server(material: Path) -> None:
    async with connect_mcp(replay_server(material, "server-everything-bad-protocol")) as server:
        assert server.info.protocol == "2025-11-25"
        assert server.tools
