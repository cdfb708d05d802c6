"""What tests of durable workers share: the process they are forked from, and databases to work on."""

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

HERE = Path(__file__).resolve().parent


class Workers:
    """Starts and kills workers on one database.

    Attributes:
        url: The database.
        folder: Where model and tools note what they do.
    """

    def __init__(self, nursery: subprocess.Popen[str], url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._nursery = nursery
        self._pids: set[int] = set()
        self._up = 0

    def start(self, name: str, **options: Any) -> int:
        """Start one and give its process id."""
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._up = len(self.lines("up"))
        order = {"url": self.url, "folder": str(self.folder), "name": name, **options}
        self._nursery.stdin.write(json.dumps(order) + "\n")
        self._nursery.stdin.flush()
        pid = int(self._nursery.stdout.readline())
        self._pids.add(pid)
        return pid

    async def up(self) -> None:
        """Wait until one more is at work than when the last one was started."""
        async with asyncio.timeout(40):
            while len(self.lines("up")) <= self._up:
                await _moment()

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """End one, and wait for that."""
        os.kill(pid, number)
        assert ended(pid, 40)
        self._pids.discard(pid)

    def close(self) -> None:
        """End all."""
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            ended(pid)

    def lines(self, name: str, after: int = 0) -> list[str]:
        """What was noted so far."""
        path = self.folder / name
        return path.read_text().splitlines()[after:] if path.exists() else []


async def _moment() -> None:
    await asyncio.sleep(0.01)


@contextmanager
def nursery() -> Iterator[subprocess.Popen[str]]:
    """The process that workers are forked from."""
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
def forking() -> Iterator[subprocess.Popen[str]]:
    """One for all tests of a module."""
    with nursery() as process:
        yield process


@pytest.fixture(params=["sqlite", "postgres"])
async def workers(
    request: pytest.FixtureRequest, forking: subprocess.Popen[str], tmp_path: Path
) -> AsyncIterator[Workers]:
    """Workers on an empty database of either kind."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    if request.param == "postgres":
        url = await asyncio.to_thread(request.getfixturevalue("postgres").database)
    made = Workers(forking, url, tmp_path)
    yield made
    await asyncio.to_thread(made.close)
