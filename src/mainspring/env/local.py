"""`LocalEnv`: the files and processes of this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.env import local_files
from mainspring.env.jobs import JobManager
from mainspring.env.local_files import LocalFiles
from mainspring.env.locks import PathLocks
from mainspring.env.process import RunningProcess, StdioConnection, open_connection, start_process, wait_for_result
from mainspring.env.process_tree import OrphanReaper, kill_by_run_id
from mainspring.env.threaded_files import ThreadedFiles
from mainspring.env.types import (
    DEFAULT_OUTPUT_LIMITS,
    HttpResponse,
    OutputLimits,
    PathFilter,
    ProcessResult,
    StreamName,
)
from mainspring.env.variables import child_environment
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.programs import find_program

if TYPE_CHECKING:
    from mainspring.env.http_fetch import HttpFetcher
else:
    HttpFetcher = lazy_function("mainspring.env.http_fetch", "HttpFetcher")

_READ_SCRIPT = 'shopt -u dotglob nocaseglob globstar 2>/dev/null;IFS= read -rd "" s;{};eval "unset -v s;$s"'
"""The script is read from standard input up to a NUL, without a limit of length and without a process listing that contains it, so
that ``pkill -f`` in a script does not match the script itself. Wildcards match no hidden files and no other case, and ``**`` is ``*``, whatever
the user's variables set, since permissions are decided that way. Old versions of bash do not know ``globstar``."""
_MAX_ARGUMENT_CHARS = 100_000
_REAPER_DELAY = 0.5
"""Seconds after which the reaper starts for a running program; most programs end long before, and the reaper costs a process."""


_Started = TypeVar("_Started", RunningProcess, StdioConnection)


class LocalEnv(ThreadedFiles):
    """Files and processes of this machine, in one project folder. An `ExecutionEnv`.

    Attributes:
        cwd: See `ExecutionEnv`.
        variables: Variables of every program, which override all others.
        search_path: The search path that programs get; empty if unknown.
        jobs: See `ExecutionEnv`.
        scratch: See `ExecutionEnv`.
        path_filter: See `ExecutionEnv`.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        *,
        home: str | None = None,
        shell: str | None = None,
        variables: Mapping[str, str] | None = None,
        hidden_variables: Sequence[str] = (),
        max_processes: int | None = None,
        reachable: Sequence[str] = (),
        must_exist: bool = True,
    ) -> None:
        """Create an environment.

        Args:
            cwd: The project folder.
            home: The value of ``~`` (default: the user's home folder).
            shell: Program that runs scripts (default: ``bash`` if installed, else ``sh``).
            variables: Environment variables of every program, which override all others.
            hidden_variables: Variables that no program gets, in addition to those of `child_environment`.
            max_processes: Maximum number of processes of a command, including itself; a command that starts more is
                killed. ``None``: unlimited.
            reachable: Hosts (``name`` or ``name:port``) that `fetch` may connect to although their address is private.
            must_exist: Whether the folder must exist already.

        Raises:
            ConfigError: If the folder does not exist.
        """
        start = os.sep if os.path.isabs(cwd) else os.getcwd()  # the current folder may be deleted
        self._cwd = local_files.resolve_local_path(os.fspath(cwd), start, os.path.expanduser("~"))
        # A tool that writes would create the folder, and a misspelled name would go unnoticed.
        if must_exist and not os.path.isdir(self._cwd):
            raise ConfigError(f"Folder not found: {os.fspath(cwd)}. Create it first: tools work in an existing folder.")
        self.cwd = self._cwd
        super().__init__(LocalFiles(self._cwd, home or os.path.expanduser("~")))
        self._shell = shell
        self.variables = dict(variables or {})
        self.path_filter: PathFilter | None = None
        self._hidden = tuple(hidden_variables)
        self.search_path = self.variables.get("PATH", os.environ.get("PATH", os.defpath)) or "."
        self._locks = PathLocks()
        self._mark = os.urandom(8).hex()
        self._watcher = OrphanReaper(self._mark)
        self.jobs = JobManager(lambda watcher=self._watcher: asyncio.to_thread(watcher.start))
        self.scratch: dict[str, Any] = {}
        self._max_processes = max_processes
        self._reachable = tuple(reachable)
        self._running: set[RunningProcess | StdioConnection] = set()
        self._starting: set[asyncio.Task[Any]] = set()
        self._spools = _SpoolDirectory()
        weakref.finalize(self, _finalize, self._running, self._spools, self._watcher)

    async def find_program(self, name: str) -> str | None:
        """Return the path of a program: on the user's PATH outside the project, or in the scripts folder of the running Python."""
        return await asyncio.to_thread(_find_program, name, self._cwd)

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
        """Run a program or a script. See `ExecutionEnv.run`."""
        folder = self._cwd if cwd is None else await self.realpath(cwd)
        if isinstance(command, str):
            command, stdin = await self._script_command(command, stdin)
        _check_arguments(command)
        launch = await self._launch(command, folder, env or {})
        running = await self._start(
            start_process(
                launch.arguments,
                cwd=launch.cwd,
                env=launch.variables,
                stdin=stdin,
                limits=limits,
                new_spool=self._spools.new_path,
                mark=self._mark,
            )
        )
        long = asyncio.get_running_loop().call_later(_REAPER_DELAY, self._start_reaper)
        try:
            result = await wait_for_result(
                running, timeout=timeout, signal=signal, on_output=on_output, max_processes=self._max_processes
            )
        finally:
            long.cancel()
            if not running.survivors:
                self._running.discard(running)
        if result.survivors:
            await asyncio.to_thread(self._watcher.start)
        return result

    def _start_reaper(self) -> None:
        """Start the reaper, which ends running programs if this process is killed."""
        asyncio.get_running_loop().run_in_executor(None, self._watcher.start)

    async def _script_command(self, script: str, stdin: bytes | None) -> tuple[list[str], bytes | None]:
        if "\0" in script:
            raise OSError(22, "the script has a NUL character in it")
        code = script.encode("utf-8", "surrogateescape")
        shell = self._shell or await find_shell(self.find_program)
        if sys.platform == "win32":
            self._shell = shell  # checking again would start a program each time
        if shell is None:
            return ["cmd", "/d", "/s", "/c", script], stdin
        if os.path.basename(shell).startswith("bash"):
            wrapper = _READ_SCRIPT.format("exec </dev/null" if stdin is None else ":")
            return [shell, "-c", wrapper], code + b"\0" + (stdin or b"")
        if len(code) < _MAX_ARGUMENT_CHARS:
            return [shell, "-c", script], stdin
        return [shell, await asyncio.to_thread(self._script_file, code)], stdin

    def _script_file(self, code: bytes) -> str:
        """Write a script that is too long for an argument. Return its path for the shell. Blocking."""
        return self._private_file(code)

    def _private_file(self, data: bytes) -> str:
        """Write a private file that is removed with the environment. Return its path. Blocking."""
        path = self._spools.new_path()
        local_files.write_local_file(path, data, False)
        return path

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> StdioConnection:
        """Start a program and connect to it. See `ExecutionEnv.connect`."""
        _check_arguments(command)
        launch = await self._launch(command, await self.realpath(cwd or "."), env or {})
        return await self._start(open_connection(launch.arguments, launch.cwd, launch.variables))

    async def _start(self, start: Coroutine[Any, Any, _Started]) -> _Started:
        """Start a program. A cancelled start is finished, and its program killed, so that no program is left without an owner."""
        starting = asyncio.ensure_future(start)
        self._starting.add(starting)
        starting.add_done_callback(self._add_started)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._kill_started)
            raise

    def _add_started(self, starting: asyncio.Task[Any]) -> None:
        self._starting.discard(starting)
        if not starting.cancelled() and starting.exception() is None:
            self._running.add(starting.result())

    def _kill_started(self, starting: asyncio.Task[Any]) -> None:
        if starting.cancelled() or starting.exception() is not None:
            return
        started = starting.result()
        started.kill()
        if isinstance(started, RunningProcess):  # `aclose` closes a connection
            started.close()
            started.on_exit(lambda: self._running.discard(started))  # until then, `aclose` waits for it

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Send a request to a web server. See `ExecutionEnv.fetch`. A proxy of the user's variables is used."""
        return await HttpFetcher(self._reachable).get(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Return the lock for changes to a file. See `ExecutionEnv.lock`."""
        return self._locks.acquire(path)

    def kill_all(self) -> None:
        """Kill every program that was started here, without waiting: for a signal handler, which cannot await."""
        for running in list(self._running):
            running.kill()
        kill_by_run_id(self._mark)  # a program that has just been started is not in the set yet

    def variable_overrides(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a program that inherits those of this process, but is not started here.

        Variables that the program must not have are empty.

        Args:
            given: Variables to add.
        """
        requested = child_environment(os.environ, self._hidden)
        changed = {name: requested.get(name, "") for name, value in os.environ.items() if requested.get(name) != value}
        return {**changed, **given, **self.variables}

    async def spool(self, data: bytes) -> str | None:
        """Store output of a program that was not started here in a private file, which is removed with the environment. Return its path."""
        try:
            return await asyncio.to_thread(self._private_file, data)
        except OSError:
            return None  # on a full disk only the copy is lost, not the output

    async def aclose(self) -> None:
        """End running programs and remove private files."""
        await self._end_programs()
        await asyncio.to_thread(self._watcher.close)
        await asyncio.to_thread(self._spools.remove)

    async def _end_programs(self) -> None:
        await self.jobs.aclose()
        # If the event loop ends during a start, asyncio cancels both the start and the task that it waits for, and hangs.
        await asyncio.gather(*self._starting, return_exceptions=True)
        remaining = list(self._running)
        await asyncio.gather(*[_terminate(running) for running in remaining])
        self._running.difference_update(remaining)  # only now: a second signal must still find and kill them

    async def _launch(self, command: Sequence[str], folder: str, given: Mapping[str, str]) -> ProcessSpec:
        """Return the command to start for a program; a sandbox or a container prepends its own."""
        variables = {**child_environment(os.environ, self._hidden), **given, **self.variables}
        return ProcessSpec(command, folder, variables)


class ProcessSpec(Struct, frozen=True):
    """Return the process to start on this machine: arguments, folder, and all variables."""

    arguments: Sequence[str]
    cwd: str
    variables: Mapping[str, str]


class _SpoolDirectory:
    """Private files of one environment, in a folder that is created when it is first needed."""

    def __init__(self) -> None:
        self._folder = ""
        self._count = 0
        self._lock = threading.Lock()

    def folder(self) -> str:
        """Return the folder. Blocking."""
        with self._lock:
            if not self._folder:
                import tempfile

                self._folder = os.path.realpath(tempfile.mkdtemp(prefix="mainspring-"))
            return self._folder

    def new_path(self) -> str:
        """Return a name for a new file. Blocking."""
        self._count += 1
        return os.path.join(self.folder(), f"output-{self._count}.txt")

    def remove(self) -> None:
        """Remove the folder."""
        folder, self._folder = self._folder, ""
        if folder:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


async def _terminate(running: RunningProcess | StdioConnection) -> None:
    if isinstance(running, StdioConnection):
        await running.aclose()
        return
    await running.end(0.5)
    running.close()


def _check_arguments(command: Sequence[str]) -> None:
    """Reject characters that no argument can contain, with a clear message instead of a ValueError."""
    try:
        if any(b"\0" in os.fsencode(argument) for argument in command):
            raise OSError(22, "an argument has a NUL character in it")
    except UnicodeEncodeError:
        raise OSError(22, "an argument has half a surrogate pair in it") from None


def _finalize(running: set[RunningProcess | StdioConnection], spools: _SpoolDirectory, watcher: OrphanReaper) -> None:
    """Clean up an environment that was not closed: end everything that it started."""
    for process in running:
        process.kill()
    watcher.close()
    spools.remove()


async def find_shell(find_program: Callable[[str], Awaitable[str | None]]) -> str | None:
    """Return the default shell for scripts; None if none is installed."""
    for name in ("bash", "sh"):
        found = await find_program(name)
        if found and (sys.platform != "win32" or await asyncio.to_thread(is_shell, found)):
            return found
    return None


def is_shell(program: str) -> bool:
    """Return True if a program runs scripts. Blocking. On Windows ``bash`` may only print that no Linux is installed."""
    try:
        done = subprocess.run(
            [program, "-c", "echo $((6 * 7))"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return (done.returncode, done.stdout.strip()) == (0, b"42")


def _find_program(name: str, project: str) -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), name)
    import shutil

    return find_program(name, project=project) or shutil.which(beside)
