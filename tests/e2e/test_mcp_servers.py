"""Published MCP servers with our client, and the official conformance suite. Slow, because they are installed first."""

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring.mcp import McpError, McpServer, McpServerConfig, connect_mcp
from tests.requires import requires
from tests.unit.mcp.harness import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    requires(shutil.which("npm") is not None, "npm, to install servers and the conformance suite"),
]

logger = logging.getLogger(__name__)  # the figures: pytest -m soak -o log_cli=true --log-cli-level=INFO

SUITES = ("0.1.16", "0.2.0-alpha.12")
"""Versions of the suite: the current one, and the one for the newer protocol."""

EXPLAINED = {
    "auth/basic-cimd": "a warning: it wants a client id that is a public page about the client, which a program on a desktop has not",
    "auth/2025-03-26-oauth-metadata-backcompat": "0.1.16 only: its login names another issuer than its own address, which the SDK refuses (RFC 8414)",
}


@pytest.fixture(scope="module")
def installed_servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the servers from npm and PyPI into a folder."""
    folder = tmp_path_factory.mktemp("servers")
    names = ["everything", "filesystem", "memory"]
    packages = [f"@modelcontextprotocol/server-{n}" for n in names]
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], cwd=folder, check=True, timeout=600
    )
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "mcp-server-git", "mcp-server-time", "mcp-server-fetch"], check=True, timeout=600)
    subprocess.run(["git", "init", "--quiet", str(folder / "repository")], check=True, timeout=240)
    return folder


def server_config(installed_servers: Path, name: str) -> McpServerConfig:
    """Return the configuration of a server."""
    if name in ("git", "time", "fetch"):
        more = ("--repository", str(installed_servers / "repository")) if name == "git" else ()
        python = str(installed_servers / "venv" / "bin" / "python")
        return McpServerConfig(name=name, command=python, args=("-m", f"mcp_server_{name}", *more), connect_timeout=60)
    script = installed_servers / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    more = (str(installed_servers),) if name == "filesystem" else ()
    env = {"MEMORY_FILE_PATH": str(installed_servers / "memory.json")} if name == "memory" else {}
    return McpServerConfig(name=name, command="node", args=(str(script), *more), env=env, connect_timeout=60)


CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "everything": ("echo", {"message": "hello"}, "hello"),
    "filesystem": ("list_allowed_directories", {}, "Allowed"),
    "memory": ("read_graph", {}, "entities"),
    "git": ("git_status", {}, "branch"),
    "time": ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
    "fetch": ("fetch", {"url": "http://127.0.0.1:9/"}, ""),
}


def call_arguments(installed_servers: Path, name: str) -> dict[str, Any]:
    given = CALLS[name][1]
    return {"repo_path": str(installed_servers / "repository")} if name == "git" else given


def result_text(answer: Any) -> str:
    return json.dumps(answer.content)


def find_processes(marker: Path) -> list[int]:
    """Return the processes whose command line contains this folder."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(marker).encode() in line and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("name", CALLS)
async def test_real_mcp_server_restarts_after_a_kill(installed_servers: Path, name: str) -> None:
    tool, _, expected = CALLS[name]
    figures: dict[str, Any] = {}
    began = time.perf_counter()
    async with connect_mcp(server_config(installed_servers, name)) as server:
        figures["connect"] = round(time.perf_counter() - began, 2)
        figures["tools"] = len(server.tools)
        assert tool in {i.name for i in server.tool_infos}
        began = time.perf_counter()
        answer = await server.call(tool, call_arguments(installed_servers, name))
        figures["call"] = round(time.perf_counter() - began, 3)
        assert expected in result_text(answer)
        for listing in (server.list_resources, server.list_prompts):
            await listing()

        for pid in find_processes(installed_servers):
            os.kill(pid, signal.SIGKILL)
        began = time.perf_counter()
        again = await call_with_retries(server, tool, call_arguments(installed_servers, name))
        figures["restart"] = round(time.perf_counter() - began, 2)
        assert expected in result_text(again)
    assert not find_processes(installed_servers), "a process survived its connection"
    logger.info("%s: %s", name, json.dumps(figures))


async def call_with_retries(server: McpServer, tool: str, given: Mapping[str, Any]) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await server.call(tool, given)
            except McpError as failure:
                if failure.reason not in ("lost", "connect"):
                    raise


async def test_long_call_reports_progress_and_handles_cancel_and_kill(installed_servers: Path) -> None:
    async with connect_mcp(server_config(installed_servers, "everything")) as server:
        long = next(i.name for i in server.tool_infos if "long" in i.name.lower())
        steps: list[float] = []

        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await server.call(long, {"duration": 1, "steps": 3}, on_progress)
        assert steps

        task = asyncio.create_task(server.call(long, {"duration": 60, "steps": 60}, on_progress))
        before = len(steps)
        await wait_until(lambda: len(steps) > before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "hello" in result_text(await server.call("echo", {"message": "hello"}))  # the connection still works

        before = len(steps)
        task = asyncio.create_task(server.call(long, {"duration": 60, "steps": 60}, on_progress))
        await wait_until(lambda: len(steps) > before)
        began = time.perf_counter()
        for pid in find_processes(installed_servers):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(McpError) as failed:
            await task
        assert failed.value.reason == "lost"
        assert time.perf_counter() - began < 5
        assert "again" in result_text(await call_with_retries(server, "echo", {"message": "again"}))
    assert not find_processes(installed_servers)


@pytest.fixture(scope="module", params=SUITES)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of a version of the suite, with a Node.js that is new enough."""
    folder = tmp_path_factory.mktemp("conformance")
    packages = [f"@modelcontextprotocol/conformance@{request.param}", "node@22"]
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], cwd=folder, check=True, timeout=600
    )
    modules = folder / "node_modules"
    return [
        str(modules / "node" / "bin" / "node"),
        str(modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"),
    ]


def test_client_passes_the_official_conformance_suite(suite: list[str], tmp_path: Path) -> None:
    listed = subprocess.run(
        [*suite, "list", "--client"], capture_output=True, text=True, check=True, timeout=240
    ).stdout
    scenarios = [
        line.split()[1] for line in listed.splitlines() if line.strip().startswith("- ") and "extension" not in line
    ]
    assert len(scenarios) > 20
    failed: dict[str, str] = {}
    for scenario in scenarios:
        client = f"{sys.executable} -m mainspring.testing.mcp_conformance"
        done = subprocess.run(
            [*suite, "client", "--command", client, "--scenario", scenario, "-o", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        logger.info("%s: %s", scenario, "passed" if done.returncode == 0 else "failed")
        if done.returncode:
            failed[scenario] = done.stdout[-1500:]
    assert failed.keys() <= EXPLAINED.keys(), "\n".join(f"{n}\n{t}" for n, t in failed.items() if n not in EXPLAINED)
