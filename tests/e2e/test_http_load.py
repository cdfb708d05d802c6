"""500 followers of one service, some of whom read nothing or leave: what it takes, and what is left."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.needs import on_linux

TOKEN = "a-token-of-the-test-0123456789"
FOLLOWERS, DEAF, LEAVING = 500, 25, 100

AGENTS = '''
from mainspring import Agent, tool
from mainspring.testing import Call, Reply, ScriptedModel


@tool(idempotent=True)
async def shout() -> str:
    """Say much."""
    return "x" * 50_000


def talker(steps):
    script = [Reply("word " * 200, calls=[Call("shout")], pieces=50, delta_delay=0.01) for _ in range(3)]
    return Agent(ScriptedModel(*script, "over"), tools=[shout], steps=steps)


agents = {"talker": talker}
'''


def figures(pid: int) -> tuple[float, float, int]:
    """Resident memory in MB, CPU seconds, open files."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return memory, seconds, len(os.listdir(f"/proc/{pid}/fd"))


@on_linux
@pytest.mark.soak
@pytest.mark.timeout(180)
async def test_500_followers(tmp_path: Path):
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
        await measure(url, process.pid)
    finally:
        process.kill()
        await process.communicate()


async def measure(url: str, pid: int) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
        async with session.post(f"{url}v1/runs", json={"prompt": "talk"}) as answer:
            run = (await answer.json())["id"]
        events = f"{url}v1/runs/{run}/events"
        before, began = figures(pid), time.monotonic()
        deaf = [await deaf_follower(url, run) for _ in range(DEAF)]

        async def follow(leaves: bool) -> int:
            size = 0
            async with session.get(events) as answer:
                assert answer.status == 200
                async for piece in answer.content.iter_any():
                    size += len(piece)
                    if leaves and size > 20_000:
                        return 0
            return size

        sizes = await asyncio.gather(*[follow(n < LEAVING) for n in range(FOLLOWERS)])
        seconds, during = time.monotonic() - began, figures(pid)
        assert len({size for size in sizes if size}) == 1  # all who stayed got the same
        for each in deaf:
            each.close()
    once = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=once, headers=headers) as session:
        while (left := await followers(session, url)) > 0 or (after := figures(pid))[2] > before[2] + 5:
            pass
    sys.stderr.write(
        f"\n{FOLLOWERS} followers ({LEAVING} leave, {DEAF} more read nothing), {max(sizes) / 1e6:.1f} MB each: {seconds:.1f} s, "
        f"server CPU {during[1] - before[1]:.1f} s, memory {before[0]:.0f} -> {during[0]:.0f} -> {after[0]:.0f} MB, "
        f"open files {before[2]} -> {during[2]} -> {after[2]}, followers left {left:.0f}\n"
    )
    assert during[0] - before[0] < 300
    assert after[2] <= before[2] + 5


async def deaf_follower(url: str, run: str) -> socket.socket:
    place = urlsplit(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, (place.hostname, place.port))
    head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    await loop.sock_sendall(made, head.encode())
    return made


async def followers(session: aiohttp.ClientSession, url: str) -> float:
    async with session.get(f"{url}metrics") as answer:
        text = await answer.text()
    return float(next(line for line in text.splitlines() if line.startswith("mainspring_followers ")).split()[1])
