"""`DockerEnv`: the project in a container, which has its own programs and its own system."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainspring.cancellation import CancelToken
from mainspring.env.container.container import Container, find_engine
from mainspring.env.container.files import ContainerFiles
from mainspring.env.local import LocalEnv, ProcessSpec
from mainspring.env.process_tree import RUN_ID_VARIABLE
from mainspring.env.sandbox.restore import RestoringGuard, with_note
from mainspring.env.types import DEFAULT_OUTPUT_LIMITS, HttpResponse, OutputLimits, ProcessResult, StreamName

_END = (
    'each() { for p in /proc/[0-9]*; do tr "\\0" "\\n" <"$p/environ" 2>/dev/null | grep -qx "$1" && '
    '{ [ -z "$2" ] && return 0; kill -s "$2" "${p#/proc/}" 2>/dev/null; }; done; [ -n "$2" ]; }; '
    'each "$1" TERM; i=0; while [ $i -lt 20 ] && each "$1" ""; do sleep 0.1; i=$((i+1)); done; each "$1" KILL'
)
"""Ends every process that carries a mark: asks first, forces after two seconds."""

_LOCATE = (
    'n=$1; f=$2; shift 2; i=0; for d do case $d in /*) p=$d/$n ;; "~/"*) p=$HOME/${d#??}/$n ;; *) p=$f/$d/$n ;; esac; '
    'if [ -f "$p" ] && [ -x "$p" ]; then echo $i; (CDPATH= cd -P -- "${p%/*}" && pwd -P); readlink -f -- "$p"; exit 0; fi; '
    "i=$((i+1)); done; exit 1"
)
"""Prints the number of the entry that has a program, the real path of its folder, and that of the program."""


class ContainerEnv(LocalEnv):
    """Files and programs of a container, through the command line of docker or podman. An `ExecutionEnv`.

    The container is made when something is first run in it, and removed when the environment closes; it ends by itself when
    this program is killed. The project's folder is mounted under its own path, so that names are the same on both sides.
    Programs get none of this machine's variables.

    The project's files are shared with this machine, and with every other container or program that uses the folder: `lock`
    holds only for this environment, so two that write the same file at the same time overwrite each other. Give agents that
    work at the same time folders of their own, or one environment for both.

    Args:
        image: The image. It needs ``sh`` and the usual small programs, as nearly every image has; busybox is enough.
        cwd: The project folder on this machine.
        engine: ``docker`` or ``podman``, or a program that takes the same arguments; the first that works if not given.
        network: Whether programs and `fetch` reach the network.
        home: What ``~`` stands for in the container.
        arguments: Further arguments of ``docker run``, as in ``("--memory", "2g")``.
        **options: Further options of `LocalEnv`. ``max_processes`` is a limit of the whole container.

    Raises:
        ConfigError: If neither docker nor podman works here.
    """

    def __init__(
        self,
        image: str,
        cwd: str | os.PathLike[str] = ".",
        *,
        engine: str | None = None,
        network: bool = False,
        home: str = "/root",
        arguments: Sequence[str] = (),
        **options: Any,
    ) -> None:
        program = find_engine(engine)
        most = options.pop("max_processes", None)
        super().__init__(cwd, home=home, **options)
        self._check_url = network
        self.search_path = self.variables.get("PATH", "")  # that of the image is not known before it runs
        own = ["--mount", _mount(self._cwd), "-w", self._cwd, *_user(program)]
        own += [] if network else ["--network", "none"]
        own += [] if most is None else ["--pids-limit", str(most)]
        self._container = Container(program, image, (*own, *arguments), self._cwd)
        self._files = ContainerFiles(self._cwd, home, self._container)
        self._programs: dict[str, str | None] = {}
        self._guard = RestoringGuard((self._cwd,), (), restores=True, private=self._spools.folder)

    @property
    def container(self) -> str | None:
        """The container's name; ``None`` while there is none."""
        return self._container.name if self._container.running else None

    async def find_program(self, name: str) -> str | None:
        """Where a program is in the container, outside of the project."""
        if name not in self._programs:
            found = await asyncio.to_thread(self._container.script, 'command -v "$1"', name)
            self._programs[name] = os.fsdecode(found.stdout).strip() or None if found.returncode == 0 else None
        return self._programs[name]

    async def find_search_path(self) -> str:
        """Return the search path that programs get. The container is started for that.

        Raises:
            OSError: If the container cannot be started.
        """
        if "PATH" not in self.variables:
            await asyncio.to_thread(self._container.start)
            self.search_path = self._container.search_path
        return self.search_path

    async def locate_program(self, name: str, entries: Sequence[str], folder: str) -> tuple[str, str, str] | None:
        """Return the entry of a search path at which a shell in the container finds a program, and the real paths of folder and program.

        Args:
            name: The name of the program.
            entries: The entries of the search path.
            folder: The folder that relative entries start at.

        Raises:
            OSError: If the container cannot be started.
        """
        found = await asyncio.to_thread(self._container.script, _LOCATE, name, folder, *entries)
        number, _, paths = os.fsdecode(found.stdout).partition("\n")
        if found.returncode or not number.isdigit():
            return None
        place, _, program = paths.rstrip("\n").partition("\n")
        return entries[int(number)], place, program

    async def run(
        self,
        command: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        on_output: Callable[[StreamName, bytes], object] | None = None,
        signal: CancelToken | None = None,
        limits: OutputLimits = DEFAULT_OUTPUT_LIMITS,
    ) -> ProcessResult:
        """Run a program or a script. See `ExecutionEnv.run`.

        What it leaves behind runs on until the environment closes; it is not told as ``survivors``. When the command ends, changes
        of files that decide what runs later outside are undone, and the error output says so.
        """
        mark = secrets.token_hex(8)
        ended = False
        await asyncio.to_thread(self._guard.begin)
        try:
            result = await super().run(
                command,
                cwd=cwd,
                env={**(env or {}), RUN_ID_VARIABLE: mark},
                timeout=timeout,
                stdin=stdin,
                on_output=on_output,
                signal=signal,
                limits=limits,
            )
            ended = not (result.timed_out or result.cancelled or result.overflowed)
        finally:
            if not ended and self._container.running:
                await asyncio.shield(asyncio.to_thread(self._container.script, _END, f"{RUN_ID_VARIABLE}={mark}"))
            undone = await asyncio.shield(asyncio.to_thread(self._guard.end))
        return with_note(result, undone, self._cwd, self._guard.moved_to, on_output)

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Ask a web server, from this machine. See `ExecutionEnv.fetch`; refused where the network is closed."""
        if not self._check_url:
            raise PermissionError(errno.EPERM, "the container has no network", url)
        return await super().fetch(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    def kill_all(self) -> None:
        """Let go of the container; it ends by itself with everything in it."""
        super().kill_all()
        self._container.kill()

    async def aclose(self) -> None:
        """Remove the container and private files."""
        await super().aclose()
        await asyncio.to_thread(self._container.remove)

    async def _launch(self, command: Sequence[str], folder: str, given: Mapping[str, str]) -> ProcessSpec:
        await asyncio.to_thread(self._container.start)
        inside = {**given, **self.variables}
        arguments = self._container.command(command, folder, inside)
        return ProcessSpec(
            arguments, self._cwd, {**os.environ, **{k: v for k, v in inside.items() if k not in os.environ}}
        )

    def _script_file(self, code: bytes) -> str:
        path = f"/tmp/mainspring-script-{secrets.token_hex(4)}"
        self._files.write(path, code, True)
        return path


def _mount(folder: str) -> str:
    """The mount of a folder under its own path; its name may hold what separates the parts."""
    quoted = folder.replace('"', '""')
    return f'type=bind,"source={quoted}","target={quoted}"'


def _user(program: str) -> tuple[str, ...]:
    """Whose files new ones are: the user's of this machine."""
    if sys.platform != "linux" or os.getuid() == 0:
        return ()
    if "podman" in program:
        return ("--userns", "keep-id")
    return ("--user", f"{os.getuid()}:{os.getgid()}")
