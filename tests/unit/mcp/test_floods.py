"""A server that tells something without end is heard, keeps nobody from its answers, and fills no memory and no disk."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.mcp import Answer, InMemoryConnector, InMemoryServer, McpConnection, McpServerConfig, connect_mcp
from mainspring.mcp import server as server_module
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer, connected_server
from mainspring.mcp.server_log import BURST_LINES, MAX_LOG_LINES, ServerLog
from tests.unit.mcp.harness import raw, twin, until


async def asked(server: McpServer) -> dict[str, Any]:
    answer: Answer = await server.call("state", {})
    return json.loads(answer.content[0]["text"])


@pytest.mark.covers("BYD-10")
async def test_a_list_that_changes_without_end_is_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "RELIST_SECONDS", 600)
    async with connect_mcp(raw("changes", mode="legacy", timeout=20)) as server:
        first = server.tool_infos
        await until(lambda: server.tool_infos is not first)
        for _ in range(5):
            assert (await asked(server))["listed"] == 2


class Hasty(dict[str, Any]):
    """Tools of a server that gets others in the moment in which they are read."""

    def __init__(self, server: InMemoryServer) -> None:
        super().__init__(server.tools)
        self._server = server

    def values(self) -> Any:
        read = list(super().values())
        self._server.set_tools(list(twin("one", "two").tools.values()))
        return read


async def test_what_changed_while_a_list_was_read_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "RELIST_SECONDS", 0.05)
    other = twin("one")
    async with connect_mcp(McpServerConfig(name="a", command="-"), connector=InMemoryConnector({"a": other})) as server:
        other.tools = Hasty(other)
        server.on_list_changed("tools")
        await until(lambda: [i.name for i in server.tool_infos] == ["one", "two"])


@pytest.mark.parametrize("flag", ["logs", "errors"])
async def test_lines_that_come_too_fast_are_left_out_and_counted(flag: str, tmp_path: Path) -> None:
    file = tmp_path / "raw.log"
    server = McpServer(raw(flag, mode="legacy", timeout=20), "raw", SdkConnector(), log=ServerLog(file))
    async with connected_server(server):
        await until(lambda: server.log.dropped_lines > BURST_LINES)
        assert (await asked(server))["listed"] == 1
        assert len(server.log.lines) <= MAX_LOG_LINES

    last = -1  # every line is there, or counted where it is not
    missing = 0
    for line in file.read_text().splitlines():
        left = re.fullmatch(r"\[mainspring\] Skipped (\d+) lines that came too fast", line)
        if left:
            missing += int(left[1])
            last += int(left[1])
        elif number := re.fullmatch(r"(?:\[info\] own: )?line (\d+)\.", line):
            last += 1
            assert int(number[1]) == last
    assert missing == server.log.dropped_lines > BURST_LINES


class SlowToLoad(InMemoryConnector):
    """Has something to load that takes longer than a server may take to connect."""

    def __init__(self) -> None:
        super().__init__({"a": twin("one")})
        self.loaded = False

    async def preload(self) -> None:
        await asyncio.sleep(0.3)
        self.loaded = True

    @asynccontextmanager
    async def connect(self, config: McpServerConfig, side: Any) -> AsyncGenerator[McpConnection]:
        assert self.loaded
        async with super().connect(config, side) as connection:
            yield connection


async def test_what_has_to_be_loaded_first_takes_no_time_of_the_server() -> None:
    config = McpServerConfig(name="a", command="-", connect_timeout=0.1)
    async with connect_mcp(config, connector=SlowToLoad()) as server:
        assert server.status == "ready"
        assert server.seconds < 0.3


async def test_the_sdk_is_what_is_loaded_first() -> None:
    program = (
        "import asyncio, sys; from mainspring.mcp.sdk import SdkConnector; c = SdkConnector(); "
        "print('mcp' in sys.modules); asyncio.run(c.preload()); print('mcp.client.streamable_http' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0].split() == [b"False", b"True"]
