"""Servers that are programs: started, asked, cancelled, killed, and never left behind."""

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
from mainspring.mcp import Answer, ElicitResult, McpError, SamplingResult, connect_mcp
from mainspring.mcp.message_repair import repair_result
from mainspring.tools import ToolContext
from tests.helpers.processes import alive, ended
from tests.unit.mcp.harness import RAW, raw, until


@pytest.mark.covers("MCP-01", "MCP-02", "MCP-05", "MCP-12")
async def test_a_server_is_started_its_tools_listed_and_called(tmp_path: Path) -> None:
    config = raw(env={"OWN": "value"}, cwd=str(tmp_path))
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


async def test_where_the_sdk_is_not_installed_that_is_said_and_no_server_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpError, match=r"Cannot connect to MCP server 'raw': .* require .*pip install .*\[mcp\]'"):
        async with connect_mcp(raw()):
            pass


@pytest.mark.covers("BYD-10")
async def test_everything_that_a_server_may_ask_is_answered_or_refused(tmp_path: Path) -> None:
    async with connect_mcp(raw()) as server:
        for tool in ("ask", "visit", "sample", "roots", "ping"):
            said = json.loads((await server.call(tool, {})).content[0]["text"])
            expected = {
                "ask": {"action": "decline"},
                "visit": {"action": "decline"},
                "sample": {"code": -1, "message": "The user did not allow it"},
                "roots": {"roots": []},
                "ping": {},
            }
            assert said == expected[tool], tool

    async def sampler(asked: object) -> SamplingResult:
        return SamplingResult("hi there", "some-model")

    options = {
        "elicit": lambda request: ElicitResult("accept", {"city": request.message, "days": 3}),
        "allow_sampling": lambda request: request.system == "Short.",
        "sampler": sampler,
        "roots": [str(tmp_path)],
    }
    async with connect_mcp(raw(), **options) as server:
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
    async with connect_mcp(raw()) as server:
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


async def test_the_newest_tool_list_of_a_server_counts() -> None:
    async with connect_mcp(raw()) as server:
        assert "mcp__raw__grown" not in [t.name for t in server.tools]
        await server.call("grow", {})
        await until(lambda: "mcp__raw__grown" in [t.name for t in server.tools])


async def test_all_pages_of_a_list_are_read_and_one_without_end_is_not() -> None:
    async with connect_mcp(raw("pages")) as server, connect_mcp(raw("loop")) as endless:
        assert len(server.tools) == 17
        assert [t.name for t in endless.tools] == ["mcp__raw__add"]


async def test_one_odd_tool_costs_no_other_and_odd_results_are_results() -> None:
    async with connect_mcp(raw("odd")) as server:
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
    ("line", "said"),
    [
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[],"structuredContent":{"v":NaN,"w":-Infinity}}}', {"v": None, "w": None}),
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}', "a?b"),
        ('{"jsonrpc":"2.0","id":KEY,"error":{"code":"E1","message":"no luck"}}', "no luck"),
        ('{"jsonrpc":"2.0","id":KEY,"error":"out of luck"}', "out of luck"),
        ('{"jsonrpc":"2.0","id":KEY,"result":null}', "not a valid protocol message"),
        ('{"jsonrpc":"2.0","id":KEY,"result":{"content":[],"structuredContent":{"v":DEEP}}}', "not a valid protocol message"),
    ],
    ids=["nan", "surrogate", "code", "text", "null", "deep"],
)  # fmt: skip
async def test_nobody_waits_for_an_answer_that_is_broken(line: str, said: Any) -> None:
    async with connect_mcp(raw(timeout=15.0)) as server:
        pid = (await server.call("pid", {})).content[0]["text"]
        (given,) = await asyncio.gather(server.call("broken", {"text": line}), return_exceptions=True)
        if isinstance(given, McpError):
            assert given.reason == "refused"
            assert said in str(given)
        else:
            assert isinstance(given, Answer)
            assert said in (given.structured, *[b["text"] for b in given.content])
        assert (await server.call("pid", {})).content[0]["text"] == pid  # the connection stands


async def test_lists_that_are_none_are_empty() -> None:
    found: dict[str, Any] = {"tools": None, "resources": {}, "prompts": 5, "resourceTemplates": "x"}
    repair_result(found)
    assert set(map(str, found.values())) == {"[]"}


@pytest.mark.covers("BYD-10")
async def test_progress_is_told_and_keeps_a_call_alive() -> None:
    async with connect_mcp(raw(timeout=0.4)) as server:
        told: list[tuple[float, float | None, str | None]] = []
        answer = await server.call("progress", {"n": 250}, lambda *step: told.append(step))
        assert answer.content[0]["text"] == "done"
        assert told[0] == (1, 3, "step 1")
        with pytest.raises(McpError, match="no response or progress for 0.4 seconds") as caught:
            await server.call("slow", {})
        assert caught.value.reason == "timeout"
        # What is still to come of the call is passed over, and the session is as good as before.
        assert json.loads((await server.call("state", {})).content[0]["text"])["cancelled"]
        assert (await server.call("echo", {"text": "on"})).content[0]["text"] == "on"


@pytest.mark.covers("BYD-10")
async def test_time_does_not_run_while_a_person_is_asked() -> None:
    async def slowly(asked: object) -> ElicitResult:
        await asyncio.sleep(0.5)
        return ElicitResult("cancel")

    async with connect_mcp(raw(timeout=0.2), elicit=slowly) as server:
        assert json.loads((await server.call("ask", {})).content[0]["text"]) == {"action": "cancel"}


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    async with connect_mcp(raw()) as server:
        call = asyncio.ensure_future(server.call("slow", {}))
        await until(lambda: server._timeouts._clocks)
        await server.call("echo", {})  # the first one has been sent before
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert json.loads((await server.call("state", {})).content[0]["text"])["cancelled"]


async def test_what_a_server_prints_beside_the_protocol_is_kept_and_harms_nothing(tmp_path: Path) -> None:
    async with connect_mcp(raw("noise", "flood")) as server:
        assert (await server.call("echo", {"text": "fine"})).content[0]["text"] == "fine"
        await until(lambda: any("line 4999" in line for line in server.log.lines))
        assert len(server.log.lines) <= 200


async def test_large_messages_pass_in_both_directions() -> None:
    async with connect_mcp(raw()) as server:
        assert len((await server.call("big", {"n": 3_000_000})).content[0]["text"]) == 3_000_000
        assert len((await server.call("echo", {"text": "ä" * 1_000_000})).content[0]["text"]) == 1_000_000


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (raw("die"), r"the program exited immediately \(exit code 1\).*\n.*cannot find the database"),
        (raw("hang", connect_timeout=0.3), r"did not respond within 0.3 seconds"),
        (replace(raw(), command="no-such-program-here"), r"Program not found on its PATH: 'no-such-program-here'"),
        (replace(raw(), command="/etc/passwd"), r"Cannot start MCP server 'raw': /etc/passwd: Permission denied"),
        (replace(raw(), cwd="/no/such/folder"), r"Cannot start MCP server 'raw': .*No such file"),
        (
            replace(raw(), env={"A": "${NO_SUCH_VARIABLE_HERE}"}),
            r"requires the variable NO_SUCH_VARIABLE_HERE, which is not set",
        ),
    ],
    ids=["dies", "hangs", "no program", "not executable", "no folder", "no variable"],
)
async def test_a_server_that_cannot_be_had_says_why(config, text: str) -> None:
    with pytest.raises(McpError, match=text) as caught:
        async with connect_mcp(config):
            pass
    assert caught.value.reason == "connect"


async def test_a_server_that_dies_in_mid_call_fails_the_call_at_once_and_is_started_again() -> None:
    async with connect_mcp(raw()) as server:
        first = (await server.call("pid", {})).content[0]["text"]
        with pytest.raises(McpError, match=r"ended \(exit code 3\)") as caught:
            await server.call("crash", {})
        assert caught.value.reason == "lost"
        assert "out of memory" in str(caught.value)
        assert "REDACTME" not in str(caught.value)
        second = (await server.call("pid", {})).content[0]["text"]
        assert second != first
        os.kill(int(second), signal.SIGKILL)
        await until(lambda: server.status != "ready" or server._connection is None)
        assert (await server.call("pid", {})).content[0]["text"] not in (first, second)


@pytest.mark.parametrize("flags", [(), ("deaf",)], ids=["willing", "deaf"])
async def test_nothing_that_a_server_started_outlives_it(flags: tuple[str, ...]) -> None:
    async with connect_mcp(raw(*flags)) as server:
        pids = [int(p) for p in (await server.call("child", {})).content[0]["text"].split()]
        pids += [int(p) for p in (await server.call("child", {"n": 1})).content[0]["text"].split()]
        assert all(alive(p) for p in pids)
    assert all(ended(p, 2) for p in pids)


def test_nothing_outlives_us_when_we_are_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import asyncio, sys
        from mainspring.mcp import connect_mcp
        async def main():
            async with connect_mcp({{"command": sys.executable, "args": ["-S", "-E", {str(RAW)!r}, "deaf"]}}) as server:
                print((await server.call("child", {{}})).content[0]["text"], flush=True)
                await asyncio.sleep(60)
        asyncio.run(main())
    """)
    us = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert us.stdout is not None
    with us, us.stdout as out:
        pids = [int(p) for p in out.readline().split()]
        assert len(pids) == 2
        assert all(alive(p) for p in pids)
        us.kill()
    assert all(ended(p, 5) for p in pids)


def test_connections_are_made_anew_in_another_event_loop() -> None:
    async def once() -> str:
        async with connect_mcp(raw()) as server:
            return (await server.call("echo", {"text": "a"})).content[0]["text"]

    assert [asyncio.run(once()), asyncio.run(once())] == ["a", "a"]
