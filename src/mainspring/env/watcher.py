"""Ends what an environment left running when this program is killed and can do nothing itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

from mainspring.env.process_tree import MARK

_SCRIPT = f"""trap '' INT TERM HUP
read -r word
for round in 1 2 3; do
  for file in $(grep -ls "{MARK}=$1" /proc/[0-9]*/environ); do
    pid=${{file#/proc/}}
    kill -9 "${{pid%/environ}}" 2>/dev/null
  done
done
"""
"""It waits on a pipe that the system closes when this program ends, however it ends."""


class Watcher:
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
