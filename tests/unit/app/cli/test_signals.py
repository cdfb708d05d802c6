import signal
import subprocess
import sys

import pytest

from tests.requires import on_posix

pytestmark = on_posix

_PROGRAM = """
import os, signal
from mainspring.app.cli.signals import ScreenShutdown as Signals
with Signals(lambda: print("leave", flush=True), lambda: print("restored", flush=True)) as signals:
    {work}
print("number", signals.number)
"""


def run(work: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(work=work)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.covers("CLI-19")
def test_hanging_shutdown_is_cut_short_and_restores_the_terminal() -> None:
    done = run("signals.start_deadline(0.2)\n    while True: pass")
    assert (done.returncode, done.stdout) == (1, "restored\n")


def test_blocked_terminal_does_not_delay_the_exit() -> None:
    done = run(
        "signals._restore = __import__('threading').Event().wait\n    signals.start_deadline(0.1)\n    while True: pass"
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_first_signal_leaves_and_second_signal_exits() -> None:
    done = run("os.kill(os.getpid(), 15)")
    assert (done.returncode, done.stdout) == (0, "leave\nnumber 15\n")
    done = run("os.kill(os.getpid(), 15)\n    os.kill(os.getpid(), 15)")
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "leave\nrestored\n")


def test_ignored_signals_stay_ignored() -> None:
    done = subprocess.run(
        ["sh", "-c", f"trap '' HUP; exec {sys.executable} -c \"$PROGRAM\""],
        env={"PROGRAM": _PROGRAM.format(work="os.kill(os.getpid(), 1)")},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "number 0\n")


def test_exit_codes_of_children_are_kept_if_the_parent_ignores_sigchld() -> None:
    """Some window managers and supervisors ignore it, and so does everything that they start."""
    program = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from mainspring.app.cli.main import main\n"
        "sys.argv = ['mainspring', '--version']\n"
        "main()\n"
        "print(subprocess.run(['sh', '-c', 'exit 3']).returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["3"], done.stderr
