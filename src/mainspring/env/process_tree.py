"""Find the processes that belong to a command, and end all of them.

A command's process tree is its session and process group, their descendants, and (on Linux) every process with the
variable `RUN_ID_VARIABLE` of the run, so that a daemon that left both is found too.

A reaper process ends the programs of an environment if this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from mainspring.programs import find_program

RUN_ID_VARIABLE = "MAINSPRING_RUN"
"""Variable that marks the processes of a run; its value is unique to the run."""


_POLL = 0.02
_STOP_FIRST_ABOVE = 20
_MAX_ROUNDS = 50


class Process(Struct, frozen=True):
    """A running process."""

    pid: int
    parent: int
    group: int
    session: int


def find_processes(leader: int, mark: str) -> set[int]:
    """Return the running processes of the run that ``leader`` was started for. Blocking; some milliseconds.

    Without a mark the search takes half the time, but misses processes that left the session after their parent exited.
    """
    processes = _linux_processes() if sys.platform == "linux" else _ps_processes()
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
    return (found | (find_by_run_id(mark) if mark else set[int]())) - {os.getpid()}


def find_by_run_id(mark: str, after: int = 0) -> set[int]:
    """Return the processes with the mark, of those that started after the process ``after``. Linux only."""
    if sys.platform != "linux":
        return set()
    if after and _last_id() < after:
        after = 0  # The process IDs wrapped around since then.
    needle = f"{RUN_ID_VARIABLE}={mark}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > after]
    return {pid for pid in pids if _has_variable(pid, needle)}


def _last_id() -> int:
    """Return the process ID that was assigned last."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def find_orphans(leader: int, mark: str) -> set[int]:
    """Return the running processes of a run whose leader exited some time ago, when its ID may belong to another process."""
    return find_by_run_id(mark) if sys.platform == "linux" else find_processes(leader, mark)


def is_group_alive(leader: int) -> bool:
    """Return True if the leader's process group has members, including zombies; cheap."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


ProcessFinder = Callable[[int, str], set[int]]


async def terminate_tree(leader: int, mark: str, grace: float, find: ProcessFinder = find_processes) -> set[int]:
    """Send SIGTERM to all processes, wait ``grace`` seconds, and send SIGKILL to the rest.

    Args:
        leader: The process that was started.
        mark: The mark of its run.
        grace: Seconds to wait.
        find: Function that finds its process tree; `find_orphans` after the leader has exited.

    Returns:
        The processes that still run because the system does not let this process end them.
    """
    if sys.platform == "win32":
        await asyncio.to_thread(subprocess.run, ["taskkill", "/T", "/F", "/PID", str(leader)], capture_output=True)
        return set()
    survivors = await asyncio.to_thread(find, leader, mark)
    _signal(survivors, signal.SIGTERM, leader if find is find_processes else 0)
    survivors = await _wait_for_end(leader, mark, survivors, grace, find)
    for _ in range(3):  # A process may have started another one before it was killed.
        if not survivors:
            break
        if len(survivors) > _STOP_FIRST_ABOVE:
            survivors = await asyncio.to_thread(_stop_fork_bomb, leader, mark, find)
        _signal(survivors, signal.SIGKILL, leader if find is find_processes else 0)
        survivors = await _wait_for_end(leader, mark, survivors, 1.0, find)
    return survivors


def _stop_fork_bomb(leader: int, mark: str, find: ProcessFinder) -> set[int]:
    """Stop a fork bomb that starts processes faster than they are killed: a stopped process starts none. Blocking."""
    found: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        fresh = find(leader, mark) - found
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP, 0)
        found |= fresh
    return found


def kill_tree(leader: int, mark: str, find: ProcessFinder = find_processes) -> None:
    """Kill all processes immediately. Blocking; some milliseconds."""
    if sys.platform != "win32":
        found = find(leader, mark)
        if len(found) > _STOP_FIRST_ABOVE:
            found = _stop_fork_bomb(leader, mark, find)
        _signal(found, signal.SIGKILL, leader if find is find_processes else 0)


def kill_by_run_id(mark: str) -> None:
    """Kill all processes with a mark, also those whose start is not finished. Blocking; some milliseconds."""
    if sys.platform != "win32":
        _signal(find_by_run_id(mark), signal.SIGKILL, 0)


async def _wait_for_end(leader: int, mark: str, survivors: set[int], seconds: float, find: ProcessFinder) -> set[int]:
    end = time.monotonic() + seconds
    pause = _POLL
    while survivors and time.monotonic() < end:
        await asyncio.sleep(pause)
        survivors = await asyncio.to_thread(find, leader, mark)
        pause = min(pause * 2, 0.2)
    return survivors


def _signal(pids: Iterable[int], number: signal.Signals, group: int) -> None:
    """Signal each process once: many programs exit immediately at a second SIGTERM."""
    alone = [pid for pid in pids if not group or not _is_in(group, pid)]
    if group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in alone:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _is_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False


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


def _ps_processes() -> list[Process]:
    listed = subprocess.run(
        [find_program("ps") or "/bin/ps", "-axo", "pid=,ppid=,pgid=,stat="],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [Process(int(r[0]), int(r[1]), int(r[2]), 0) for r in rows if len(r) == 4 and not r[3].startswith("Z")]


def _has_variable(pid: int, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return needle in file.read()
    except OSError:
        return False


_SCRIPT = f"""trap '' INT TERM HUP
read -r word
for round in 1 2 3; do
  for file in $(grep -ls "{RUN_ID_VARIABLE}=$1" /proc/[0-9]*/environ); do
    pid=${{file#/proc/}}
    kill -9 "${{pid%/environ}}" 2>/dev/null
  done
done
"""
"""Script that waits on a pipe, which the system closes when this process ends in any way."""


class OrphanReaper:
    """A shell in its own session that kills the programs of an environment after this process has ended.

    It is started when it is first needed, by a command that may keep running, and takes a few milliseconds. It can find those programs
    only on Linux; elsewhere it does nothing.

    Args:
        mark: The prefix of the marks of all runs of the environment.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the reaper, unless it runs. Blocking. If it cannot be started, the environment works without one."""
        if sys.platform != "linux":
            return
        with self._lock, contextlib.suppress(OSError):
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT, "sh", self._mark],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                    start_new_session=True,
                )

    def close(self) -> None:
        """Stop the reaper without killing anything. Takes about a millisecond, so that a finalizer may call it anywhere."""
        with self._lock:
            process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.kill()  # before its pipe closes, which would trigger it
        process.stdin.close()
        process.wait()
