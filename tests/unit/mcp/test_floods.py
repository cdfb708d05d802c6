"""A server that sends endless notifications: the client handles them, still responds, and fills neither memory nor disk."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.mcp import (
    Answer,
    InMemoryConnector,
    InMemoryServer,
    McpConnection,
    McpServerConfig,
    connect_mcp,
    server as server_module,
)
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer, connected_server
from mainspring.mcp.server_log import BURST_LINES, MAX_LOG_LINES, ServerLog
from tests.unit.mcp.harness import make_echo_server, raw_server_config, wait_until


async def read_state(server: McpServer) -> dict[str, Any]:
    answer: Answer = await server.call("state", {})
    return json.loads(answer.content[0]["text"])


@pytest.mark.covers("BYD-10")
async def test_endless_tool_list_changes_are_read_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "RELIST_SECONDS", 600)
    async with connect_mcp(raw_server_config("changes", mode="legacy", timeout=120)) as server:
        first = server.tool_infos
        await wait_until(lambda: server.tool_infos is not first)
        for _ in range(5):
            assert (await read_state(server))["listed"] == 2


class ChangingTools(dict[str, Any]):
    """Tools of a server that change while they are read."""

    def __init__(self, server: InMemoryServer) -> None:
        super().__init__(server.tools)
        self._server = server

    def values(self) -> Any:
        read = list(super().values())
        self._server.set_tools(list(make_echo_server("one", "two").tools.values()))
        return read


async def test_change_during_a_tool_list_read_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "RELIST_SECONDS", 0.05)
    other = make_echo_server("one")
    async with connect_mcp(McpServerConfig(name="a", command="-"), connector=InMemoryConnector({"a": other})) as server:
        other.tools = ChangingTools(other)
        server.on_list_changed("tools")
        await wait_until(lambda: [i.name for i in server.tool_infos] == ["one", "two"])


@pytest.mark.covers("BYD-10")
@pytest.mark.parametrize("flag", ["logs", "errors"])
async def test_lines_above_the_rate_limit_are_skipped_and_counted(flag: str, tmp_path: Path) -> None:
    file = tmp_path / "raw.log"
    server = McpServer(raw_server_config(flag, mode="legacy", timeout=120), "raw", SdkConnector(), log=ServerLog(file))
    async with connected_server(server):
        await wait_until(lambda: server.log.dropped_lines > BURST_LINES)
        assert (await read_state(server))["listed"] == 1
        assert len(server.log.lines) <= MAX_LOG_LINES

    last = -1  # Every line is in the file or counted as skipped.
    missing = 0
    for line in file.read_text().splitlines():
        skipped = re.fullmatch(r"\[mainspring\] Skipped (\d+) lines that came too fast", line)
        if skipped:
            missing += int(skipped[1])
            last += int(skipped[1])
        elif number := re.fullmatch(r"(?:\[info\] own: )?line (\d+)\.", line):
            last += 1
            assert int(number[1]) == last
    assert missing == server.log.dropped_lines > BURST_LINES


class SlowConnector(InMemoryConnector):
    """A connector whose preload takes longer than the connect timeout."""

    def __init__(self) -> None:
        super().__init__({"a": make_echo_server("one")})
        self.loaded = False

    async def preload(self) -> None:
        await asyncio.sleep(2.3)
        self.loaded = True

    @asynccontextmanager
    async def connect(self, config: McpServerConfig, side: Any) -> AsyncGenerator[McpConnection]:
        assert self.loaded
        async with super().connect(config, side) as connection:
            yield connection


async def test_preload_time_does_not_count_toward_the_connect_timeout() -> None:
    config = McpServerConfig(name="a", command="-", connect_timeout=2.0)
    async with connect_mcp(config, connector=SlowConnector()) as server:
        assert server.status == "ready"
        assert server.seconds < 2.3


async def test_sdk_connector_preloads_the_sdk() -> None:
    script = (
        "import asyncio, sys; from mainspring.mcp.sdk import SdkConnector; c = SdkConnector(); "
        "print('mcp' in sys.modules); asyncio.run(c.preload()); print('mcp.client.streamable_http' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0].split() == [b"False", b"True"]
