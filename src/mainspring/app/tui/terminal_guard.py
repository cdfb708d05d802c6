"""Brings the terminal back to how it was found, on every way out: by ourselves, or by a small process that outlives us."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
from types import TracebackType
from typing import Any, Self

RESTORE = (
    "\x1b[?2026l"  # no synchronised output
    "\x1b[?1004l"  # no focus reports
    "\x1b[?2004l"  # no bracketed paste
    "\x1b[?1l"  # cursor keys as usual
    "\x1b[0m"  # no colours
    "\x1b[?7h"  # lines wrap
    "\x1b[?25h"  # the cursor is seen
)
"""What undoes all that the screen ever switches on."""

_IGNORED_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT", "SIGTSTP", "SIGTTOU", "SIGTTIN", "SIGPIPE")


class TerminalGuard:
    """While it is entered, the terminal comes back to its state even where this process is killed.

    A process of its own waits for the end of a pipe. It is forked and not started, so it costs next to nothing, and has to
    be entered while this process has one thread.

    Args:
        tty: Descriptor of the terminal.
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
        """What the other process does: nothing, until the pipe is closed."""
        try:
            for name in _IGNORED_SIGNALS:
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            keep = sorted({reading, self._tty})
            low = 0
            for number in keep:
                if low < number:  # an empty range is taken for all of them
                    os.closerange(low, number)
                low = number + 1
            os.closerange(low, 4096)
            if not os.read(reading, 1):
                if self._is_left():
                    self.restore()
                self.write("\x1b[J")  # what was drawn below the cursor
        finally:
            os._exit(0)

    def _is_left(self) -> bool:
        """Whether the terminal is as we left it: a shell that took it over has its own modes, and keys in them.

        The line editors of shells let the terminal make signals of keys; our screen takes these keys itself.
        """
        try:
            ours = os.tcgetpgrp(self._tty) == os.getpgrp()
            return ours or not termios.tcgetattr(self._tty)[3] & termios.ISIG
        except (OSError, termios.error):
            return True

    def quiet(self) -> None:
        """Have keys neither echoed nor held back until Enter, so that what is typed meanwhile is not lost."""
        with contextlib.suppress(termios.error):
            now = termios.tcgetattr(self._tty)
            now[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._tty, termios.TCSANOW, now)

    def write(self, text: str) -> None:
        """Write to the terminal at once."""
        with contextlib.suppress(OSError):
            os.write(self._tty, text.encode())

    def restore(self) -> None:
        """Bring it back now. Does nothing where the terminal is gone."""
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
        """Let the other process go."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"q")
            os.close(self._pipe)
            self._pipe = -1
        if self._child:
            with contextlib.suppress(OSError):
                os.waitpid(self._child, 0)
            self._child = 0
