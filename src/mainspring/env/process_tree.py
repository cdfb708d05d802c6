"""Which processes belong to a command, and ending all of them.

A command's family: its session and process group, their descendants, and (on Linux) every process that carries the
variable `MARK` of the run, so that a daemon that left both is found too.

Ends what an environment left running when this program is killed and can do nothing itself.
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
"""Variable that tells a run's processes; its value is unique to the run."""


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
    """The running processes of the run that ``leader`` was started for. Blocking; some milliseconds.

    Without a mark, those that left its session while their parent ended are not found, and it takes half the time.
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
    """The processes that carry the mark, of those that got their id after the process ``after``. Only Linux can tell."""
    if sys.platform != "linux":
        return set()
    if after and _last_id() < after:
        after = 0  # Ids began anew since.
    needle = f"{RUN_ID_VARIABLE}={mark}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > after]
    return {pid for pid in pids if _has_variable(pid, needle)}


def _last_id() -> int:
    """The id that was given to a process last."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def find_orphans(leader: int, mark: str) -> set[int]:
    """What still runs of a run whose leader ended some time ago, when its id may belong to somebody else."""
    return find_by_run_id(mark) if sys.platform == "linux" else find_processes(leader, mark)


def is_group_alive(leader: int) -> bool:
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


ProcessFinder = Callable[[int, str], set[int]]


async def terminate_tree(leader: int, mark: str, grace: float, find: ProcessFinder = find_processes) -> set[int]:
    """Ask all to end (SIGTERM), wait ``grace`` seconds, force what is left (SIGKILL).

    Args:
        leader: The process that was started.
        mark: The mark of its run.
        grace: Seconds to wait.
        find: Finds its family; `left_behind` once the leader is gone.

    Returns:
        Those that still run, which can only be such as the system does not let us end.
    """
    if sys.platform == "win32":
        await asyncio.to_thread(subprocess.run, ["taskkill", "/T", "/F", "/PID", str(leader)], capture_output=True)
        return set()
    left = await asyncio.to_thread(find, leader, mark)
    _signal(left, signal.SIGTERM, leader if find is find_processes else 0)
    left = await _wait_for_end(leader, mark, left, grace, find)
    for _ in range(3):  # What is killed may have started something in the meantime.
        if not left:
            break
        if len(left) > _STOP_FIRST_ABOVE:
            left = await asyncio.to_thread(_stop_fork_bomb, leader, mark, find)
        _signal(left, signal.SIGKILL, leader if find is find_processes else 0)
        left = await _wait_for_end(leader, mark, left, 1.0, find)
    return left


def _stop_fork_bomb(leader: int, mark: str, find: ProcessFinder) -> set[int]:
    """Stop a swarm that starts new processes as fast as they are killed: what is stopped starts no more. Blocking."""
    found: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        fresh = find(leader, mark) - found
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP, 0)
        found |= fresh
    return found


def kill_tree(leader: int, mark: str, find: ProcessFinder = find_processes) -> None:
    """Force all to end, at once. Blocking; some milliseconds."""
    if sys.platform != "win32":
        found = find(leader, mark)
        if len(found) > _STOP_FIRST_ABOVE:
            found = _stop_fork_bomb(leader, mark, find)
        _signal(found, signal.SIGKILL, leader if find is find_processes else 0)


async def _wait_for_end(leader: int, mark: str, left: set[int], seconds: float, find: ProcessFinder) -> set[int]:
    end = time.monotonic() + seconds
    pause = _POLL
    while left and time.monotonic() < end:
        await asyncio.sleep(pause)
        left = await asyncio.to_thread(find, leader, mark)
        pause = min(pause * 2, 0.2)
    return left


def _signal(pids: Iterable[int], number: signal.Signals, group: int) -> None:
    """Signal each once: many programs take a second SIGTERM for «now»."""
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
"""It waits on a pipe that the system closes when this program ends, however it ends."""


class OrphanReaper:
    """A shell in a session of its own that forces the programs of an environment to end once this program is gone.

    It is started when it is first needed, by a command that may run on by itself, and takes a few milliseconds. Only on
    Linux can it tell which programs those are; elsewhere it does nothing.

    Args:
        mark: How the marks of all runs of the environment begin.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it, unless it runs. Blocking. Where it cannot be started there is none."""
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
        """End it; it does nothing then. Takes about a millisecond, so that a finalizer may do it anywhere."""
        with self._lock:
            process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.kill()  # before its pipe closes, which would be the sign for it
        process.stdin.close()
        process.wait()
