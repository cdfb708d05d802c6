"""Shared code of the durable worker tests: the process that forks workers, and their databases."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import ended
from tests.requires import durable_on_sqlite

HERE = Path(__file__).resolve().parent


class Workers:
    """Starts and kills workers on one database.

    Attributes:
        url: The database.
        folder: The folder where the model and the tools log their calls.
    """

    def __init__(self, start_fork_server: subprocess.Popen[str], url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._fork_server = start_fork_server
        self._pids: set[int] = set()
        self._started = 0

    def start(self, name: str, **options: Any) -> int:
        """Start a worker and return its process ID."""
        assert self._fork_server.stdin
        assert self._fork_server.stdout
        self._started = len(self.lines("up"))
        order = {"url": self.url, "folder": str(self.folder), "name": name, **options}
        self._fork_server.stdin.write(json.dumps(order) + "\n")
        self._fork_server.stdin.flush()
        pid = int(self._fork_server.stdout.readline())
        self._pids.add(pid)
        return pid

    async def wait_until_started(self) -> None:
        """Wait until the last started worker is running."""
        async with asyncio.timeout(120):
            while len(self.lines("up")) <= self._started:
                await _moment()

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Kill a worker and wait for its end."""
        os.kill(pid, number)
        assert ended(pid)
        self._pids.discard(pid)

    def close(self) -> None:
        """Kill all workers."""
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            ended(pid)

    def lines(self, name: str, after: int = 0) -> list[str]:
        """Return the logged lines."""
        path = self.folder / name
        return path.read_text().splitlines()[after:] if path.exists() else []


async def _moment() -> None:
    await asyncio.sleep(0.01)


@contextmanager
def start_fork_server() -> Iterator[subprocess.Popen[str]]:
    """Start the process that forks workers."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "durable_workers.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parent.parent,
    )
    with process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture(scope="module")
def fork_server() -> Iterator[subprocess.Popen[str]]:
    """Yield one fork server for all tests of a module."""
    with start_fork_server() as process:
        yield process


@pytest.fixture(params=[pytest.param("sqlite", marks=durable_on_sqlite), "postgres"])
async def workers(
    request: pytest.FixtureRequest, fork_server: subprocess.Popen[str], tmp_path: Path
) -> AsyncIterator[Workers]:
    """Yield workers on an empty database, SQLite or PostgreSQL."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    if request.param == "postgres":
        url = await asyncio.to_thread(request.getfixturevalue("postgres").database)
    started_workers = Workers(fork_server, url, tmp_path)
    yield started_workers
    await asyncio.to_thread(started_workers.close)
