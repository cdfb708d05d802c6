"""500 followers of one service, some of which read slowly, read nothing, or leave: resources during and after."""

import asyncio
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.requires import on_linux

TOKEN = "a-token-of-the-test-0123456789"
FOLLOWERS, SLOW, SILENT, LEAVING = 500, 25, 25, 100

AGENTS = '''
from mainspring import Agent, tool
from mainspring.testing.scripted_model import ScriptedCall as Call, Reply, ScriptedModel


@tool(idempotent=True)
async def shout() -> str:
    """Say much."""
    return "x" * 50_000


def talker(steps):
    script = [Reply("word " * 200, calls=[Call("shout")], pieces=50, delta_delay=0.01) for _ in range(3)]
    return Agent(ScriptedModel(*script, "over"), tools=[shout], steps=steps)


@tool(idempotent=True)
async def roar() -> str:
    """Say very much."""
    return "x" * 1_000_000


def loud(steps):
    return Agent(ScriptedModel(Reply(calls=[Call("roar") for _ in range(10)]), "over"), tools=[roar], steps=steps)


agents = {"talker": talker, "loud": loud}
'''


def process_figures(pid: int) -> tuple[float, float, int]:
    """Return resident memory in MB, CPU seconds, and open files."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return memory, seconds, len(os.listdir(f"/proc/{pid}/fd"))


@on_linux
@pytest.mark.soak
async def test_service_handles_500_followers(tmp_path: Path):
    (tmp_path / "load_agents.py").write_text(AGENTS)
    arguments = ("--port", "0", "--agents", "load_agents:agents", "--only-agents", "--drain", "1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring", "serve", "--http", *arguments, "--max-requests", "100000"),
        cwd=tmp_path,
        env={**os.environ, "MAINSPRING_SERVE_TOKEN": TOKEN, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        url = (await process.stdout.readline()).decode().strip()
        await measure_service(url, process.pid)
    finally:
        process.kill()
        await process.communicate()


async def measure_service(url: str, pid: int) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def start(agent: str) -> str:
            async with session.post(f"{url}v1/runs", json={"prompt": "talk", "agent": agent}) as answer:
                return (await answer.json())["id"]

        async def follow(run: str, *, leaves: bool = False, slowly: bool = False) -> tuple[int, float]:
            """Return how many bytes arrived and when the last one did; zeros for a follower that leaves."""
            size = 0
            async with session.get(f"{url}v1/runs/{run}/events") as answer:
                assert answer.status == 200
                async for piece in answer.content.iter_chunked(20_000 if slowly else 1_000_000):
                    size += len(piece)
                    if slowly:
                        await asyncio.sleep(0.01)  # at most 2MB per second
                    elif leaves and size > 20_000:
                        return 0, 0.0
            return size, time.monotonic()

        loud = await start("loud")
        async with session.get(f"{url}v1/runs/{loud}/result?wait=60") as answer:
            assert answer.status == 200
        run = await start("talker")
        before, began = process_figures(pid), time.monotonic()
        silent = [await connect_silent_follower(url, loud) for _ in range(SILENT)]
        slow = asyncio.gather(*[follow(loud, slowly=True) for _ in range(SLOW)])
        found = await asyncio.gather(*[follow(run, leaves=n < LEAVING) for n in range(FOLLOWERS)])
        during = process_figures(pid)
        sizes = {size for size, _ in found if size}
        assert len(sizes) == 1  # all that stayed got the same
        ends = sorted(at - began for _, at in found[LEAVING:])
        slowest, whole = max(at for _, at in await slow) - began, {size for size, _ in await slow}
        assert len(whole) == 1
        after_slow = process_figures(pid)
    await asyncio.to_thread(wait_for_disconnects, silent)
    once = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=once, headers=headers) as session:
        while await get_metric(session, url, "followers") > 0 or (after := process_figures(pid))[2] > before[2] + 5:
            pass
        cut = await get_metric(session, url, "followers_cut_total")
    for each in silent:
        each.close()
    sys.stderr.write(
        f"\n{FOLLOWERS} followers of {max(sizes) / 1e6:.1f} MB each, of whom {LEAVING} leave; beside them {SLOW} that read "
        f"{max(whole) / 1e6:.0f} MB slowly, and {SILENT} that read nothing of it. The first was done after {ends[0]:.1f} s, half of them "
        f"after {ends[len(ends) // 2]:.1f} s, the last after {ends[-1]:.1f} s, the slow ones after {slowest:.1f} s; {cut:.0f} were "
        f"cut off. Server: CPU {after_slow[1] - before[1]:.1f} s, memory {before[0]:.0f} -> {during[0]:.0f} -> "
        f"{after_slow[0]:.0f} -> {after[0]:.0f} MB, open files {before[2]} -> {during[2]} -> {after[2]}\n"
    )
    assert cut == SILENT
    assert max(during[0], after_slow[0]) - before[0] < 150


async def connect_silent_follower(url: str, run: str) -> socket.socket:
    place = urlsplit(url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (place.hostname, place.port))
    head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    await loop.sock_sendall(connection, head.encode())
    return connection


def wait_for_disconnects(silent: list[socket.socket]) -> None:
    """Wait until the service has disconnected all of them, which happens 30s after the last read."""
    for each in silent:
        poll = select.poll()
        poll.register(each, 0)  # only the end of the connection
        assert poll.poll(60_000)


async def get_metric(session: aiohttp.ClientSession, url: str, name: str) -> float:
    async with session.get(f"{url}metrics") as answer:
        text = await answer.text()
    return float(next(line for line in text.splitlines() if line.startswith(f"mainspring_{name} ")).split()[1])
