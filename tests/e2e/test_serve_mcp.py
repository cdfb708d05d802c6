"""The agent as an MCP server, driven by the official client and by our own."""

import asyncio
import os
import sys
from typing import Any

import pytest
from mcp import Client, ClientSession, StdioServerParameters, stdio_client, types

from mainspring.mcp import connect_mcp
from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-23")

ARGUMENTS = ["-m", "mainspring", "serve", "--mcp", "--model", "openai:test-model"]


def server_parameters(command: Command) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=ARGUMENTS, env=command.environment, cwd=str(command.folder)
    )


async def test_mcp_server_supports_progress_approval_sessions_and_cancel(command: Command) -> None:
    command.server.script = [
        call("write_file", path="a.txt", content="x"),
        "Written.",
        "It goes on.",
        Reply("It begins", stall=True),
    ]
    questions: list[str] = []
    progress_messages: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "once"})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_messages.append(message or "")

    async with stdio_client(server_parameters(command)) as (reading, writing):
        async with ClientSession(reading, writing, elicitation_callback=elicit) as client:
            await client.initialize()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["run", "sessions"]
            first: Any = await client.call_tool("run", {"prompt": "write it"}, progress_callback=on_progress)
            assert first.structured_content["answer"] == "Written."
            assert (command.folder / "a.txt").read_text() == "x"
            assert progress_messages == ["Write a.txt"]
            assert "+x" in questions[0]
            session = first.structured_content["session"]
            listed: Any = await client.call_tool("sessions", {})
            assert session in listed.content[0].text
            again: Any = await client.call_tool("run", {"prompt": "go on", "session": session})
            assert again.structured_content["session"] == session
            assert len(command.server.requests[-1]["messages"]) > 4
            invalid: Any = await client.call_tool("run", {"prompt": "x", "session": "../x"})
            assert invalid.is_error
            stalled = asyncio.create_task(client.call_tool("run", {"prompt": "for ever"}))
            assert await asyncio.to_thread(command.server.stalled.wait, 120)
            stalled.cancel()
            await asyncio.wait((stalled,))
            last: Any = await client.call_tool("sessions", {})
            assert last.content[0].text.count("\n") == 1, "cancelled runs are stored too"


async def test_mcp_server_asks_in_results_with_protocol_2026_07_28(command: Command) -> None:
    """The official client of 2026-07-28: a call takes one round for each question."""
    options = [{"label": "red"}, {"label": "blue"}]
    command.server.script = [
        call("write_file", path="a.txt", content="x"),
        call("ask_user", question="Which?", options=options),
        "Written in red.",
    ]
    progress_messages: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        content: Any = {"choice": "red"} if params.message == "Which?" else {"decision": "once"}
        return types.ElicitResult(action="accept", content=content)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_messages.append(message or "")

    async with Client(server_parameters(command), mode="2026-07-28", elicitation_callback=elicit) as client:
        done: Any = await client.call_tool("run", {"prompt": "write it"}, progress_callback=on_progress)
    assert done.structured_content["answer"] == "Written in red."
    assert (command.folder / "a.txt").read_text() == "x"
    assert progress_messages[0] == "Write a.txt"
    assert "The user chose: red." in str(command.server.requests[2]["messages"])


async def test_mcp_server_denies_calls_if_the_client_cannot_ask(command: Command) -> None:
    command.server.script = [call("write_file", path="a.txt", content="x"), "It was denied."]
    config = {
        "name": "agent",
        "command": sys.executable,
        "args": ARGUMENTS,
        "env": {k: v for k, v in command.environment.items() if k in os.environ or k.startswith("OPENAI")},
        "cwd": str(command.folder),
    }
    async with connect_mcp(config) as server:
        tools = {tool.name: tool for tool in server.tools}
        assert set(tools) == {"mcp__agent__run", "mcp__agent__sessions"}
        result = await server.call("run", {"prompt": "write it"})
    assert "It was denied." in str(result)
    assert "1 of its calls were not permitted" in str(result)
    assert not (command.folder / "a.txt").exists()
    assert "Permission denied: write_file" in str(command.server.requests[1]["messages"])
