"""The terminal is restored after any end of the process, on a pseudoterminal."""

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from mainspring.app.tui.terminal_guard import RESTORE
from tests.requires import on_posix

pytestmark = on_posix

_PROGRAM = """
import os, sys, termios
from mainspring.app.tui.terminal_guard import TerminalGuard
with TerminalGuard(0) as guard:
    guard.disable_echo()
    os.write(1, b"\\x1b[?25lready")
    {end}
"""


@pytest.mark.covers("CLI-19")
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os._exit(7)", 7),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_terminal_is_restored(end: str, code: int, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    pause = threading.Event()
    try:
        before = termios.tcgetattr(theirs)
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(end=end)],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
        )
        read = b""
        while RESTORE.encode() not in read:
            read += os.read(ours, 1000)
        assert process.wait(120) == code
        assert b"ready" in read
        assert any(termios.tcgetattr(theirs) == before or pause.wait(0.02) for _ in range(6_000))
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.covers("CLI-19")
@pytest.mark.parametrize(("counts", "expected"), [((), b"\r"), ((3, 300, 2), b"\r\x1b[2A"), ((3, 0), b"\r")])
def test_live_rows_of_a_killed_process_are_erased(counts: tuple[int, ...], expected: bytes, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    end = "".join(f"guard.set_live_rows({count}); " for count in counts) + "os.kill(os.getpid(), 9)"
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(end=end)],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
        )
        read = b""
        while not read.endswith(b"\x1b[J"):
            read += os.read(ours, 1000)
        assert process.wait(120) == -signal.SIGKILL
        assert read.partition(b"ready")[2] == expected + RESTORE.encode() + b"\x1b[J"
    finally:
        os.close(ours)
        os.close(theirs)
