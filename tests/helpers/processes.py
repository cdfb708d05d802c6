"""Wait for processes that are not our children."""

import os
import select
import subprocess
import threading
import time
from pathlib import Path


def ended(pid: int, seconds: float = 120.0) -> bool:
    """Return True if a process ends within a time; a zombie has ended."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        threading.Event().wait(0.05)
    return False


def alive(pid: int) -> bool:
    """Return True if a process is running; a zombie is not."""
    return not ended(pid, 0)


def stopped(pid: int) -> bool:
    """Return True if a process is suspended."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        return stat.read_text().rpartition(")")[2].split()[0] == "T"
    ps = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ps.stdout.strip().startswith("T")
