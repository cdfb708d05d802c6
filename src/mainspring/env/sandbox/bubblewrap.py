"""Bubblewrap: Linux namespaces, so that a program sees only the files of its sandbox, and no network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property

from mainspring.env.paths import is_inside
from mainspring.env.sandbox import lockdown
from mainspring.env.sandbox.backend import PROBE_TIMEOUT, SandboxReport, run_probe
from mainspring.env.sandbox.git_folder import HOOKS_FOLDER
from mainspring.env.sandbox.policy import SandboxPolicy
from mainspring.errors import ConfigError
from mainspring.programs import find_program


class Bubblewrap:
    """Sandbox programs with bubblewrap. A `SandboxBackend`.

    Args:
        program: The program (default: ``bwrap`` of the user's PATH).
    """

    has_private_tmp = True

    def __init__(self, program: str | None = None) -> None:
        self._program = program or shutil.which("bwrap", path=_SYSTEM_PATH) or find_program("bwrap") or ""

    def unavailable_reason(self) -> str | None:
        """See `SandboxBackend.unavailable_reason`."""
        if not self._program:
            return "bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)"
        basics = [p for p in ("/usr", "/bin", "/lib", "/lib64") if os.path.exists(p)]
        binds = [part for p in basics for part in ("--ro-bind", p, p)]
        tried = run_probe(
            [self._program, *_NAMESPACES, "--unshare-net", *binds, "--proc", "/proc", "--dev", "/dev", "true"]
        )
        if tried is None:
            return None
        return (
            f"bubblewrap does not run here: {tried}. It needs user namespaces: check the settings "
            "kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone, and user.max_user_namespaces"
        )

    @cached_property
    def version(self) -> str:
        """Return the program's version. Blocking."""
        try:
            result = subprocess.run(
                [self._program, "--version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return result.stdout.strip().rpartition(" ")[2]

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """See `SandboxBackend.state`."""
        notes = ("the network is enabled, as requested",) if box.network else ()
        return SandboxReport(
            layer=f"bubblewrap {self.version}".strip(),
            writes=True,
            reads=True,
            guards=True,
            tcp=not box.network,
            udp=not box.network,
            sockets=True,
            signals=True,
            processes=True,
            keyring=lockdown.has_filter(),
            notes=notes,
        )

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """See `SandboxBackend.wrap`."""
        network = () if box.network else ("--unshare-net",)
        if any(is_inside(os.path.realpath(self._program), root) for root in box.writable):
            raise ConfigError(f"The sandbox cannot use {self._program}: commands in the sandbox can change it.")
        boxed = [self._program, *_NAMESPACES, *network, *_mounts(box), "--chdir", cwd]
        if lockdown.has_filter():
            boxed = [_system_program("sh"), "-c", _SECCOMP_LAUNCHER, "sh", _seccomp_file(box), *boxed, "--seccomp", "9"]
        env = _system_program("env")
        boxed += ["--as-pid-1", "--", _system_program("sh"), "-c", _FIRST_PROCESS, "sh", env]
        if self._supports_die_options:
            return [env, "--ignore-signal=TERM", *boxed, "--default-signal=TERM", *command]
        return [*boxed, *command]

    @cached_property
    def _supports_die_options(self) -> bool:
        """Return True if bubblewrap, and so all processes in the sandbox, can continue when a command receives SIGTERM."""
        return run_probe([_system_program("env"), "--ignore-signal=TERM", "true"]) is None


_NAMESPACES = (
    "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session",
    "--cap-drop", "ALL",
)  # fmt: skip
"""All namespaces except the network. A program gets no rights beyond those of its user, even if that is root."""

_LISTS_OF_KEYS = tuple(path for path in ("/proc/keys", "/proc/key-users") if os.path.exists(path))

_PROC_DIRECTORIES = frozenset(("sys", "fs", "acpi", "scsi", "driver", "dynamic_debug"))
"""Folders of ``/proc``. Bubblewrap protects a folder that root cannot write to, although root can write to files in it."""

_SYSTEM_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Programs that run outside the sandbox are never searched in folders that commands in the sandbox could change."""

_FIRST_PROCESS = 'exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; exit "$?"'
"""The first process of the sandbox. When it exits, the kernel kills all others before bubblewrap receives the status, so that none
of them writes anything after the command. Bubblewrap's own first process reports the exit earlier. Messages of a shell about
signals are suppressed.
"""

_SECCOMP_LAUNCHER = 'exec 9<"$1"; shift; exec "$@"'


def _mounts(box: SandboxPolicy) -> Iterator[str]:
    """Return the mounts of a sandbox, outer folders before their content."""
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var/tmp")
    for path in _LISTS_OF_KEYS:
        yield from ("--ro-bind-try", os.devnull, path)
    for path in _writable_proc_files():
        yield from ("--ro-bind-try", path, path)
    for link in box.links:
        yield from ("--symlink", link.target, link.path)
    places = dict.fromkeys(box.readable, "--ro-bind-try") | dict.fromkeys((*box.writable, box.tmp), "--bind")
    places = {p: how for p, how in places.items() if not box.is_denied(p)}
    yield from ("--bind", box.tmp, "/tmp")
    for path in sorted(places):
        yield from (places[path], path, path)
    for path in _pinned_folders(box):
        yield from ("--bind", path, path)
    yield from _guarded(box)
    roots = tuple(places)
    for path in box.hidden:
        if any(is_inside(path, root) for root in roots):
            yield from _mask_arguments(path)
    if not any(is_inside(box.home, root) for root in roots):
        yield from ("--dir", box.home)
    yield from ("--remount-ro", "/")


def _guarded(box: SandboxPolicy) -> Iterator[str]:
    """Return the paths that may be read but not changed, outer folders before their content."""
    for path in box.guarded:
        if os.path.basename(path) == HOOKS_FOLDER and os.path.isdir(os.path.dirname(path)):
            with suppress(OSError):
                os.mkdir(path)  # git requires the folder, and a missing one cannot be mounted
    inner = dict.fromkeys(box.exempt, "--bind-try") | dict.fromkeys(box.guarded, "--ro-bind-try")
    for path in sorted(inner):
        if not os.path.islink(path):  # the mount would apply to its target, wherever it is
            yield from (inner[path], path, path)


def _seccomp_file(box: SandboxPolicy) -> str:
    """Write the system call filter next to the private folder, where no program can change it.

    The filter rejects kernel keyrings, and sockets to which network namespaces do not apply, such as those between a virtual machine
    and its host.
    """
    path = f"{box.tmp}.{'open' if box.network else 'closed'}.filter"
    if not os.path.exists(path):
        with open(path, "wb", opener=lambda p, flags: os.open(p, flags | os.O_NOFOLLOW, 0o600)) as file:
            families = None if box.network else (*lockdown.LOCAL_ADDRESS_FAMILIES, *lockdown.INTERNET_FAMILIES)
            file.write(lockdown.filter_of_calls(families))
    return path


def _pinned_folders(box: SandboxPolicy) -> list[str]:
    """Return the folders, outermost first, that contain a guarded or hidden path: mounts cannot be renamed and replaced."""
    found: set[str] = set()
    for path in (*box.guarded, *box.hidden):
        if not os.path.lexists(path):
            continue
        above = os.path.dirname(path)
        while any(above != root and is_inside(above, root) for root in box.writable):
            found.add(above)
            above = os.path.dirname(above)
    return sorted(
        path for path in found if os.path.isdir(path) and not os.path.islink(path) and not box.is_denied(path)
    )


def _system_program(name: str) -> str:
    return shutil.which(name, path=_SYSTEM_PATH) or name


@cache
def _writable_proc_files() -> tuple[str, ...]:
    """Return the files in ``/proc`` that root may write even without any capability, such as the program that the kernel starts at a crash."""
    if os.geteuid() != 0:
        return ()
    found: list[str] = []
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            changes = entry.is_file(follow_symlinks=False) and entry.stat().st_mode & 0o222
            if entry.name in _PROC_DIRECTORIES or changes:
                found.append(entry.path)
    return tuple(sorted(found))


def _mask_arguments(path: str) -> tuple[str, ...]:
    """Return the arguments that cover a path with an empty mount that no program can open."""
    if os.path.isdir(path):
        return ("--perms", "000", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", os.devnull, path)
