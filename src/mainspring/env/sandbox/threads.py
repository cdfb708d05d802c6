"""Threads that cannot touch files outside of a box, so that no link that is swapped after a check leads a tool out of it."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from mainspring.env.paths import is_inside
from mainspring.env.sandbox import lockdown as kernel
from mainspring.env.sandbox.landlock import rules_of
from mainspring.env.sandbox.policy import Box

_MOST_THREADS = 4


def held_threads(box: Box) -> ThreadPoolExecutor | None:
    """Threads held by Landlock; ``None`` where it is not there.

    What is hidden in a writable folder is not held by them, since nothing new could be made beside it.

    Args:
        box: The box.
    """
    if kernel.landlock_version() < 3:
        return None
    outside = tuple(h for h in box.hidden if not any(is_inside(h, root) for root in box.writable))
    rules = rules_of(replace(box, hidden=outside))
    rules += [("read", os.path.abspath(path)) for path in sys.path]  # a module may be imported on the way

    def hold() -> None:
        kernel.restrict(rules, network=True, scopes=False)

    return ThreadPoolExecutor(_MOST_THREADS, "mainspring-files", initializer=hold)
