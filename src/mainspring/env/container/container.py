"""Find docker or podman, and run a container.

The engine check cannot hang, since the program may be installed while its engine does not run. A container starts when it is first
needed, and is removed when its environment closes or this process ends in any way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO

from mainspring.env.process_tree import RUN_ID_VARIABLE
from mainspring.errors import ConfigError
from mainspring.programs import explain_missing_program, find_program

ENGINES = ("docker", "podman")
"""Programs that can run containers, in order of preference."""


VERSION_TIMEOUT = 5.0
"""Maximum seconds for an engine to print its version; docker waits forever if its socket does not respond."""


_VERSION = {"docker": ("version", "--format", "{{.Server.Version}}"), "podman": ("version", "--format", "{{.Version}}")}


def find_engine(engine: str | None = None) -> str:
    """Return the program that runs containers; it is tested once for each process. Blocking, 50 ms to `VERSION_TIMEOUT`.

    Args:
        engine: ``docker`` or ``podman``, or the path of one, if only this one is acceptable.

    Raises:
        ConfigError: If none works, with the reasons.
    """
    reasons: list[str] = []
    for name in [engine] if engine else ENGINES:
        problem = _unavailable_reason(name)
        if problem is None:
            return name
        reasons.append(f"{name}: {problem}")
    raise ConfigError(
        f"No container can be started: {'; '.join(reasons)}. Start the docker service, or install podman, which needs none."
    )


@cache
def _unavailable_reason(name: str) -> str | None:
    if find_program(name) is None:
        return f"it {explain_missing_program(name)}"
    kind = "podman" if "podman" in name else "docker"
    try:
        result = run_engine([name, *_VERSION[kind]], seconds=VERSION_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"its engine did not respond within {VERSION_TIMEOUT:g}s"
    except OSError as error:
        return str(error)
    if result.returncode == 0:
        return None
    return last_output_line(result.stderr) or f"it exited with status {result.returncode}"


def run_engine(
    command: Sequence[str], *, seconds: float | None = None, data: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program and return its output. Blocking."""
    program = find_program(command[0]) or command[0]
    return subprocess.run([program, *command[1:]], input=data or b"", capture_output=True, timeout=seconds, check=False)


def last_output_line(output: bytes) -> str:
    """Return the last line of a program's output."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


START_TIMEOUT = 600.0
"""Maximum seconds for a start, which may have to pull the image."""
STOP_TIMEOUT = 5.0
"""Maximum seconds for the container to exit before it is removed by force."""


_ENTRYPOINT_SCRIPT = 'exec 3<&0; echo ready; cat <&3 >/dev/null & wait "$!"; exit 0'
"""The main process of the container: it runs as long as its input is open, and reaps orphans."""


_SHELL = "/bin/sh"
"""The full path: a bare name would be searched in the search path of the image, which can contain a folder of the project."""

_SEARCH_PATH_SCRIPT = (
    'printf "%s\\0" "$PATH"; set -f; IFS=:; for d in $PATH; do case $d in /*) r=$(CDPATH= cd -P -- "$d" 2>/dev/null && pwd -P); '
    'case $r/ in "$1"/*) ;; *) printf ":%s" "$d" ;; esac ;; esac; done'
)
"""Script that prints the search path, and the entries outside the project."""


class Container:
    """A container of an image. Its methods block and may be called from any thread.

    Args:
        engine: The program: docker or podman, or one that accepts the same arguments.
        image: The image; it needs a shell and the usual small programs.
        arguments: Arguments of ``run``, between the name and the image.
        project: The folder that is mounted. Its programs are never started for scripts.

    Attributes:
        search_path: The search path of programs in the container, after it was started.
    """

    def __init__(self, engine: str, image: str, arguments: Sequence[str], project: str = "") -> None:
        self.name = f"mainspring-{secrets.token_hex(6)}"
        self.engine = engine
        self.image = image
        self.search_path = ""
        self._safe_path = ""
        self._project = project
        self._arguments = tuple(arguments)
        self._client: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        """Return True if the container was started."""
        return self._client is not None

    def start(self) -> None:
        """Start the container, unless it runs already.

        Raises:
            OSError: If it cannot be started; the message contains the engine's reason.
        """
        with self._lock:
            if self._client is None or self._client.poll() is not None:
                self._client = self._launch()
                self._find_search_path()

    def _find_search_path(self) -> None:
        """Find the search path, and its entries outside the project. The script starts no program."""
        request = run_engine(
            [self.engine, "exec", "-i", self.name, _SHELL, "-c", _SEARCH_PATH_SCRIPT, "sh", self._project]
        )
        everything, _, outside = os.fsdecode(request.stdout).partition("\0")
        self.search_path, self._safe_path = everything, outside.strip(":") or os.defpath

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [self.engine, "run", "--rm", "-i", "--name", self.name, *self._arguments]
        command += ["--entrypoint", _SHELL, self.image, "-c", _ENTRYPOINT_SCRIPT]
        with tempfile.TemporaryFile() as output:
            client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output)
            limit = threading.Timer(START_TIMEOUT, client.kill)
            limit.daemon = True
            limit.start()
            try:
                ready = client.stdout is not None and client.stdout.readline() == b"ready\n"
            finally:
                limit.cancel()
            if not ready:
                _close_stdin(client)
                raise OSError(
                    errno.EIO, f"the container of {self.image} did not start: {_read_output(output)}", self.engine
                )
        weakref.finalize(self, _close_stdin, client)
        return client

    def command(self, command: Sequence[str], cwd: str, variables: Mapping[str, str]) -> list[str]:
        """Return the program and arguments that run a command in the container. Values of variables stay out of process listings if possible.

        Args:
            command: The command.
            cwd: The folder in the container.
            variables: Variables of the command; this process must pass them on.
        """
        given = [part for name in variables for part in ("-e", _variable(name, variables[name]))]
        return [self.engine, "exec", "-i", "-w", cwd, *given, self.name, *command]

    def script(self, script: str, *arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a ``sh`` script in the container.

        Raises:
            OSError: If the container cannot be started.
        """
        self.start()
        path = ["-e", f"PATH={self._safe_path}"]
        return run_engine(
            [self.engine, "exec", "-i", *path, self.name, _SHELL, "-c", script, "sh", *arguments], data=data
        )

    def remove(self) -> None:
        """Remove the container with everything in it."""
        with self._lock:
            client, self._client = self._client, None
        if client is None:
            return
        if not _close_stdin(client):
            run_engine([self.engine, "rm", "-f", self.name], seconds=STOP_TIMEOUT * 4)

    def kill(self) -> None:
        """Release the container immediately; it stops automatically."""
        client = self._client
        if client is not None:
            client.kill()


def _variable(name: str, value: str) -> str:
    """Return the argument for a variable. A name alone passes the client's value, except for variables that the client itself uses."""
    return f"{name}={value}" if name in os.environ or name == RUN_ID_VARIABLE else name


def _close_stdin(client: subprocess.Popen[bytes]) -> bool:
    """Close the container's input. Return True if the container stopped."""
    with contextlib.suppress(OSError):
        if client.stdin is not None:
            client.stdin.close()
    try:
        client.wait(STOP_TIMEOUT)
        ended = True
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()
        ended = False
    if client.stdout is not None:
        client.stdout.close()
    return ended


def _read_output(file: IO[bytes]) -> str:
    file.seek(0)
    return last_output_line(file.read()) or "it printed no reason"
