"""Seatbelt: the sandbox of macOS, by ``sandbox-exec`` and a profile that allows what the box says and nothing else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence

from mainspring.env.paths import GUARDED_NAMES
from mainspring.env.sandbox.backend import SandboxReport, run_probe
from mainspring.env.sandbox.guarded import INSTRUCTIONS
from mainspring.env.sandbox.policy import SandboxPolicy

PROGRAM = "/usr/bin/sandbox-exec"
"""Never looked for on the PATH, where something else of that name could lie."""

_ALWAYS = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow pseudo-tty)
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.bsd.dirhelper"))
(allow file-read-metadata)
(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/dtracehelper"))
(allow file-read* file-write* file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl (regex #"^/dev/ttys[0-9]+$"))"""
"""What every program needs: to start others, to know the machine, to name users, a few devices. File names and times are told."""

_NETWORK = """(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.mDNSResponder")
  (global-name "com.apple.networkd")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.trustd.agent"))"""
"""What the network needs beside itself: names of hosts and certificates."""


class Seatbelt:
    """Holds programs with Seatbelt. A `SandboxProvider`."""

    moves_tmp = False

    def problem(self) -> str | None:
        """See `SandboxProvider.problem`."""
        if sys.platform != "darwin":
            return "Seatbelt is there on macOS only"
        tried = run_probe([PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true"])
        return None if tried is None else f"Seatbelt does not work here: {tried}"

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """See `SandboxProvider.state`."""
        notes = ["names and times of all files can be seen"]
        if box.network:
            notes.insert(0, "the network is open, as asked for")
        return SandboxReport(
            layer="Seatbelt",
            writes=True,
            reads=True,
            guards=True,
            tcp=not box.network,
            udp=not box.network,
            sockets=not box.network,
            signals=True,
            keyring=True,
            notes=tuple(notes),
        )

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """See `SandboxProvider.wrap`."""
        return [PROGRAM, "-p", build_profile(box), *command]


def build_profile(box: SandboxPolicy) -> str:
    """The profile of a box, in the language of Seatbelt. The last rule that fits an access decides."""
    writable = (*box.writable, box.tmp)
    parts = [
        _ALWAYS,
        _rule("allow file-read*", (*box.readable, *(link.path for link in box.links), *writable)),
        _rule("allow file-write*", writable),
        _names_below(box),
        _rule("allow file-write*", box.exempt),
        _rule("deny file-write*", box.guarded),
        _NETWORK if box.network else "",
        _rule("deny file-read* file-write*", box.hidden),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _rule(head: str, paths: Iterable[str]) -> str:
    filters = "".join(f"\n  (subpath {_quoted(path)})" for path in paths)
    return f"({head}{filters})" if filters else ""


def _names_below(box: SandboxPolicy) -> str:
    """Deny files with a guarded name in every folder of the project."""
    named = "|".join(map(_any_case, GUARDED_NAMES))
    below = "|".join(map(_any_case, INSTRUCTIONS))
    rules = [
        f'\n  (regex #"^{re.escape(root)}/(.*/)?({named})(/|$)")\n  (regex #"^{re.escape(root)}/.*/({below})$")'
        for root in box.writable
        if '"' not in root
    ]
    return f"(deny file-write*{''.join(rules)})" if rules else ""


def _any_case(name: str) -> str:
    """A pattern for a name, in upper or lower case: the file systems of macOS do not tell them apart."""
    if name.startswith("*"):
        return f"[^/]*{_any_case(name[1:])}"
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else re.escape(c) for c in name)


def _quoted(path: str) -> str:
    escaped = os.fsencode(path).decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
