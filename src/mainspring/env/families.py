"""Which processes belong to a command, and ending all of them.

A command's family: its session and process group, their descendants, and (on Linux) every process that carries the
variable `MARK` of the run, so that a daemon that left both is found too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

from msgspec import Struct

MARK = "MAINSPRING_RUN"
"""Variable that tells a run's processes; its value is unique to the run."""

_POLL = 0.02


class Process(Struct, frozen=True):
    """A running process."""

    pid: int
    parent: int
    group: int
    session: int


def family(leader: int, mark: str) -> set[int]:
    """The running processes of the run that ``leader`` was started for. Blocking; some milliseconds."""
    processes = _linux_processes() if sys.platform == "linux" else _listed_processes()
    found = {p.pid for p in processes if leader in (p.pid, p.group, p.session)}
    known = found | {leader}
    grown = True
    while grown:
        grown = False
        for p in processes:
            if p.parent in known and p.pid not in known:
                known.add(p.pid)
                found.add(p.pid)
                grown = True
    if sys.platform == "linux":
        needle = f"{MARK}={mark}".encode()
        found |= {p.pid for p in processes if p.pid not in found and _carries(p.pid, needle)}
    return found - {os.getpid()}


def daemons(leader: int, mark: str) -> set[int]:
    """What a run left behind outside its group, found by the mark among what was started after ``leader``. Cheap."""
    if sys.platform != "linux":
        return set()
    needle = f"{MARK}={mark}".encode()
    later = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > leader]
    return {pid for pid in later if _carries(pid, needle)}


def has_group(leader: int) -> bool:
    """Whether the leader's process group has members, dead ones included; cheap."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def end_family(leader: int, mark: str, grace: float) -> set[int]:
    """Ask all to end (SIGTERM), wait ``grace`` seconds, force what is left (SIGKILL).

    Returns:
        Those that still run, which can only be such as the system does not let us end.
    """
    if sys.platform == "win32":
        await asyncio.to_thread(subprocess.run, ["taskkill", "/T", "/F", "/PID", str(leader)], capture_output=True)
        return set()
    left = await asyncio.to_thread(family, leader, mark)
    _signal(left, signal.SIGTERM, leader)
    left = await _wait_for_end(leader, mark, left, grace)
    for _ in range(3):  # What is killed may have started something in the meantime.
        if not left:
            break
        _signal(left, signal.SIGKILL, leader)
        left = await _wait_for_end(leader, mark, left, 1.0)
    return left


def kill_group(leader: int, others: Iterable[int] = ()) -> None:
    """Force the leader's process group and ``others`` to end, at once and without looking."""
    if sys.platform != "win32":
        _signal(others, signal.SIGKILL, leader)


async def _wait_for_end(leader: int, mark: str, left: set[int], seconds: float) -> set[int]:
    end = time.monotonic() + seconds
    pause = _POLL
    while left and time.monotonic() < end:
        await asyncio.sleep(pause)
        left = await asyncio.to_thread(family, leader, mark)
        pause = min(pause * 2, 0.2)
    return left


def _signal(pids: Iterable[int], number: signal.Signals, leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _linux_processes() -> list[Process]:
    found: list[Process] = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        state, parent, group, session = stat[stat.rindex(b")") + 2 :].split()[:4]
        if state not in (b"Z", b"X"):
            found.append(Process(int(name), int(parent), int(group), int(session)))
    return found


def _listed_processes() -> list[Process]:
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [Process(int(r[0]), int(r[1]), int(r[2]), 0) for r in rows if len(r) == 4 and not r[3].startswith("Z")]


def _carries(pid: int, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return needle in file.read()
    except OSError:
        return False
