"""Trying a layer out: a program runs in a small box, within a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

PROBE_SECONDS = 5.0
"""How long a layer may take to run a program that does nothing; it takes 5 to 50 ms where it works."""


def try_out(command: Sequence[str]) -> str | None:
    """What went wrong; ``None`` if the command ended well. Blocking."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {PROBE_SECONDS:g} s"
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else f"it ended with status {ended.returncode}"
