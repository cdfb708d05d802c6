"""Landlock and seccomp through the C library: a thread drops rights, for itself and everything it starts.

This module is also the program that drops the rights and then executes another one. It imports nothing but the standard library,
and as little of it as possible, since it is started for every command.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys

TYPE_CHECKING = False  # importing typing takes 5 ms
if TYPE_CHECKING:
    from typing import Any

# Numbers of linux/landlock.h, linux/prctl.h, linux/seccomp.h, and linux/audit.h; they are the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_SECUREBITS = 1, 4, 22, 28
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_NO_RIGHTS_OF_ROOT = 3
"""SECBIT_NOROOT and SECBIT_NOROOT_LOCKED: a program that is started as root gets no capabilities for that."""
_CAPABILITIES = struct.pack("=Ii", 0x20080522, 0)
_FILTER_MODE = 2
_END_SECONDS = 5.0
"""Seconds after which a process that the kernel does not end is assumed to wait for a device, and to do nothing else."""
_VERSION_FLAG = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE_AND_REMOVE = 0x1FF0
"""REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM."""
_CONNECT_AND_BIND_TCP = 3
_SCOPES = 3
"""Abstract sockets and signals of other programs."""

RIGHTS = {
    "read": EXECUTE | READ_FILE | READ_DIR,
    "list": READ_DIR,
    "write": EXECUTE | READ_FILE | READ_DIR | WRITE_FILE | REFER | TRUNCATE | _MAKE_AND_REMOVE,
    "device": READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV,
}
"""The rights that a line of a plan allows, by its first word."""
_OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

_ARCHITECTURES = {"x86_64": (0xC000003E, 41, (248, 249, 250)), "aarch64": (0xC00000B7, 198, (217, 218, 219))}
"""The architecture's ID, and the numbers of its calls ``socket``, and ``add_key``, ``request_key``, and ``keyctl``."""
_JOIN_SESSION_KEYRING = 1
_IO_URING_SETUP = 425
_X32_SYSCALL_BIT = 0x40000000
"""The first call number of the x32 calling convention on x86-64."""
LOCAL_ADDRESS_FAMILIES = (1, 16)
"""AF_UNIX and AF_NETLINK."""
INTERNET_FAMILIES = (2, 10)
"""AF_INET and AF_INET6."""


def landlock_version() -> int:
    """Return the version of Landlock's interface; 0 if it is missing or disabled."""
    if sys.platform != "linux":
        return 0
    return max(0, _library().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def has_filter() -> bool:
    """Return True if `filter_of_calls` supports this architecture."""
    return sys.platform == "linux" and os.uname().machine in _ARCHITECTURES


def apply_landlock(rules: list[tuple[str, str]], *, network: bool, scopes: bool = True) -> None:
    """Drop, for this thread and everything it starts, all rights to files except those of the rules.

    Args:
        rules: Kinds of `RIGHTS`, each with the path at and below which it applies. Missing paths are skipped.
        network: Whether TCP stays allowed.
        scopes: Whether to forbid signals to processes outside.

    Raises:
        OSError: If the kernel rejects the rules.
    """
    version = landlock_version()
    if version < 3:
        raise OSError(errno.ENOSYS, f"Landlock's interface has version {version}; version 3 is required")
    files = RIGHTS["write"] | (IOCTL_DEV if version >= 5 else 0)
    tcp = 0 if network or version < 4 else _CONNECT_AND_BIND_TCP
    scoped = _SCOPES if scopes and version >= 6 else 0
    fields = [files] + [tcp] * (version >= 4) + [scoped] * (version >= 6)
    requested = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _call(_CREATE_RULESET, requested, len(requested), 0)
    try:
        for kind, path in rules:
            _allow(ruleset, RIGHTS[kind] & files, path)
        _no_new_rights()
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def filter_calls(*, network: bool) -> None:
    """Block kernel keyrings for this thread and everything it starts, and sockets that are not local.

    Args:
        network: Whether all sockets stay allowed.

    Raises:
        OSError: If the kernel rejects the filter, or the architecture is unknown.
    """
    import ctypes

    code = filter_of_calls(None if network else LOCAL_ADDRESS_FAMILIES)
    code_buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(code_buffer))
    _no_new_rights()
    if _library().prctl(_PR_SET_SECCOMP, _FILTER_MODE, program, 0, 0):
        _fail()


def drop_capabilities() -> None:
    """Drop root's rights beyond those to its own files: to mount, to load modules, to inspect other processes.

    Raises:
        OSError: If the kernel rejects the call.
    """
    if _library().prctl(_PR_SET_SECUREBITS, _NO_RIGHTS_OF_ROOT, 0, 0, 0) and os.geteuid() == 0:
        _fail()
    if _library().capset(_CAPABILITIES, bytes(24)):
        _fail()


def leave_keyring() -> None:
    """Replace the session keyring of the caller with a new, empty one. A kernel without keyrings has nothing to replace."""
    machine = _ARCHITECTURES.get(os.uname().machine)
    if machine is not None:
        _library().syscall(machine[2][2], _JOIN_SESSION_KEYRING, None)


def filter_of_calls(families: tuple[int, ...] | None) -> bytes:
    """Return a program for the kernel's packet filter that blocks keyrings, and sockets of other families.

    Args:
        families: The families of sockets that stay allowed; ``None`` allows all.

    Raises:
        OSError: If the architecture is unknown.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call filter is available for {machine}")
    mark, socket, keyring = _ARCHITECTURES[machine]
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    allowed, rejected, missing = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x00050000 | errno.ENOSYS
    calls = [(number, "refused") for number in keyring]
    if families is not None:
        calls.append((_IO_URING_SETUP, "missing"))  # io_uring can open sockets without this call
    steps: list[tuple[int, str, str, int]] = [
        (load, "", "", 4),  # the architecture
        (equal, "", "refused", mark),  # programs of another architecture use other call numbers
        (load, "", "", 0),  # the call
        (at_least, "missing", "", _X32_SYSCALL_BIT),
        *((equal, end_at, "", number) for number, end_at in calls),
    ]
    if families is not None:
        steps += [
            (equal, "", "allowed", socket),
            (load, "", "", 16),  # its first argument
            *((equal, "allowed", "", family) for family in families),
            (end, "", "", rejected),
        ]
    ends = {"allowed": allowed, "missing": missing, "refused": rejected}
    places = {name: len(steps) + n for n, name in enumerate(ends)}
    steps += [(end, "", "", value) for value in ends.values()]

    def jump(at: int, target: str) -> int:
        return places[target] - at - 1 if target else 0

    instructions = [(code, jump(at, yes), jump(at, no), value) for at, (code, yes, no, value) in enumerate(steps)]
    return b"".join(struct.pack("=HBBI", *step) for step in instructions)


def _allow(ruleset: int, rights: int, path: str) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _OF_FILES
        if rights:
            rule = struct.pack("=Qi", rights, handle)
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(handle)


def _no_new_rights() -> None:
    if _library().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        _fail()


def _call(number: int, *arguments: object) -> int:
    result = _library().syscall(number, *arguments)
    if result < 0:
        _fail()
    return result


def _fail() -> None:
    import ctypes

    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def _library() -> Any:
    import ctypes  # takes 10 ms to import: only if a restriction is applied

    return ctypes.CDLL(None, use_errno=True)


def encode_plan(rules: list[tuple[str, str]], *, network: bool) -> bytes:
    """Encode a plan for this file as a program."""
    head = b"open" if network else b"closed"
    return b"\0".join([head, *(f"{kind} ".encode() + os.fsencode(path) for kind, path in rules)])


def _read_plan(path: str) -> tuple[list[tuple[str, str]], bool]:
    with open(path, "rb") as file:
        head, *lines = file.read().split(b"\0")
    rules = [(kind.decode(), os.fsdecode(place)) for kind, _, place in (line.partition(b" ") for line in lines)]
    return rules, head == b"open"


def _supervise() -> None:
    """Fork, and return in the new process. The old process exits after the new one and everything that it started.

    Processes that leave their session and lose their parent become children of the old process, so that none is missed. The
    same happens if Mainspring is killed.
    """
    import signal

    library = _library()
    library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGUSR1), 0, 0, 0)
    request = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, request)
    own = os.getpid()
    child = os.fork()
    if child == 0:
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != own:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the command's pipes close with the command
        os.dup2(nothing, stream)
    status: int | None = None
    while status is None and signal.sigwait({signal.SIGCHLD, signal.SIGUSR1}) == signal.SIGCHLD:
        status = _reap(child)
    _end_descendants()
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
    if number:
        library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(own, number)
    os._exit(os.WEXITSTATUS(status or 0))


def _reap(child: int) -> int | None:
    """Return the exit status of a process; ``None`` while it runs."""
    status: int | None = None
    while True:
        try:
            pid, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = found


def _end_descendants() -> None:
    """Kill all descendants of this process. They are stopped first, so that none starts another."""
    import time

    end = time.monotonic() + _END_SECONDS
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        stopped: set[int] = set()
        while fresh := _descendants() - stopped:
            _send(fresh, 19)  # SIGSTOP
            stopped |= fresh
        _send(stopped, 9)
        time.sleep(0.002)


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def _descendants() -> set[int]:
    """Return the running descendants of this process."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state not in (b"Z", b"X"):
                parents[int(name)] = int(parent)
    found: set[int] = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {os.getpid()}


def main(arguments: list[str]) -> None:
    """Drop the rights and execute the command, in a separate process.

    Args:
        arguments: The file with the plan, a separator, the command.
    """
    rules, network = _read_plan(arguments[0])
    command = arguments[2:]
    _supervise()
    drop_capabilities()
    leave_keyring()
    apply_landlock(rules, network=network)
    if has_filter():
        filter_calls(network=network)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
