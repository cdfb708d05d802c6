"""Finding docker or podman, with a call that cannot hang: the program may be there though its engine is not."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache

from mainspring.errors import ConfigError
from mainspring.programs import find_program

ENGINES = ("docker", "podman")
"""Programs that can run containers, in order of preference."""

ANSWER_SECONDS = 5.0
"""How long an engine may take to tell its version; docker waits for ever where its socket does not answer."""

_VERSION = {"docker": ("version", "--format", "{{.Server.Version}}"), "podman": ("version", "--format", "{{.Version}}")}


def find_engine(wanted: str | None = None) -> str:
    """The program to run containers with; it is tried out once for each process. Blocking, 50 ms to `ANSWER_SECONDS`.

    Args:
        wanted: ``docker`` or ``podman``, or the path of one, if it has to be this one.

    Raises:
        ConfigError: If none works, with what went wrong.
    """
    reasons: list[str] = []
    for name in [wanted] if wanted else ENGINES:
        problem = _problem(name)
        if problem is None:
            return name
        reasons.append(f"{name}: {problem}")
    raise ConfigError(
        f"no container can be started: {'; '.join(reasons)}. Start the docker service, or install podman, which needs none"
    )


@cache
def _problem(name: str) -> str | None:
    if find_program(name) is None:
        return "it is not installed"
    kind = "podman" if "podman" in name else "docker"
    try:
        told = call([name, *_VERSION[kind]], seconds=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return f"its engine did not answer within {ANSWER_SECONDS:g} s"
    except OSError as error:
        return str(error)
    if told.returncode == 0:
        return None
    return last_line(told.stderr) or f"it ended with status {told.returncode}"


def call(
    command: Sequence[str], *, seconds: float | None = None, data: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program and take what it says. Blocking."""
    program = find_program(command[0]) or command[0]
    return subprocess.run([program, *command[1:]], input=data or b"", capture_output=True, timeout=seconds, check=False)


def last_line(said: bytes) -> str:
    """The last line of what a program said."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
