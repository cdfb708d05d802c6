"""Whether the engine is here, what it may use of the machine, and what to do where it is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path

from mainspring.errors import ProviderConfigError
from mainspring.extras import how_to_install

ENGINE = "xllamacpp"
OTHER_WAYS = (
    "Or use another model: export OPENAI_API_KEY=... , or start Ollama, LM Studio or llama-server on this machine and "
    "run `mainspring models`."
)
_MOST_THREADS = 8  # decoding waits for memory, more threads only wait together
_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64"), ("win32", "AMD64")}


def check_engine() -> None:
    """See that the engine is installed.

    Raises:
        ProviderConfigError: If it is not; the text has the commands that help on this machine.
    """
    if importlib.util.find_spec(ENGINE) is None:
        raise ProviderConfigError(missing_engine(), provider="embedded", reason="engine_missing")


def engine_installed() -> bool:
    """Whether the package that runs local models is installed."""
    return importlib.util.find_spec(ENGINE) is not None


def missing_engine() -> str:
    """What to say where the engine is not installed."""
    obstacle = _no_wheel()
    if obstacle:
        return f"The embedded model cannot run here: {obstacle}. {OTHER_WAYS}"
    return (
        f"The embedded model needs the package {ENGINE} (34 MB, no compiler). Install it with:\n"
        f"    {how_to_install('local')}\n{OTHER_WAYS}"
    )


def _no_wheel() -> str:
    machine = platform.machine()
    if (sys.platform, machine) not in _WHEELS:
        return f"its engine {ENGINE} has no wheel for {sys.platform} on {machine}"
    if sys.implementation.name != "cpython":
        return f"its engine {ENGINE} has wheels for CPython only, this is {sys.implementation.name}"
    if sys.platform == "linux" and platform.libc_ver()[0] != "glibc":
        return f"its engine {ENGINE} has no wheel for Linux without glibc (Alpine, for example)"
    return ""


def threads() -> int:
    """How many threads to compute with: physical cores that this process may use; 0 lets the engine find out."""
    if sys.platform != "linux":
        return 0
    allowed = os.sched_getaffinity(0)
    cores = {_siblings(cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota() or len(cores), _MOST_THREADS))


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return str(cpu)


def _quota() -> int:
    """Whole cores of the container's CPU limit; 0 is no limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return 0 if limit == "max" else max(1, int(limit) // int(period))
    except (OSError, ValueError):
        return 0
