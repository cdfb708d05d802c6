"""Landlock: access rights to files that a program drops before it starts. Needs no installed program and no privilege."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence

from mainspring.env.paths import is_inside
from mainspring.env.sandbox import lockdown
from mainspring.env.sandbox.backend import SandboxReport, run_probe
from mainspring.env.sandbox.policy import SandboxPolicy

LandlockRule = tuple[str, str]

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_READABLE_PROC_FILES = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version")
"""Files in ``/proc`` with facts about the machine. Those about processes are excluded: their variables may contain keys."""


class Landlock:
    """Sandbox programs with Landlock, and with a system call filter that blocks the network. A `SandboxBackend`."""

    has_private_tmp = False

    def unavailable_reason(self) -> str | None:
        """See `SandboxBackend.unavailable_reason`."""
        version = lockdown.landlock_version()
        if version < 3:
            return (
                "Landlock is not available: it needs Linux 6.2 or newer with landlock in the list "
                f"/sys/kernel/security/lsm (its version here: {version or 'none'})"
            )
        if not sys.executable or getattr(
            sys, "frozen", False
        ):  # in a frozen executable, this program is not an interpreter
            return "Landlock needs the Python interpreter as a program, and its path is unknown"
        tried = run_probe(_python("kernel.apply_landlock([('read', '/')], network=False)"))
        return None if tried is None else f"Landlock does not work here: {tried}"

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """See `SandboxBackend.state`."""
        version = lockdown.landlock_version()
        filtered = lockdown.has_filter()
        notes = [
            "modes, owners and times of files outside can be changed where this user could",
            "changes of git hooks and settings are undone when a command ends",
        ]
        if version < 6:
            notes.append("a command can kill the process that ends its surviving processes")
        if box.network:
            notes.insert(0, "the network is enabled, as requested")
        if _partly_writable_folders(box):
            folders = ", ".join(_partly_writable_folders(box))
            notes.append(f"nothing new can be created directly in {folders}, which contain a hidden or guarded path")
        return SandboxReport(
            layer=f"Landlock {version}",
            writes=True,
            reads=True,
            tcp=not box.network and (version >= 4 or filtered),
            udp=not box.network and filtered,
            signals=version >= 6,
            processes=version >= 6,
            keyring=filtered,
            notes=tuple(notes),
        )

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """See `SandboxBackend.wrap`; the rules are in a file next to the private folder, where no program can change them."""
        plan = lockdown.encode_plan(landlock_rules(box), network=box.network)
        path = f"{box.tmp}-{hashlib.sha256(plan).hexdigest()[:16]}.rules"
        if not os.path.exists(path):
            with open(path, "wb", opener=lambda p, flags: os.open(p, flags | os.O_NOFOLLOW, 0o600)) as file:
                file.write(plan)
        return [*_python("kernel.main(sys.argv[1:])"), path, "--", *command]


def _python(code: str) -> list[str]:
    """Return Python code that uses the module `lockdown`, without slow imports and without reading the user's files.

    A module is compiled once; a script would be compiled for every command.
    """
    begin = "import sys; sys.path.append(sys.argv.pop(1)); import lockdown as kernel; "
    return [sys.executable, "-I", "-S", "-c", begin + code, os.path.dirname(lockdown.__file__)]


def landlock_rules(box: SandboxPolicy) -> list[LandlockRule]:
    """Return the rules of a sandbox. Landlock can only allow: to hide a path in an allowed folder, the rules name its siblings."""
    rules: list[LandlockRule] = [("list", "/proc"), ("write", "/dev/shm"), ("device", "/dev/pts")]
    rules += [("device", f"/dev/{name}") for name in _DEVICES]
    rules += [("read", f"/proc/{name}") for name in _READABLE_PROC_FILES]
    for root in (*box.readable, *box.sealed):
        rules += _expand_around_denied(root, "read", box.hidden)
    for root in (*box.writable, box.tmp):
        excluded = (*box.hidden, *box.sealed)
        is_shared = any(is_inside(path, f"{root}/worktrees") for path in box.exempt)
        if (
            root == box.repository and is_shared
        ):  # git creates few files directly in it, so that all others can be named
            rules.append(("read", root))
            excluded += tuple(p for p in box.guarded if os.path.dirname(p) == root)
        rules += _expand_around_denied(root, "write", excluded)
    rules += [("write", path) for path in box.exempt if not box.is_denied(path)]
    return list(dict.fromkeys(rules))


def _expand_around_denied(root: str, kind: str, hidden: Sequence[str]) -> Iterator[LandlockRule]:
    if any(is_inside(root, h) for h in hidden):
        return
    below = [h for h in hidden if is_inside(h, root)]
    if not below:
        yield kind, root
        return
    yield "list", root
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.path for entry in entries if not entry.is_symlink())
    except OSError:
        return
    for path in names:
        yield from _expand_around_denied(path, kind, below)


def _partly_writable_folders(box: SandboxPolicy) -> tuple[str, ...]:
    """Return the writable folders that contain a path that is not writable."""
    return tuple(
        root
        for root in box.writable
        if root != box.repository and any(is_inside(p, root) for p in (*box.hidden, *box.sealed))
    )
