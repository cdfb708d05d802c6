"""Servers that are programs: start, call, cancel, kill, and leave no process behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.env import MemoryEnv
from mainspring.mcp import Answer, ElicitResult, McpError, SamplingResult, connect_mcp, stdio_transport
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.message_repair import repair_result
from mainspring.tools import ToolContext
from tests.helpers.processes import alive, ended
from tests.unit.mcp.harness import RAW, raw_server_config, wait_until


@pytest.mark.covers("MCP-01", "MCP-02", "MCP-05", "MCP-12")
async def test_server_is_started_and_its_tools_are_listed_and_called(tmp_path: Path) -> None:
    config = raw_server_config(env={"OWN": "value"}, cwd=str(tmp_path))
    async with connect_mcp(config, environ={**os.environ, "OPENAI_API_KEY": "secret", "HOME": "/h"}) as server:
        assert server.status == "ready"
        assert server.instructions == "Be kind."
        echo = next(t for t in server.tools if t.name == "mcp__raw__echo")
        assert echo.source == "mcp:raw"
        assert echo.input_schema["properties"]["text"] == {"type": "string"}
        result = await echo(ToolContext(env=MemoryEnv()), text="hällo")
        assert result.output == "hällo"
        env = json.loads((await server.call("env", {})).content[0]["text"])
        assert env["OWN"] == "value"
        assert env["HOME"] == "/h"
        assert env["PATH"]
        assert "OPENAI_API_KEY" not in env


async def test_missing_sdk_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpError, match=r"Cannot connect to MCP server 'raw': .* require .*pip install .*\[mcp\]'"):
        async with connect_mcp(raw_server_config()):
            pass


@pytest.mark.covers("BYD-10")
async def test_requests_of_a_server_are_answered_or_declined(tmp_path: Path) -> None:
    async with connect_mcp(raw_server_config()) as server:
        for tool in ("ask", "visit", "sample", "roots", "ping"):
            reply = json.loads((await server.call(tool, {})).content[0]["text"])
            expected = {
                "ask": {"action": "decline"},
                "visit": {"action": "decline"},
                "sample": {"code": -1, "message": "The user did not allow it"},
                "roots": {"roots": []},
                "ping": {},
            }
            assert reply == expected[tool], tool

    async def sampler(request: object) -> SamplingResult:
        return SamplingResult("hi there", "some-model")

    options = {
        "elicit": lambda request: ElicitResult("accept", {"city": request.message, "days": 3}),
        "allow_sampling": lambda request: request.system == "Short.",
        "sampler": sampler,
        "roots": [str(tmp_path)],
    }
    async with connect_mcp(raw_server_config(), **options) as server:
        request = json.loads((await server.call("ask", {})).content[0]["text"])
        assert request == {"action": "accept", "content": {"city": "Where to?", "days": 3}}
        visited = json.loads((await server.call("visit", {})).content[0]["text"])
        assert visited == {"action": "accept"}
        sampled = json.loads((await server.call("sample", {})).content[0]["text"])
        assert sampled["content"] == {"type": "text", "text": "hi there"}
        assert sampled["model"] == "some-model"
        roots = json.loads((await server.call("roots", {})).content[0]["text"])
        assert roots["roots"][0]["uri"] == tmp_path.as_uri()


async def test_resources_and_prompts_are_listed_and_read() -> None:
    async with connect_mcp(raw_server_config()) as server:
        found = await server.list_resources()
        assert [(r.uri, r.template) for r in found] == [
            ("memo://one", False),
            ("memo://two", False),
            ("memo://{name}", True),
        ]
        contents = await server.read_resource("memo://one")
        assert contents[0]["resource"]["text"] == "text of memo://one"
        (prompt,) = await server.list_prompts()
        assert [(a.name, a.required) for a in prompt.arguments] == [("topic", True), ("style", False)]
        (message,) = await server.get_prompt("sum", {"topic": "trees"})
        assert message.content[0]["text"] == "Sum up trees"


async def test_changed_tool_list_is_read_again() -> None:
    async with connect_mcp(raw_server_config()) as server:
        assert "mcp__raw__grown" not in [t.name for t in server.tools]
        await server.call("grow", {})
        await wait_until(lambda: "mcp__raw__grown" in [t.name for t in server.tools])


async def test_pages_of_a_list_are_read_but_not_without_end() -> None:
    async with connect_mcp(raw_server_config("pages")) as server, connect_mcp(raw_server_config("loop")) as endless:
        assert len(server.tools) == 17
        assert [t.name for t in endless.tools] == ["mcp__raw__add"]


async def test_invalid_tools_are_skipped_and_unusual_results_are_readable() -> None:
    async with connect_mcp(raw_server_config("odd")) as server:
        names = [t.name for t in server.tools]
        assert "mcp__raw__bare" in names
        assert "mcp__raw__na_ve_tool_" in names
        assert len(names) == 17 + 5
        answer = await server.call("parts", {})
        assert [b["type"] for b in answer.content] == [
            "text", "image", "audio", "resource_link", "resource", "resource", "text", "text",
        ]  # fmt: skip
        assert "hologram" in answer.content[6]["text"]
        assert "without data" in answer.content[7]["text"]
        failed = await server.call("fail", {})
        assert failed.is_error
        summed = await server.call("add", {"n": 1})
        assert (summed.content, summed.structured) == ((), {"sum": 2})


@pytest.mark.parametrize(
    ("line", "expected_text"),
    [
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[],"structuredContent":{"v":NaN,"w":-Infinity}}}', {"v": None, "w": None}),
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}', "a\ufffdb"),
        ('{"jsonrpc":"2.0","id":KEY,"error":{"code":"E1","message":"no luck"}}', "no luck"),
        ('{"jsonrpc":"2.0","id":KEY,"error":"out of luck"}', "out of luck"),
        ('{"jsonrpc":"2.0","id":KEY,"result":null}', "not a valid protocol message"),
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[],"structuredContent":{"v":DEEP}}}', "not a valid protocol message"),
        ('{"jsonrpc":"2.0","id":KEY,"error":{"code":-32000,"message":"db locked"}}', "MCP server 'raw': db locked"),
        ('{"jsonrpc":"2.0","id":KEY,"result":null,"error":{"code":-32000,"message":"db locked"}}', "MCP server 'raw': db locked"),
    ],
    ids=["nan", "surrogate", "code", "text", "null", "deep", "server-error", "null-and-error"],
)  # fmt: skip
async def test_broken_response_ends_its_call_and_keeps_the_connection(line: str, expected_text: Any) -> None:
    async with connect_mcp(raw_server_config(timeout=120.0)) as server:
        pid = (await server.call("pid", {})).content[0]["text"]
        (outcome,) = await asyncio.gather(server.call("broken", {"text": line}), return_exceptions=True)
        if isinstance(outcome, McpError):
            assert outcome.reason == "refused"
            assert expected_text in str(outcome)
        else:
            assert isinstance(outcome, Answer)
            assert expected_text in (outcome.structured, *[b["text"] for b in outcome.content])
        assert (await server.call("pid", {})).content[0]["text"] == pid  # The connection is still open.


async def test_invalid_lists_are_replaced_by_empty_lists() -> None:
    found: dict[str, Any] = {"tools": None, "resources": {}, "prompts": 5, "resourceTemplates": "x"}
    repair_result(found)
    assert set(map(str, found.values())) == {"[]"}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"content": [], "structuredContent": None, "isError": None, "_meta": None}, {"content": []}),
        ({"isError": True}, {"isError": True, "content": []}),
        ({}, {"content": []}),
        (
            {"protocolVersion": "1", "serverInfo": {"name": "x", "version": 2}, "instructions": None},
            {"protocolVersion": "1", "serverInfo": {"name": "x", "version": "2"}, "capabilities": {}},
        ),
        (
            {"protocolVersion": "1"},
            {"protocolVersion": "1", "serverInfo": {"name": "", "version": ""}, "capabilities": {}},
        ),
        (
            {"resources": [{"uri": "a:b", "name": None}, {"name": "no address"}, 1], "nextCursor": None},
            {"resources": [{"uri": "a:b", "name": "a:b"}]},
        ),
        ({"prompts": [{"name": "a"}, {"description": "no name"}]}, {"prompts": [{"name": "a"}]}),
        (
            {"protocolVersion": "1", "capabilities": None, "serverInfo": None},
            {"protocolVersion": "1", "capabilities": {}, "serverInfo": {"name": "", "version": ""}},
        ),
    ],
)
def test_fields_that_say_nothing_do_not_fail_a_response(sent: dict[str, Any], expected: dict[str, Any]) -> None:
    """Serializers of some languages write each field, and servers leave out those that nobody seems to read."""
    repair_result(sent)
    assert sent == expected


@pytest.mark.covers("BYD-10")
async def test_progress_is_reported_and_extends_the_timeout() -> None:
    async with connect_mcp(raw_server_config(timeout=2.0)) as server:
        steps: list[tuple[float, float | None, str | None]] = []
        answer = await server.call("progress", {"n": 900}, lambda *step: steps.append(step))
        assert answer.content[0]["text"] == "done"
        assert steps[0] == (1, 3, "step 1")
        with pytest.raises(McpError, match="no response or progress for 2 seconds") as caught:
            await server.call("slow", {})
        assert caught.value.reason == "timeout"
        # Later messages of the call are ignored, and the session still works.
        assert json.loads((await server.call("state", {})).content[0]["text"])["cancelled"]
        assert (await server.call("echo", {"text": "on"})).content[0]["text"] == "on"


@pytest.mark.covers("BYD-10")
async def test_timeout_is_paused_while_the_user_is_asked() -> None:
    async def answer_slowly(request: object) -> ElicitResult:
        await asyncio.sleep(2.5)
        return ElicitResult("cancel")

    async with connect_mcp(raw_server_config(timeout=2.0), elicit=answer_slowly) as server:
        assert json.loads((await server.call("ask", {})).content[0]["text"]) == {"action": "cancel"}


async def test_cancelled_call_is_cancelled_on_the_server() -> None:
    async with connect_mcp(raw_server_config()) as server:
        call = asyncio.ensure_future(server.call("slow", {}))
        await wait_until(lambda: server._calls._clocks)
        await server.call("echo", {})  # The first call was sent before this one.
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert json.loads((await server.call("state", {})).content[0]["text"])["cancelled"]


async def test_extra_output_of_a_server_is_logged(tmp_path: Path) -> None:
    async with connect_mcp(raw_server_config("noise", "flood")) as server:
        assert (await server.call("echo", {"text": "fine"})).content[0]["text"] == "fine"
        await wait_until(lambda: any("line 4999" in line for line in server.log.lines))
        assert len(server.log.lines) <= 200


async def test_large_messages_are_sent_in_both_directions() -> None:
    async with connect_mcp(raw_server_config()) as server:
        assert len((await server.call("big", {"n": 3_000_000})).content[0]["text"]) == 3_000_000
        assert len((await server.call("echo", {"text": "ä" * 1_000_000})).content[0]["text"]) == 1_000_000


async def test_message_over_the_limit_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_transport, "_MAX_LINE_BYTES", 100_000)
    async with connect_mcp(raw_server_config()) as server:
        with pytest.raises(McpError) as caught:
            await server.call("big", {"n": 3_000_000})
        assert caught.value.reason == "lost"


async def test_last_lines_without_line_ends_and_long_lines_are_read() -> None:
    script = """printf '%s' '{"jsonrpc":"2.0","id":1,"method":"ping"}'; head -c 200000 /dev/zero | tr '\\0' x >&2; printf end >&2"""
    config = McpServerConfig(name="last", command="/bin/sh", args=("-c", script))
    logged: list[str] = []

    async def log(line: str) -> None:
        logged.append(line)

    process = await stdio_transport.start_server(config, os.environ)
    async with stdio_transport.stdio_streams(process, log) as (reading, _):
        received: list[Any] = [item async for item in reading]
        assert [item.message.method for item in received] == ["ping"]
        await wait_until(lambda: "".join(logged).endswith("end"))
    assert "".join(logged) == "x" * 200_000 + "end"
    assert 2 <= len(logged) <= 4


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (raw_server_config("die"), r"the program exited immediately \(exit code 1\).*\n.*cannot find the database"),
        (raw_server_config("old"), "Cannot connect to MCP server 'raw': Unsupported protocol version .*2024-10-07"),
        (raw_server_config("hang", connect_timeout=0.3), r"did not respond within 0.3 seconds"),
        (
            replace(raw_server_config(), command="no-such-program-here"),
            r"Program not found on its PATH: 'no-such-program-here'",
        ),
        (
            replace(raw_server_config(), command="/etc/passwd"),
            r"Cannot start MCP server 'raw': /etc/passwd: Permission denied",
        ),
        (replace(raw_server_config(), cwd="/no/such/folder"), r"Cannot start MCP server 'raw': .*No such file"),
        (
            replace(raw_server_config(), env={"A": "${NO_SUCH_VARIABLE_HERE}"}),
            r"requires the variable NO_SUCH_VARIABLE_HERE, which is not set",
        ),
    ],
    ids=["dies", "old", "hangs", "no program", "not executable", "no folder", "no variable"],
)
async def test_failed_start_reports_the_reason(config, text: str) -> None:
    with pytest.raises(McpError, match=text) as caught:
        async with connect_mcp(config):
            pass
    assert caught.value.reason == "connect"


async def test_server_that_ends_at_an_early_request_is_started_again_for_the_older_protocol() -> None:
    async with connect_mcp(raw_server_config("strict")) as server:
        assert (await server.call("echo", {"text": "hi"})).content[0]["text"] == "hi"


async def test_crash_during_a_call_fails_the_call_and_restarts_the_server() -> None:
    async with connect_mcp(raw_server_config()) as server:
        first = (await server.call("pid", {})).content[0]["text"]
        with pytest.raises(McpError, match=r"ended \(exit code 3\)") as caught:
            await server.call("crash", {})
        assert caught.value.reason == "lost"
        assert "out of memory" in str(caught.value)
        assert "REDACTME" not in str(caught.value)
        second = (await server.call("pid", {})).content[0]["text"]
        assert second != first
        os.kill(int(second), signal.SIGKILL)
        await wait_until(lambda: server.status != "ready" or server._connection is None)
        assert (await server.call("pid", {})).content[0]["text"] not in (first, second)


@pytest.mark.parametrize("flags", [(), ("deaf",)], ids=["willing", "deaf"])
async def test_processes_of_a_server_end_with_the_connection(flags: tuple[str, ...]) -> None:
    async with connect_mcp(raw_server_config(*flags)) as server:
        pids = [int(p) for p in (await server.call("child", {})).content[0]["text"].split()]
        pids += [int(p) for p in (await server.call("child", {"n": 1})).content[0]["text"].split()]
        assert all(alive(p) for p in pids)
    assert all(ended(p, 2) for p in pids)


def test_servers_end_when_the_program_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import asyncio, sys
        from mainspring.mcp import connect_mcp
        async def main():
            async with connect_mcp({{"command": sys.executable, "args": ["-S", "-E", {str(RAW)!r}, "deaf"]}}) as server:
                print((await server.call("child", {{}})).content[0]["text"], flush=True)
                await asyncio.sleep(60)
        asyncio.run(main())
    """)
    program = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program, program.stdout as out:
        pids = [int(p) for p in out.readline().split()]
        assert len(pids) == 2
        assert all(alive(p) for p in pids)
        program.kill()
    assert all(ended(p, 5) for p in pids)


def test_connection_works_in_each_new_event_loop() -> None:
    async def connect_and_call() -> str:
        async with connect_mcp(raw_server_config()) as server:
            return (await server.call("echo", {"text": "a"})).content[0]["text"]

    assert [asyncio.run(connect_and_call()), asyncio.run(connect_and_call())] == ["a", "a"]
