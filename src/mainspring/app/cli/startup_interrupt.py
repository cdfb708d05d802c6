"""Exit immediately on Ctrl-C while the command is loading or exiting, when no cleanup is needed.

Python's default, raising an error, prints a traceback there, or crashes a C module whose import it interrupts.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130
PIPE_CLOSED = 141
"""Exit code if the reader of the output closed the pipe, as for a program killed by SIGPIPE (13)."""

# `signal` itself imports `enum`, which takes longer than everything here.
signal = import_module("_signal")

_MESSAGE = b"Interrupted.\n"


def exit_on_interrupt(before: Callable[[], object] | None = None) -> None:
    """Exit on Ctrl-C from now on. If the signal is ignored (``nohup``), it stays ignored.

    Args:
        before: Callback to call before the exit.
    """

    def leave(number: int, frame: object) -> None:
        try:
            if before is not None:
                before()
            os.write(2, _MESSAGE)
        finally:
            os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, leave)


def keep_exit_codes() -> None:
    """Stop ignoring SIGCHLD, which some programs pass on to what they start: the exit code of every child would be lost, also
    that of a hook that blocks a call.
    """
    number = getattr(signal, "SIGCHLD", None)  # missing on Windows
    if number is not None and signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def restore_keyboard_interrupt() -> None:
    """Raise `KeyboardInterrupt` on Ctrl-C from now on, which the running code expects."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def drop_relative_entries() -> None:
    """Remove relative entries and the current folder from ``sys.path``.

    ``python -m`` puts the current folder first, and relative entries of ``PYTHONPATH`` depend on it, too. A module in an
    untrusted project could replace any module that is imported later.
    """
    named = os.environ.get("PYTHONPATH", "") if not sys.flags.ignore_environment else ""
    parts = named.split(os.pathsep) if named else []
    absolute = {p for p in parts if os.path.isabs(p)}
    relative = {os.path.abspath(p) for p in parts if not os.path.isabs(p)} - absolute
    sys.path[:] = [p for p in sys.path if os.path.isabs(p) and p not in relative]
