"""The command with MCP servers: real programs, configuration files of the user and of projects, and a clean exit."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command, finish
from tests.e2e.servers.chat import Reply, call
from tests.helpers.processes import ended

__all__ = ["command"]

pytestmark = pytest.mark.slow
RAW = Path(__file__).parent.parent / "unit" / "mcp" / "raw_server.py"


def server_entry(*flags: str, **more: Any) -> dict[str, Any]:
    """Return the configuration entry of `raw_server.py`."""
    return {"command": sys.executable, "args": ["-S", "-E", str(RAW), *flags], **more}


def set_servers(command: Command, **servers: Any) -> None:
    command.settings({"mcp": {"graceSeconds": 120, "servers": servers}})


def offered_servers(command: Command) -> set[str]:
    """Return the servers whose tools the last request contains."""
    names = [t["function"]["name"] for t in command.server.requests[-1].get("tools", [])]
    return {n.split("__")[1] for n in names if n.startswith("mcp__")}


def tool_results(command: Command) -> list[str]:
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


def test_mcp_servers_from_settings_and_files_load_despite_a_bad_one(command: Command) -> None:
    set_servers(command, set=server_entry(), bad={"command": "no-such-program-here"}, off=server_entry(disabled=True))
    (command.home / ".agent" / "mcp.json").write_text(
        json.dumps({"mcpServers": {"file": server_entry(), "odd": {"comand": 1}}})
    )
    command.server.script += [call("mcp__set__echo", text="hi"), call("mcp__file__echo", text="ho"), "done"]
    done = command.run("-p", "go", "--allow", "mcp__set__*")
    assert (done.code, done.out) == (0, "done\n")
    first, second = tool_results(command)
    assert first == "hi"
    assert "ermission" in second
    assert offered_servers(command) == {"set", "file"}
    assert "MCP server 'odd': Unknown setting: 'comand'. Did you mean 'command'?" in done.err
    assert done.err.count("Cannot start MCP server 'bad': Program not found on its PATH: 'no-such-program-here'") == 1
    assert (command.home / ".agent" / "mcp" / "logs" / "set.log").read_text() == "ready\n"


def test_stream_json_has_one_start_with_the_tools_of_the_servers(command: Command) -> None:
    set_servers(command, set=server_entry(), bad={"command": "no-such-program-here"})
    command.server.script.append("done")
    done = command.run("-p", "go", "--output", "stream-json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    kinds = [event["type"] for event in events]
    assert kinds.count("agent_start") == 1
    start = kinds.index("agent_start")
    assert set(kinds[:start]) <= {"notice", "mcp_startup", "mcp_server"}
    assert "mcp__set__echo" in events[start]["tools"]
    warnings = [event["text"] for event in events if event["type"] == "notice" and event.get("level") == "warn"]
    assert len(warnings) == 1
    assert warnings[0].startswith("Cannot start MCP server 'bad'")


def test_project_mcp_servers_wait_for_trust(command: Command) -> None:
    set_servers(command)
    (command.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"shared": server_entry()}}))
    (command.folder / ".agent").mkdir()
    (command.folder / ".agent" / "mcp.json").write_text(json.dumps([{"name": "own", **server_entry()}]))
    command.server.script += ["a", "b"]
    done = command.run("-p", "go")
    assert offered_servers(command) == set()
    assert done.err.count("are not started, because the folder is not trusted. Run: mainspring trust") == 2
    assert command.run("trust", str(command.folder)).code == 0
    command.run("-p", "go")
    assert offered_servers(command) == {"shared", "own"}


def many_tools(name: str, count: int, *flags: str, **more: Any) -> dict[str, Any]:
    """Return the configuration entry of `servers/many_tools.py`."""
    program = Path(__file__).parent / "servers" / "many_tools.py"
    return {"command": sys.executable, "args": ["-S", "-E", str(program), name, str(count), *flags], **more}


def tools_of(request: dict[str, Any]) -> list[str]:
    return [t["function"]["name"] for t in request.get("tools", [])]


@pytest.mark.parametrize("mcp", [{}, {"schemaBudget": 10**6}, {"disclosure": "eager"}], ids=["auto", "budget", "eager"])
def test_many_tools_are_searched_automatically(command: Command, mcp: dict[str, Any]) -> None:
    servers = {f"s{n}": many_tools(f"s{n}", 60) for n in range(5)}
    command.settings({"mcp": {"graceSeconds": 120, "servers": servers, **mcp}})
    search = call("tool_search", names=["mcp__s3__way_7"])
    command.server.script += [*(() if mcp else (search,)), call("mcp__s3__way_7", target="x"), "done"]

    done = command.run("-p", "go", "--allow", "mcp__s3__*")

    assert (done.code, done.out) == (0, "done\n")
    assert tool_results(command)[-1] == "s3 did way_7"
    offered = [[n for n in tools_of(r) if n.startswith("mcp__")] for r in command.server.requests]
    assert [len(names) for names in offered] == ([300] * 2 if mcp else [0, 1, 1])
    assert ("read_file" in tools_of(command.server.requests[0])) is True
    assert done.err.count("300 tools of MCP servers take about") == (0 if mcp else 1)
    systems = [str(r["messages"][0]) for r in command.server.requests]
    assert len(set(systems)) == 1  # the prefix of the prompt stays
    listed = command.run("mcp", "list")
    assert ("if all servers were eager" in listed.out + listed.err) is (not mcp)


def test_parallel_calls_wait_for_a_server_that_is_connecting(command: Command) -> None:
    start = command.folder / "start"
    servers = {"s": many_tools("s", 2, str(start)), "ok": many_tools("ok", 1)}
    command.settings({"mcp": {"graceSeconds": 0.0, "servers": servers}})
    calls = [("mcp__s__way_0", {"target": "1"}), ("mcp__s__way_1", {"target": "2"}), ("mcp__s__way_0", {"target": "3"})]
    command.server.script += [Reply(calls=calls), "done"]

    process = command.start("-p", "go", "--allow", "mcp__s__*")
    try:
        wait_until(lambda: bool(command.server.requests))
        start.touch()
        finish(process)
    finally:
        process.kill()

    assert tool_results(command) == ["s did way_0", "s did way_1", "s did way_0"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (many_tools("s", 1, "exit"), "the database is gone"),
        ({"command": "no-such-program-here"}, "Program not found"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot reach http://127.0.0.1:9/mcp"),
        (many_tools("s", 1, "never", connectTimeout=1), "did not respond within 1 second"),
    ],
)
@pytest.mark.parametrize("required", ["flag", "entry"])
def test_required_server_that_does_not_start_ends_the_run(
    command: Command, entry: dict[str, Any], reason: str, required: str
) -> None:
    more = {"required": True} if required == "entry" else {}
    set_servers(command, s={**entry, **more}, ok=many_tools("ok", 1))
    flags = ["--require-mcp"] if required == "flag" else []
    command.server.script += ["done"]

    done = command.run("-p", "go", "--output", "json", *flags)

    assert done.code == 2
    assert "A required MCP server did not start. " in done.result["error"]["message"]
    assert reason in done.result["error"]["message"]
    assert command.server.requests == []


def test_required_servers_that_cannot_be_used_end_the_run(command: Command) -> None:
    command.server.script += ["done"]
    set_servers(command)
    none = command.run("-p", "go", "--require-mcp")
    (command.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": many_tools("s", 1)}}))
    untrusted = command.run("-p", "go", "--require-mcp")
    assert command.run("trust", str(command.folder)).code == 0
    without = command.run("-p", "go", "--require-mcp", "--tools", "read_file")
    trusted = command.run("-p", "go", "--require-mcp")

    assert (none.code, untrusted.code, without.code, trusted.code) == (2, 2, 2, 0)
    assert "--require-mcp: No MCP server is used here." in none.err
    assert "the folder is not trusted" in untrusted.err
    assert "--require-mcp: No MCP server is used with --tools." in without.err
    assert offered_servers(command) == {"s"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_mcp_servers_stop_with_the_command(command: Command, number: signal.Signals) -> None:
    set_servers(command, s=server_entry("deaf"))
    command.server.script += [call("mcp__s__child"), call("mcp__s__slow"), "done"]
    process = command.start("-p", "go", "--allow", "mcp__s__*")
    try:
        wait_until(lambda: len(command.server.requests) == 2)
        pids = [int(p) for p in tool_results(command)[0].split()]
        assert len(pids) == 2
        process.send_signal(number)
        finish(process)
        assert all(ended(pid, 10) for pid in pids)
    finally:
        process.kill()


def test_config_show_hides_mcp_server_secrets(command: Command) -> None:
    set_servers(command, s=server_entry(env={"TOKEN": "abcdef", "OTHER": "${OTHER}"}))
    done = command.run("config", "show")
    assert "abcdef" not in done.out
    assert "${OTHER}" in done.out
    assert RAW.name in done.out
