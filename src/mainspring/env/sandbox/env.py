"""`SandboxEnv`: this machine, with programs and files in a sandbox of the operating system.

Find the strongest backend that works on this machine. Run file operations in threads that cannot access files outside the sandbox,
so that a link that is swapped after a check cannot lead a tool out of it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar, Unpack

from msgspec.structs import replace

from mainspring.env.local import LocalEnv, ProcessSpec
from mainspring.env.paths import is_inside
from mainspring.env.process import RunningProcess, StdioConnection
from mainspring.env.sandbox import lockdown
from mainspring.env.sandbox.backend import SandboxBackend, SandboxReport
from mainspring.env.sandbox.bubblewrap import Bubblewrap
from mainspring.env.sandbox.files import SandboxedFiles
from mainspring.env.sandbox.journal import Journal
from mainspring.env.sandbox.landlock import Landlock, landlock_rules
from mainspring.env.sandbox.policy import BLOCKED_VARIABLES, SandboxPolicy, make_policy
from mainspring.env.sandbox.restore import RestoringGuard, format_note, with_note
from mainspring.env.sandbox.seatbelt import Seatbelt
from mainspring.env.types import HttpResponse, ProcessResult, RunOptions
from mainspring.errors import ConfigError

BACKENDS = ("bubblewrap", "landlock", "seatbelt")
"""Names of the backends."""


def find_backend(layer: str | None = None) -> SandboxBackend:
    """Return the strongest backend that works here; it is tested once for each process. Blocking; 20 to 50 ms the first time.

    Args:
        layer: One of `BACKENDS`, if only this one is acceptable.

    Raises:
        ConfigError: If none works, with a fix for each.
    """
    if layer is not None and layer not in BACKENDS:
        raise ConfigError(f"Unknown sandbox: {layer!r}. Use {', '.join(BACKENDS)}.")
    names = [layer] if layer else _platform_backends()
    if not names:
        raise ConfigError(f"No sandbox is available for {sys.platform}. Run without one, or use a container.")
    reasons: list[str] = []
    for name in names:
        provider, problem = _probe(name)
        if problem is None:
            return provider
        reasons.append(problem)
    raise ConfigError(f"No sandbox works here, so nothing was started: {'; '.join(reasons)}.")


def _platform_backends() -> list[str]:
    if sys.platform == "linux":
        return ["bubblewrap", "landlock"]
    return ["seatbelt"] if sys.platform == "darwin" else []


@cache
def _probe(name: str) -> tuple[SandboxBackend, str | None]:
    provider = _make(name)
    return provider, provider.unavailable_reason()


def _make(name: str) -> SandboxBackend:
    if name == "bubblewrap":
        return Bubblewrap()
    return Landlock() if name == "landlock" else Seatbelt()


_MAX_THREADS = 4


def sandboxed_executor(box: SandboxPolicy) -> ThreadPoolExecutor | None:
    """Return threads that are restricted by Landlock; ``None`` if Landlock is not available.

    Hidden paths in a writable folder are not protected from these threads, since excluding them would forbid new files in the folder.

    Args:
        box: The sandbox policy.
    """
    if lockdown.landlock_version() < 3:
        return None
    outside = tuple(h for h in box.hidden if not any(is_inside(h, root) for root in box.writable))
    rules = landlock_rules(replace(box, hidden=outside))
    rules += [("read", path) for path in sys.path if os.path.isabs(path)]  # a module may be imported during the work

    def restrict() -> None:
        lockdown.apply_landlock(rules, network=True, scopes=False)

    return ThreadPoolExecutor(_MAX_THREADS, "mainspring-files", initializer=restrict)


_T = TypeVar("_T")


DeniedPaths = Sequence[str] | Callable[[], Sequence[str]]
"""Paths, or a blocking function that returns them and is called before each command."""


_BEAT_SECONDS = 10.0
"""Seconds between updates of the record of a running command."""

POLICY_TTL = 1.0
"""Seconds for which file tools reuse a policy; programs always get a new one."""


# A subclass of `LocalEnv` and not an `EnvWrapper`, since the limits apply inside the methods: to each command just before it starts, and
# to the threads that use files. A wrapper would limit only the methods that it overrides.
class SandboxEnv(LocalEnv):
    """Files and programs of this machine, in a sandbox of the operating system. An `ExecutionEnv`.

    Programs can change files only in the project's folder and in a private folder for temporary files (``$TMPDIR``). Outside those
    they can read only the system, the folders of the PATH, and the files of tools in the home folder. They have no network. The same
    limits apply to file tools. `state` returns the protections of the backend.

    Caches of programs are stored in the private folder (``$XDG_CACHE_HOME``), which is removed when the environment closes.

    Args:
        cwd: The project folder.
        provider: The backend (default: the strongest one that works here).
        network: Whether programs and `fetch` can use the network.
        writable: Folders that may be changed in addition to the project's folder.
        readable: Folders and files that may be read in addition to the usual ones.
        hidden: Folders and files that may not be read, in addition to those with keys.
        journal: Folder in which running commands are recorded, so that the next environment on the project undoes their changes
            if this process is killed (default: ``~/.agent/sandbox``).
        **options: More options of `LocalEnv`.

    Raises:
        ConfigError: If no sandbox works here, or a folder cannot be used in one.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        *,
        provider: SandboxBackend | None = None,
        network: bool = False,
        writable: Sequence[str] = (),
        readable: Sequence[str] = (),
        hidden: DeniedPaths = (),
        journal: str | None = None,
        **options: Any,
    ) -> None:
        self._provider = find_backend() if provider is None else provider
        without = (*options.pop("hidden_variables", ()), *BLOCKED_VARIABLES)
        super().__init__(cwd, hidden_variables=without, **options)
        self._network = network
        self._writable = tuple(writable)
        self._readable = tuple(readable)
        self._denied = hidden
        self._box: SandboxPolicy | None = None
        self._guarded: tuple[str, ...] = ()
        self._guard: RestoringGuard | None = None
        self._policy_created_at = 0.0
        self._threads: ThreadPoolExecutor | None = None
        self._files = SandboxedFiles(
            self._cwd, self._files.home, self._cached_policy, moves_tmp=self._provider.has_private_tmp
        )
        box = self._make_box("", "/")  # fail here if the policy is invalid
        folder = os.path.realpath(os.path.join(self._files.home, ".agent/sandbox") if journal is None else journal)
        # A command could forge a record there, and the guard would move the record away as a new file.
        exposed = any(is_inside(folder, root) for root in box.writable)
        self._journal = Journal("" if exposed else folder)
        self.recovered = self._recover(box.writable)

    def display_name(self, path: str) -> str:
        """Return the name of a resolved path for rules and users: the private folder, which is new each time, is ``/tmp``."""
        box = self._box
        return f"/tmp{path[len(box.tmp) :]}" if box is not None and is_inside(path, box.tmp) else path

    def state(self) -> SandboxReport:
        """Return the protections of the backend. Blocking; some milliseconds."""
        return self._provider.state(self._cached_policy())

    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Send a request to a web server. See `ExecutionEnv.fetch`; rejected if the network is disabled."""
        if not self._network:
            raise PermissionError(errno.EPERM, "the sandbox has no network", url)
        return await super().fetch(url, timeout=timeout, max_bytes=max_bytes, accept=accept)

    async def run(self, command: Sequence[str] | str, **options: Unpack[RunOptions]) -> ProcessResult:
        """Run a program or a script. See `ExecutionEnv.run`.

        When it ends, new files that define programs that run later outside the sandbox are moved away, and the error output contains a
        note.
        """
        guard = self._guard or await asyncio.to_thread(self._new_guard)
        settled = not self._survivors()
        self._guarded = await asyncio.to_thread(lambda: guard.begin(settled=settled))
        undone: tuple[str, ...] = ()
        beat = asyncio.ensure_future(self._record_life())
        try:
            result = await super().run(command, **options)
        finally:
            beat.cancel()
            undone = await asyncio.shield(asyncio.to_thread(guard.end))
        return with_note(result, undone, self._cwd, guard.moved_to, options.get("on_output"))

    async def connect(
        self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> StdioConnection:
        """Start a program and connect to it. See `ExecutionEnv.connect`."""
        guard = self._guard or await asyncio.to_thread(self._new_guard)
        self._guarded = await asyncio.to_thread(guard.find)
        return await super().connect(command, cwd=cwd, env=env)

    def _recover(self, roots: tuple[str, ...]) -> str:
        """Undo changes by commands of a killed process, and return a note about them. Blocking."""
        if not any(self._journal.read_others(roots)):
            return ""
        guard = self._new_guard()
        undone = guard.recover()
        return format_note(undone, self._cwd, guard.moved_to).strip() if undone else ""

    async def _record_life(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            self._journal.touch()

    def _survivors(self) -> bool:
        return any(isinstance(each, RunningProcess) for each in self._running)

    def _new_guard(self) -> RestoringGuard:
        box = self._cached_policy()
        restores = not self._provider.state(box).guards
        request = tuple(p for p in box.exempt if not (box.repository and is_inside(p, box.repository)))
        guard = RestoringGuard(
            box.writable,
            request,
            restores=restores,
            private=self._spools.folder,
            repository=box.repository,
            journal=self._journal,
        )
        self._guard = guard
        return guard

    async def aclose(self) -> None:
        """End running programs and remove private files."""
        guard, survivors = self._guard, self._survivors()
        await self._end_programs()
        if guard is not None and survivors:
            await asyncio.to_thread(guard.end)
        await super().aclose()
        self._box = None
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def _launch(self, command: Sequence[str], folder: str, given: Mapping[str, str]) -> ProcessSpec:
        box = await asyncio.to_thread(self._fresh_policy)
        own = {"TMPDIR": box.tmp, "XDG_CACHE_HOME": f"{box.tmp}/.cache", "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
        launch = await super()._launch(command, folder, {**own, **given})
        return await asyncio.to_thread(self._wrap_process, launch, box)

    def _wrap_process(self, launch: ProcessSpec, box: SandboxPolicy) -> ProcessSpec:
        program = launch.arguments[0]
        if shutil.which(program, path=launch.variables.get("PATH")) is None and "/" not in program:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        if not box.can_read(launch.cwd):
            raise PermissionError(errno.EPERM, "it is outside the paths that the sandbox can read", launch.cwd)
        return replace(launch, arguments=self._provider.wrap(launch.arguments, launch.cwd, box))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Do blocking work with files in a thread that the kernel restricts, if possible."""
        if self._threads is None:
            self._threads = await asyncio.to_thread(lambda: sandboxed_executor(self._cached_policy()))
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _cached_policy(self) -> SandboxPolicy:
        """Return the policy, at most a second old."""
        box = self._box
        return self._fresh_policy() if box is None or time.monotonic() - self._policy_created_at > POLICY_TTL else box

    def _fresh_policy(self) -> SandboxPolicy:
        private = self._spools.folder()
        tmp = os.path.join(private, "tmp")
        os.makedirs(os.path.join(tmp, ".cache"), mode=0o700, exist_ok=True)
        self._box = box = self._make_box(tmp, private)
        self._policy_created_at = time.monotonic()
        return box

    def _make_box(self, tmp: str, private: str) -> SandboxPolicy:
        return make_policy(
            self._cwd,
            home=self._files.home,
            tmp=tmp,
            writable=self._writable,
            readable=(*self._readable, private),
            hidden=self._denied() if callable(self._denied) else self._denied,
            network=self._network,
            guarded=self._guarded,
        )
