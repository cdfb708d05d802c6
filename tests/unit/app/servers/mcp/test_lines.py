"""Hostile lines for the MCP server: each is answered or ignored, and the server continues."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.app.servers.mcp.server import serve_mcp
from mainspring.app.servers.stdio import ChatRegistry
from tests.helpers.memory_lines import MemoryLines
from tests.unit.app.servers.acp.harness import options_for

pytestmark = pytest.mark.covers("BYD-23")

START = {
    "jsonrpc": "2.0",
    "id": "ours",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
lines = (
    st.binary(max_size=30)
    | st.integers(1, 20_000).map(lambda depth: b"[" * depth)
    | st.dictionaries(st.sampled_from(["id", "method", "result"]), st.none() | st.text() | st.integers()).map(
        lambda value: json.dumps(value).encode()
    )
)


@settings(max_examples=30)
@given(sent=st.lists(lines.map(lambda each: each.replace(b"\n", b" ")), max_size=5))
async def test_hostile_lines_do_not_stop_the_server(tmp_path: Path, home: Path, sent: list[bytes]) -> None:
    client = MemoryLines()
    task = asyncio.create_task(serve_mcp(client.wire, ChatRegistry(), options_for(tmp_path, home, None)))
    for line in [*sent, json.dumps(START).encode()]:
        client.send_line(line)
    while json.loads(await client.written()).get("id") != "ours":
        pass
    client.feed(b"")
    await task
