"""Restores the terminal on every exit: by this process, or by a small process that outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
from types import TracebackType
from typing import Any, Self

RESTORE = (
    "\x1b[?2026l"  # no synchronized output
    "\x1b[?1004l"  # no focus reports
    "\x1b[?2004l"  # no bracketed paste
    "\x1b[?1l"  # cursor keys as usual
    "\x1b[0m"  # no colors
    "\x1b[?7h"  # lines wrap
    "\x1b[?25h"  # the cursor is visible
)
"""Resets all modes that the screen sets."""

_IGNORED_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT", "SIGTSTP", "SIGTTOU", "SIGTTIN", "SIGPIPE")


class TerminalGuard:
    """A context manager that restores the terminal, even if this process is killed.

    A forked process waits until a pipe is closed. Forking is cheap, but requires that this process has only one thread.

    Args:
        tty: File descriptor of the terminal.
    """

    def __init__(self, tty: int) -> None:
        self._tty = tty
        self._before: list[Any] | None = None
        self._pipe = -1
        self._child = 0

    def __enter__(self) -> Self:
        try:
            self._before = termios.tcgetattr(self._tty)
        except termios.error:
            return self
        reading, self._pipe = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self._child = os.fork()
        except OSError:
            os.close(reading)
            return self
        if not self._child:
            self._wait(reading)
        os.close(reading)
        return self

    def _wait(self, reading: int) -> None:
        """Wait in the forked process until the pipe is closed, then restore the terminal."""
        try:
            for name in _IGNORED_SIGNALS:
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            keep = sorted({reading, self._tty})
            low = 0
            for number in keep:
                if low < number:  # closerange treats an empty range as all descriptors
                    os.closerange(low, number)
                low = number + 1
            os.closerange(low, 4096)
            if not os.read(reading, 1):
                if self._is_ours():
                    self.restore()
                self.write("\x1b[J")  # erase what was drawn below the cursor
        finally:
            os._exit(0)

    def _is_ours(self) -> bool:
        """Return True if no shell has taken over the terminal and set its own modes.

        Line editors of shells let the terminal turn keys into signals; the screen handles these keys itself.
        """
        try:
            ours = os.tcgetpgrp(self._tty) == os.getpgrp()
            return ours or not termios.tcgetattr(self._tty)[3] & termios.ISIG
        except (OSError, termios.error):
            return True

    def disable_echo(self) -> None:
        """Turn off echo and line buffering, so that keys typed before the screen opens are not lost."""
        with contextlib.suppress(termios.error):
            now = termios.tcgetattr(self._tty)
            now[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._tty, termios.TCSANOW, now)

    def write(self, text: str) -> None:
        """Write to the terminal immediately."""
        with contextlib.suppress(OSError):
            os.write(self._tty, text.encode())

    def restore(self) -> None:
        """Restore the terminal now. Does nothing if the terminal is closed."""
        self.write(RESTORE)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._tty, termios.TCSANOW, self._before)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()
        self.release()

    def release(self) -> None:
        """End the forked process."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"q")
            os.close(self._pipe)
            self._pipe = -1
        if self._child:
            with contextlib.suppress(OSError):
                os.waitpid(self._child, 0)
            self._child = 0
