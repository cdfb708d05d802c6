"""Check that the inference engine is installed, and choose its number of threads."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path

from mainspring.errors import ProviderConfigError
from mainspring.extras import install_command

ENGINE = "xllamacpp"
ALTERNATIVES_HINT = (
    "Or use another model: run `export OPENAI_API_KEY=...`, or start Ollama, LM Studio, or llama-server on this machine and "
    "run `mainspring models`."
)
_MAX_THREADS = 8  # Decoding is limited by memory bandwidth, so more threads do not help.
_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64"), ("win32", "AMD64")}


def check_engine() -> None:
    """Raise an error if the engine is not installed.

    Raises:
        ProviderConfigError: The engine is missing; the text contains the commands to install it on this machine.
    """
    if not is_engine_installed():
        raise ProviderConfigError(engine_install_hint(), provider="embedded", reason="engine_missing")


def is_engine_installed() -> bool:
    """Return True if the package that runs local models is installed."""
    return importlib.util.find_spec(ENGINE) is not None


def engine_install_hint() -> str:
    """Return instructions for a missing engine."""
    reason = _missing_wheel_reason()
    if reason:
        return f"The embedded model is not supported on this machine: {reason}. {ALTERNATIVES_HINT}"
    return (
        f"The embedded model requires the package {ENGINE} (34 MB, no compiler). Install it with:\n"
        f"    {install_command('local')}\n{ALTERNATIVES_HINT}"
    )


def _missing_wheel_reason() -> str:
    machine = platform.machine()
    if (sys.platform, machine) not in _WHEELS:
        return f"its engine {ENGINE} has no wheel for {sys.platform} on {machine}"
    if sys.implementation.name != "cpython":
        return f"its engine {ENGINE} has wheels for CPython only, not for {sys.implementation.name}"
    if sys.platform == "linux" and platform.libc_ver()[0] != "glibc":
        return f"its engine {ENGINE} has no wheel for Linux without glibc (Alpine, for example)"
    return ""


def thread_count() -> int:
    """Return the number of threads; 0 lets the engine decide.

    On Linux, the number of physical cores available to this process, at most the CPU quota of its container and 8.
    """
    if sys.platform != "linux":
        return 0
    allowed = os.sched_getaffinity(0)
    cores = {_core_id(cpu) for cpu in allowed}
    return max(1, min(len(cores), _cpu_quota() or len(cores), _MAX_THREADS))


def _core_id(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return str(cpu)


def _cpu_quota() -> int:
    """Return the CPU limit of the container in whole cores; 0 if unlimited."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return 0 if limit == "max" else max(1, int(limit) // int(period))
    except (OSError, ValueError):
        return 0
