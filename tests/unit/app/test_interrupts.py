"""A signal always ends the process, even if its output is blocked."""

import signal
import subprocess
import sys

import pytest

BLOCKED_PROGRAM = """
import sys
from mainspring.app.cli import signals
from mainspring.cancellation import CancelToken

signals._GRACE_SECONDS = 0.1
signals._CLEANUP_SECONDS = 0.1

def leave(number):
    sys.stdout.write("last words")
    sys.stdout.flush()

with signals.GracefulShutdown(CancelToken(), leave):
    sys.stderr.write("here")
    sys.stderr.flush()
    while True:
        sys.stdout.write("x" * 100_000)  # blocks without a reader, and keeps the lock of the stream
"""


@pytest.mark.parametrize("times", [1, 2])
def test_blocked_output_does_not_prevent_exit(times: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stderr.read(4) == b"here"
        try:
            for _ in range(times):
                process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 143
        finally:
            process.kill()
