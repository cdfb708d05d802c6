"""Known problems of MCP clients: hangs, broken sessions, and leaks.

Tested elsewhere: M-01, 02, 03, 04, 05, 06, 10, 15, 16 and 20 with a real program in ``tests/unit/mcp/test_stdio_transport.py``; 09 and 18 in
``test_http.py``; 13 in ``test_names.py``; 17 in ``test_config.py``; 21 in ``test_plug.py``; 11 in ``test_mcp_tool_schemas.py``.
"""

import asyncio
from pathlib import Path

from mainspring.agent.agent import Agent
from mainspring.env import LocalEnv, MemoryEnv
from mainspring.mcp import InMemoryConnector, InMemoryServer, connect_mcp
from mainspring.mcp.types import ToolInfo
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext
from tests.unit.mcp.harness import make_tool_info, raw_server_config, results


async def test_m07_full_pipes_do_not_deadlock() -> None:
    async with connect_mcp(raw_server_config("flood", "noise")) as server:
        # Both sides write more than a pipe buffer, and the server reads nothing while it writes.
        texts = [f"{i}" * 300_000 for i in range(4)]
        answers = await asyncio.gather(*[server.call("echo", {"text": text}) for text in texts])
        assert [a.content[0]["text"] for a in answers] == texts


async def test_m08_connections_close_in_any_order_and_from_any_task() -> None:
    opened = [connect_mcp(raw_server_config(name=f"s{i}")) for i in range(3)]
    servers = await asyncio.gather(*[o.__aenter__() for o in opened])
    assert [s.status for s in servers] == ["ready"] * 3
    await asyncio.gather(*[asyncio.ensure_future(opened[i].__aexit__(None, None, None)) for i in (1, 0)])
    assert (await servers[2].call("echo", {"text": "still"})).content[0]["text"] == "still"
    await opened[2].__aexit__(None, None, None)
    assert [s.status for s in servers] == ["closed"] * 3


async def test_m12_full_schema_is_preserved() -> None:
    schema = {
        "type": "object",
        "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
        "properties": {"root": {"$ref": "#/$defs/node"}, "kind": {"type": ["string", "null"]}},
        "additionalProperties": False,
        "x-own": {"kept": True},
    }
    server = InMemoryServer([(ToolInfo(name="tree", input_schema=schema), lambda root=None, kind=None: "ok")])
    async with connect_mcp({"name": "s", "command": "-"}, connector=InMemoryConnector({"s": server})) as handle:
        assert handle.tools[0].input_schema == schema
        assert (await handle.tools[0](ToolContext(env=MemoryEnv()), root={"child": {}})).output == "ok"


async def test_m14_huge_result_is_saved_to_a_file(tmp_path: Path) -> None:
    huge = "line of text\n" * 50_000
    server = InMemoryServer([(make_tool_info("dump"), lambda text="": huge)])
    agent = Agent(
        ScriptedModel(ScriptedCall("mcp__s__dump", {}), "done"),
        execution=LocalEnv(str(tmp_path)),
        mcp_servers={"s": {"command": "-"}},
        mcp_connector=InMemoryConnector({"s": server}),
        behavior=RunOptions(persist_dir=str(tmp_path / "kept"), persist_threshold=20_000),
    )
    await agent.run("go")
    (result,) = results(agent)
    assert len(result.text) < 4_000
    assert f"These are the first bytes of {len(huge)}; the rest is in the file" in result.text
    (file,) = (tmp_path / "kept").iterdir()
    assert file.read_text() == huge
    await agent.shutdown()


async def test_m19_one_connection_serves_all_calls() -> None:
    async with connect_mcp(raw_server_config()) as server:
        pids = {(await server.call("pid", {})).content[0]["text"] for _ in range(3)}
        assert len(pids) == 1
