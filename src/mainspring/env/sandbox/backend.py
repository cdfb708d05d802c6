"""What a layer that holds programs has to offer, and how it tells what it holds.

Trying a layer out: a program runs in a small box, within a time limit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from mainspring.env.sandbox.policy import SandboxPolicy


class SandboxReport(Struct, frozen=True, kw_only=True):
    """What a layer holds, for one box. What is false is not held, for whatever reason; ``notes`` says why.

    Attributes:
        layer: Name of the layer, with its version.
        writes: Nothing is written outside of the writable folders.
        reads: Nothing is read outside of the readable folders, nothing hidden at all.
        guards: Files that decide what runs later cannot be changed in the project either. If false, changes are undone when a
            command ends.
        tcp: No TCP connection goes out.
        udp: No UDP packet goes out.
        sockets: Services of this machine cannot be reached by their socket files.
        signals: Programs outside are neither ended nor looked into.
        processes: Nothing that a command leaves behind runs on, also if this program is killed.
        keyring: The keyrings of the kernel that belong to the caller cannot be reached.
        notes: What else is to be known.
    """

    layer: str
    writes: bool = False
    reads: bool = False
    guards: bool = False
    tcp: bool = False
    udp: bool = False
    sockets: bool = False
    signals: bool = False
    processes: bool = False
    keyring: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In one line, for people."""
        held = [words for name, words in _LABELS.items() if getattr(self, name)]
        open_ = [words for name, words in _LABELS.items() if not getattr(self, name)]
        told = f"sandbox: {self.layer} holds {', '.join(held) or 'nothing'}"
        if open_:
            told += f"; it does not hold {', '.join(open_)}"
        return "; ".join([told, *self.notes])


_LABELS = {
    "writes": "writes outside the project",
    "reads": "reads outside the project and the system",
    "guards": "changes of git hooks and settings",
    "tcp": "TCP",
    "udp": "UDP",
    "sockets": "local sockets",
    "signals": "signals to other programs",
    "processes": "processes left behind",
    "keyring": "the keyring of the kernel",
}


class SandboxBackend(Protocol):
    """A layer that holds programs."""

    @property
    def has_private_tmp(self) -> bool:
        """Whether programs find the private folder at ``/tmp``."""
        ...

    def unavailable_reason(self) -> str | None:
        """Why it cannot be used here and what to do about that; ``None`` if it can. It was tried out. Blocking."""
        ...

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """What it holds."""
        ...

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """The program and arguments that run the command in the box. Blocking."""
        ...


PROBE_TIMEOUT = 5.0
"""How long a layer may take to run a program that does nothing; it takes 5 to 50 ms where it works."""


def run_probe(command: Sequence[str]) -> str | None:
    """What went wrong; ``None`` if the command ended well. Blocking."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PROBE_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {PROBE_TIMEOUT:g} s"
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else f"it ended with status {ended.returncode}"
