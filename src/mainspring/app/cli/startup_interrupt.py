"""Ctrl-C while the command is still being loaded, or is on its way out: nothing is there to be put in order, so it ends at once.

To have it raise an error there, as Python does by itself, shows a traceback at best; a module in C whose import it breaks off crashes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130

# What `signal` is made of: that one first loads `enum`, which takes longer than all of this.
signal = import_module("_signal")

_MESSAGE = b"interrupted\n"


def exit_on_interrupt(before: Callable[[], object] | None = None) -> None:
    """From now on Ctrl-C ends the process. Where it is ignored (``nohup``) it stays so.

    Args:
        before: Is called before.
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


def restore_keyboard_interrupt() -> None:
    """From now on Ctrl-C raises `KeyboardInterrupt`, as what runs now is used to."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def drop_relative_entries() -> None:
    """Remove the entries from ``sys.path`` that name the current folder or a folder in it without its full path.

    ``python -m`` puts the current folder first, and each relative part of ``PYTHONPATH`` depends on it too. A module of an
    untrusted project could replace any module that is imported later.
    """
    named = os.environ.get("PYTHONPATH", "") if not sys.flags.ignore_environment else ""
    parts = named.split(os.pathsep) if named else []
    absolute = {p for p in parts if os.path.isabs(p)}
    relative = {os.path.abspath(p) for p in parts if not os.path.isabs(p)} - absolute
    sys.path[:] = [p for p in sys.path if os.path.isabs(p) and p not in relative]
