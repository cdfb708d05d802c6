"""Bubblewrap: namespaces of Linux, so that a program sees only the files of its box, and no network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property

from mainspring.env.paths import is_inside
from mainspring.env.sandbox import lockdown as kernel
from mainspring.env.sandbox.backend import PROBE_TIMEOUT, SandboxReport, run_probe
from mainspring.env.sandbox.git_folder import HOOKS
from mainspring.env.sandbox.policy import SandboxPolicy
from mainspring.errors import ConfigError
from mainspring.programs import find_program


class Bubblewrap:
    """Holds programs with bubblewrap. A `SandboxProvider`.

    Args:
        program: The program; ``bwrap`` of the user's PATH if not given.
    """

    moves_tmp = True

    def __init__(self, program: str | None = None) -> None:
        self._program = program or shutil.which("bwrap", path=_SYSTEM_PATH) or find_program("bwrap") or ""

    def problem(self) -> str | None:
        """See `SandboxProvider.problem`."""
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
            f"bubblewrap does not run here: {tried}. It needs user namespaces: look at the settings "
            "kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone and user.max_user_namespaces"
        )

    @cached_property
    def version(self) -> str:
        """The program's version. Blocking."""
        try:
            told = subprocess.run(
                [self._program, "--version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return told.stdout.strip().rpartition(" ")[2]

    def state(self, box: SandboxPolicy) -> SandboxReport:
        """See `SandboxProvider.state`."""
        notes = ("the network is open, as asked for",) if box.network else ()
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
            keyring=kernel.has_filter(),
            notes=notes,
        )

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        """See `SandboxProvider.wrap`."""
        network = () if box.network else ("--unshare-net",)
        if any(is_inside(os.path.realpath(self._program), root) for root in box.writable):
            raise ConfigError(f"The sandbox cannot use {self._program}: commands in the sandbox can change it.")
        boxed = [self._program, *_NAMESPACES, *network, *_mounts(box), "--chdir", cwd]
        if kernel.has_filter():
            boxed = [_system_program("sh"), "-c", _SECCOMP_LAUNCHER, "sh", _seccomp_file(box), *boxed, "--seccomp", "9"]
        env = _system_program("env")
        boxed += ["--as-pid-1", "--", _system_program("sh"), "-c", _FIRST_PROCESS, "sh", env]
        if self._supports_die_options:
            return [env, "--ignore-signal=TERM", *boxed, "--default-signal=TERM", *command]
        return [*boxed, *command]

    @cached_property
    def _supports_die_options(self) -> bool:
        """Whether bubblewrap can be kept from ending, and all in the box with it, when a command is asked to end."""
        return run_probe([_system_program("env"), "--ignore-signal=TERM", "true"]) is None


_NAMESPACES = (
    "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session",
    "--cap-drop", "ALL",
)  # fmt: skip
"""All but the network. What runs has no rights beyond those of its user, even if that is root."""

_LISTS_OF_KEYS = tuple(path for path in ("/proc/keys", "/proc/key-users") if os.path.exists(path))

_PROC_DIRECTORIES = frozenset(("sys", "fs", "acpi", "scsi", "driver", "dynamic_debug"))
"""Folders of ``/proc``. Bubblewrap closes what root cannot write to as a folder, though it can write to what lies in it."""

_SYSTEM_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Programs that run outside of the box are never searched in folders that commands in the box could change."""

_FIRST_PROCESS = 'exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; exit "$?"'
"""The first process of the box. When it ends, the kernel ends all others before bubblewrap learns of it, so that none of them
writes anything after the command. Bubblewrap's own first process reports the end earlier. What a shell says of signals is left out.
"""

_SECCOMP_LAUNCHER = 'exec 9<"$1"; shift; exec "$@"'


def _mounts(box: SandboxPolicy) -> Iterator[str]:
    """The files of a box, outer folders before what lies in them."""
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var/tmp")
    for path in _LISTS_OF_KEYS:
        yield from ("--ro-bind-try", os.devnull, path)
    for path in _writable_proc_files():
        yield from ("--ro-bind-try", path, path)
    for link in box.links:
        yield from ("--symlink", link.target, link.path)
    places = dict.fromkeys(box.readable, "--ro-bind-try") | dict.fromkeys((*box.writable, box.tmp), "--bind")
    places = {p: how for p, how in places.items() if not box.hides(p)}
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
    """What may be read but not changed, outer folders before what lies in them."""
    for path in box.guarded:
        if os.path.basename(path) == HOOKS and os.path.isdir(os.path.dirname(path)):
            with suppress(OSError):
                os.mkdir(path)  # git expects the folder, and what is not there cannot be mounted
    inner = dict.fromkeys(box.exempt, "--bind-try") | dict.fromkeys(box.guarded, "--ro-bind-try")
    for path in sorted(inner):
        if not os.path.islink(path):  # its target would be mounted, wherever it is
            yield from (inner[path], path, path)


def _seccomp_file(box: SandboxPolicy) -> str:
    """Write the filter of system calls beside the private folder, where no program can change it.

    It refuses the keyrings of the kernel, and sockets that no namespace of the network holds, such as those of the machine that
    a virtual one runs on.
    """
    path = f"{box.tmp}.{'open' if box.network else 'closed'}.filter"
    if not os.path.exists(path):
        with open(path, "wb", opener=lambda p, flags: os.open(p, flags | os.O_NOFOLLOW, 0o600)) as file:
            families = None if box.network else (*kernel.LOCAL_ADDRESS_FAMILIES, *kernel.INTERNET_FAMILIES)
            file.write(kernel.filter_of_calls(families))
    return path


def _pinned_folders(box: SandboxPolicy) -> list[str]:
    """The folders, outermost first, that hold something guarded or hidden: as mounts they cannot be renamed, and another one put
    in their place.
    """
    found: set[str] = set()
    for path in (*box.guarded, *box.hidden):
        if not os.path.lexists(path):
            continue
        above = os.path.dirname(path)
        while any(above != root and is_inside(above, root) for root in box.writable):
            found.add(above)
            above = os.path.dirname(above)
    return sorted(path for path in found if os.path.isdir(path) and not os.path.islink(path) and not box.hides(path))


def _system_program(name: str) -> str:
    return shutil.which(name, path=_SYSTEM_PATH) or name


@cache
def _writable_proc_files() -> tuple[str, ...]:
    """What root may write in ``/proc`` even without any capability, such as which program the kernel starts at a crash."""
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
    """Put something that nobody can open over a path."""
    if os.path.isdir(path):
        return ("--perms", "000", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", os.devnull, path)
