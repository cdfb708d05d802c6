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

_QUIT = 255
"""Byte that ends the forked process; smaller ones are the number of live rows above the cursor."""
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
        self._live_rows = 0

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
            received = rows = b"\0"
            while received and received[-1] != _QUIT:
                rows = received
                received = os.read(reading, 4096)
            if not received:
                self._erase(rows[-1])
        finally:
            os._exit(0)

    def _erase(self, live_rows: int) -> None:
        """Restore the terminal and erase what the killed process drew around the cursor.

        If a shell has taken over the terminal, it has written above the cursor, and may have set its own modes: line editors of shells let
        the terminal turn keys into signals; the screen handles these keys itself.
        """
        try:
            is_ours = os.tcgetpgrp(self._tty) == os.getpgrp()
            has_own_modes = not is_ours and bool(termios.tcgetattr(self._tty)[3] & termios.ISIG)
        except (OSError, termios.error):
            is_ours, has_own_modes = True, False
        if is_ours:
            self.write("\r" + (f"\x1b[{live_rows}A" if live_rows else ""))
        if not has_own_modes:
            self.restore()
        self.write("\x1b[J")

    def disable_echo(self) -> None:
        """Turn off echo and line buffering, so that keys typed before the screen opens are not lost."""
        with contextlib.suppress(termios.error):
            now = termios.tcgetattr(self._tty)
            now[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._tty, termios.TCSANOW, now)

    def set_live_rows(self, count: int) -> None:
        """Note how many rows above the cursor are erased if this process is killed."""
        count = min(max(count, 0), _QUIT - 1)
        if count != self._live_rows and self._pipe >= 0:
            self._live_rows = count
            with contextlib.suppress(OSError):
                os.write(self._pipe, bytes((count,)))

    def write(self, text: str) -> None:
        """Write to the terminal immediately."""
        with contextlib.suppress(OSError):
            os.write(self._tty, text.encode())

    def restore(self) -> None:
        """Restore the terminal now. Does nothing if the terminal is closed."""
        self.set_live_rows(0)
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
                os.write(self._pipe, bytes((_QUIT,)))
            os.close(self._pipe)
            self._pipe = -1
        if self._child:
            with contextlib.suppress(OSError):
                os.waitpid(self._child, 0)
            self._child = 0
