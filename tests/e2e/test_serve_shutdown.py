"""Any shutdown of a stdio server during a tool call stops its programs and keeps the stored conversation."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call
from tests.helpers.processes import ended

__all__ = ["command"]

pytestmark = pytest.mark.slow

STUBBORN = "trap '' TERM INT HUP; echo $$ > begun; while :; do sleep 97; done"
"""A script that reports when it runs and ends only on SIGKILL."""


class Server:
    """A server and its message lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def until(self, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.process.stdout is not None
        return next(message for message in map(json.loads, self.process.stdout) if matches(message))

    def ask(self, id: int, method: str, **params: Any) -> Any:
        self.send(jsonrpc="2.0", id=id, method=method, params=params)
        return self.until(lambda message: message.get("id") == id)["result"]


def acp(server: Server, folder: Path) -> None:
    server.ask(1, "initialize", protocolVersion=1)
    session = server.ask(2, "session/new", cwd=str(folder), mcpServers=[])["sessionId"]
    prompt = [{"type": "text", "text": "go"}]
    server.send(jsonrpc="2.0", id=3, method="session/prompt", params={"sessionId": session, "prompt": prompt})


def rpc(server: Server, folder: Path) -> None:
    server.send(id=1, command={"type": "prompt", "text": "go"})


def mcp(server: Server, folder: Path) -> None:
    client = {"name": "test", "version": "1"}
    server.ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    server.send(jsonrpc="2.0", method="notifications/initialized")
    server.send(jsonrpc="2.0", id=2, method="tools/call", params={"name": "run", "arguments": {"prompt": "go"}})


@contextmanager
def start_call(command: Command, begin: Callable[[Server, Path], None]) -> Iterator[tuple[Server, int]]:
    """Start a server with a running script in a tool call; yield it and the process ID of the script."""
    command.server.script = [call("shell", command=STUBBORN), "never said"]
    os.mkfifo(command.folder / "begun")
    arguments = ("serve", f"--{begin.__name__}", "--model", "openai:test-model", "--allow", f"shell({STUBBORN})")
    with command.start(*arguments, "--allow", "scope:fs-write", stdin=subprocess.PIPE) as process:
        server = Server(process)
        begin(server, command.folder)
        script = int((command.folder / "begun").read_text())  # blocks until the script has started
        try:
            yield server, script
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("begin", "ending"),
    [
        *product((acp, rpc, mcp), ("the input ends", "SIGTERM", "two signals", "nobody reads")),
        (rpc, "SIGINT"),
        (rpc, "SIGHUP"),
    ],
)
def test_server_shutdown_kills_running_scripts(
    command: Command, begin: Callable[[Server, Path], None], ending: str
) -> None:
    with start_call(command, begin) as (server, script):
        process = server.process
        assert process.stdin is not None
        assert process.stdout is not None
        if ending == "the input ends":
            process.stdin.close()
        elif ending == "nobody reads":
            process.stdout.close()
            process.stdin.close()
        else:
            process.send_signal(signal.SIGTERM if ending == "two signals" else signal.Signals[ending])
            if ending == "two signals":
                process.send_signal(signal.SIGINT)
        code = process.wait(120)
        assert ended(script)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    requested = {"SIGTERM": (143,), "SIGINT": (130,), "SIGHUP": (129,), "two signals": (143, 130)}
    assert code in requested.get(ending, (0,))
    assert "go" in command.run("sessions", "list").out


@pytest.mark.parametrize("mode", ["acp", "rpc", "mcp"])
def test_server_exits_immediately_without_input(command: Command, mode: str) -> None:
    with command.start("serve", f"--{mode}", "--model", "openai:test-model", stdin=subprocess.DEVNULL) as process:
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
