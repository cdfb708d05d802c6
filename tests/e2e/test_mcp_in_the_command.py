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
from tests.e2e.servers.chat import call
from tests.helpers.processes import ended

__all__ = ["command"]

pytestmark = pytest.mark.timeout(120)
RAW = Path(__file__).parent.parent / "unit" / "mcp" / "raw_server.py"


def server_entry(*flags: str, **more: Any) -> dict[str, Any]:
    """Return the configuration entry of `raw_server.py`."""
    return {"command": sys.executable, "args": ["-S", "-E", str(RAW), *flags], **more}


def set_servers(command: Command, **servers: Any) -> None:
    command.settings({"mcp": {"graceSeconds": 30, "servers": servers}})


def offered_servers(command: Command) -> set[str]:
    """Return the servers whose tools the last request contains."""
    names = [t["function"]["name"] for t in command.server.requests[-1].get("tools", [])]
    return {n.split("__")[1] for n in names if n.startswith("mcp__")}


def tool_results(command: Command) -> list[str]:
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


@pytest.mark.covers("MCP-04", "MCP-07")
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


@pytest.mark.covers("MCP-04")
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
