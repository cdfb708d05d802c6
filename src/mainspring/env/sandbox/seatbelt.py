"""Seatbelt: the sandbox of macOS, through ``sandbox-exec`` and a profile that allows only the access in the policy."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence

from mainspring.env.paths import GUARDED_NAMES
from mainspring.env.sandbox.backend import SandboxReport, run_probe
from mainspring.env.sandbox.guarded import INSTRUCTION_FILES
from mainspring.env.sandbox.policy import SandboxPolicy

PROGRAM = "/usr/bin/sandbox-exec"
"""The full path, since a program on the PATH with that name could be another one."""

_ALWAYS_ALLOWED = """(version 1)
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
"""Access that every program needs: to start others, to read system information, user names, and a few devices. File names and times
are visible.
"""

_NETWORK = """(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.mDNSResponder")
  (global-name "com.apple.networkd")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.trustd.agent"))"""
"""Access that the network needs in addition: host names and certificates."""


class Seatbelt:
    """Sandbox programs with Seatbelt. A `SandboxBackend`."""

    has_private_tmp = False

    def unavailable_reason(self) -> str | None:
        """See `SandboxBackend.unavailable_reason`."""
        if sys.platform != "darwin":
            return "Seatbelt is available on macOS only"
        tried = run_probe([PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true"])
        return None if tried is None else f"Seatbelt does not work here: {tried}"

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """See `SandboxBackend.state`."""
        notes = ["names and times of all files can be seen"]
        if box.network:
            notes.insert(0, "the network is enabled, as requested")
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
        """See `SandboxBackend.wrap`."""
        return [PROGRAM, "-p", build_profile(box), *command]


def build_profile(box: SandboxPolicy) -> str:
    """Return the profile of a sandbox, in the language of Seatbelt. The last rule that matches an access applies."""
    writable = (*box.writable, box.tmp)
    parts = [
        _ALWAYS_ALLOWED,
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
    below = "|".join(map(_any_case, INSTRUCTION_FILES))
    rules = [
        f'\n  (regex #"^{re.escape(root)}/(.*/)?({named})(/|$)")\n  (regex #"^{re.escape(root)}/.*/({below})$")'
        for root in box.writable
        if '"' not in root
    ]
    return f"(deny file-write*{''.join(rules)})" if rules else ""


def _any_case(name: str) -> str:
    """Return a pattern for a name that ignores case, as the file systems of macOS do."""
    if name.startswith("*"):
        return f"[^/]*{_any_case(name[1:])}"
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else re.escape(c) for c in name)


def _quoted(path: str) -> str:
    escaped = os.fsencode(path).decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
