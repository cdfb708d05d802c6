"""The interface of a sandbox backend, and the report of its protections.

Also test whether a backend works: a program runs in a small sandbox, within a time limit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from mainspring.env.sandbox.policy import SandboxPolicy


class SandboxReport(Struct, frozen=True, kw_only=True):
    """The protections of one sandbox. A protection that is False is missing for any reason; ``notes`` explains why.

    Attributes:
        layer: Name of the backend, with its version.
        writes: Programs cannot write outside the writable folders.
        reads: Programs cannot read outside the readable folders, and no hidden file at all.
        guards: Programs cannot change files of the project that define the programs that run later. If false, changes are undone when
            a command ends.
        tcp: Programs cannot open TCP connections.
        udp: Programs cannot send UDP packets.
        sockets: Programs cannot reach services of this machine through their socket files.
        signals: Programs can neither signal nor inspect processes outside.
        processes: Processes that survive a command are ended, even if this process is killed.
        keyring: Programs cannot reach the caller's kernel keyrings.
        notes: More notes.
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
        """Return the report in one line, for display."""
        blocked = [label for name, label in _LABELS.items() if getattr(self, name)]
        unprotected = [label for name, label in _LABELS.items() if not getattr(self, name)]
        text = f"sandbox: {self.layer} blocks {', '.join(blocked) or 'nothing'}"
        if unprotected:
            text += f"; not protected: {', '.join(unprotected)}"
        return "; ".join([text, *self.notes])


_LABELS = {
    "writes": "writes outside the project",
    "reads": "reads outside the project and the system",
    "guards": "changes of git hooks and settings",
    "tcp": "TCP",
    "udp": "UDP",
    "sockets": "local sockets",
    "signals": "signals to other programs",
    "processes": "surviving processes",
    "keyring": "the keyring of the kernel",
}


class SandboxBackend(Protocol):
    """A sandbox backend."""

    @property
    def has_private_tmp(self) -> bool:
        """Return True if programs see the private folder as ``/tmp``."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return why the backend does not work here and how to fix that; ``None`` if it works. The backend is tested. Blocking."""
        ...

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """Return the protections."""
        ...

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """Return the program and arguments that run the command in the sandbox. Blocking."""
        ...


PROBE_TIMEOUT = 5.0
"""Maximum seconds for a backend to run a program that does nothing; it takes 5 to 50 ms if it works."""


def run_probe(command: Sequence[str]) -> str | None:
    """Return why the command failed; ``None`` if it succeeded. Blocking."""
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
        return f"it did not respond within {PROBE_TIMEOUT:g}s"
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return None
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"it exited with status {ended.returncode}"
