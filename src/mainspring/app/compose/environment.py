"""The environment of tools, on this machine or in a sandbox, and the services that tools find in their context."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.settings import Settings
from mainspring.env import (
    LocalEnv,  # loads its parts on use
    sandbox,  # loads its parts on use
)
from mainspring.env.walk import VCS_DIRECTORIES
from mainspring.loop import CoreAgent
from mainspring.permissions.paths import IGNORE_FILE_NAME, MAX_BYTES, match_rules, parse_rules
from mainspring.state_files import write_atomically
from mainspring.tools import (
    Tool,  # loads its parts on use
    diagnostics,  # loads its parts on use
)
from mainspring.tools.builtin.todos import TODO_STORE_KEY, EnvTodoStore
from mainspring.tools.support.background import ON_COMPLETION_KEY

_CACHE_SECONDS = 5.0
"""Seconds for which the list of ignored files is cached. Files that are created in the meantime are visible to commands."""


EDITING_TOOLS = frozenset({"write_file", "edit", "multi_edit", "apply_patch"})
"""Tools whose changes are checked by language servers."""


_EVERYTHING = b"*"


def create_environment(settings: Settings, cwd: str) -> tuple[LocalEnv, str]:
    """Create the environment of a run. Blocking; checks a requested sandbox by starting a program.

    Args:
        settings: Settings of the sandbox and of programs.
        cwd: The project folder.

    Returns:
        The environment, and a description of the sandbox's limits for the user.

    Raises:
        ConfigError: If a sandbox is requested and none is available.
    """
    request, limits, home = settings.config.sandbox, settings.config.execution, settings.home
    options: dict[str, Any] = {"max_processes": limits.max_processes, "reachable": limits.reachable}
    if request.layer == "none":
        # The command has already reported that its folder was deleted, and continues.
        return LocalEnv(cwd, must_exist=False, **options), ""
    hidden = IgnoredPaths(cwd)
    env = sandbox.SandboxEnv(
        cwd,
        provider=sandbox.find_backend(None if request.layer == "auto" else request.layer),
        network=request.network,
        writable=_paths(request.writable, cwd),
        readable=[*([] if home is None else [str(home.skills), str(home.context)]), *_paths(request.readable, cwd)],
        hidden=lambda: (
            *hidden(),
            *_paths(request.hidden, cwd),
            *([] if home is None else [str(home.settings)]),
        ),
        journal=None if home is None else str(home.root / "sandbox"),
        **options,
    )
    return env, "\n".join(text for text in (env.state().text, env.recovered) if text)


def layer_of(env: LocalEnv, settings: Settings) -> str:
    """Return the name of the sandbox layer that an environment is in, or an empty string. Blocking."""
    if settings.config.sandbox.layer == "none" or not isinstance(env, sandbox.SandboxEnv):
        return ""
    return env.state().layer


def _paths(names: Sequence[str], cwd: str) -> list[str]:
    """Return paths of the settings, relative to the project folder."""
    return [os.path.join(cwd, os.path.expanduser(name)) for name in names]


def with_language_servers(tools: Sequence[Tool], settings: Settings) -> list[Tool]:
    """Wrap the editing tools, so that their results contain the diagnostics of the configured language servers."""
    requested = {name: server for name, server in settings.config.language_servers.items() if server.enabled}
    if not requested:
        return list(tools)
    servers = [
        diagnostics.LanguageServerConfig(
            command=server.command,
            languages=server.languages,
            name=name,
            options=server.options,
            settings=server.settings,
        )
        for name, server in sorted(requested.items())
    ]
    return [diagnostics.with_diagnostics(t, servers) if t.name in EDITING_TOOLS else t for t in tools]


class IgnoredPaths:
    """Finds the paths that the ignore files of a project exclude, so that a sandbox hides them from commands too.

    Args:
        root: The project folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: tuple[str, ...] = ()
        self._looked = float("-inf")

    def __call__(self) -> tuple[str, ...]:
        """Return the paths. Blocking; scans the project, at most every `_CACHE_SECONDS`."""
        if time.monotonic() - self._looked > _CACHE_SECONDS:
            self._found = tuple(self._find())
            self._looked = time.monotonic()
        return self._found

    def _find(self) -> Iterator[str]:
        parts = tuple(self._root.strip("/").split("/"))
        above: list[tuple[int, Any]] = []
        for depth in range(len(parts)):
            above = self._with_ignore_file(above, "/" + "/".join(parts[:depth]), depth)
        yield from self._walk(parts, above)

    def _walk(self, parts: tuple[str, ...], parents: list[tuple[int, Any]]) -> Iterator[str]:
        folder = "/" + "/".join(parts)
        files = self._with_ignore_file(parents, folder, len(parts))
        try:
            with os.scandir(folder) as entries:
                found = [(entry.path, entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            return
        for path, name, is_folder in found:
            inner = (*parts, name)
            if _is_ignored(inner, files, is_folder):
                yield path
            elif is_folder and name not in VCS_DIRECTORIES:
                yield from self._walk(inner, files)

    def _with_ignore_file(self, parents: list[tuple[int, Any]], folder: str, depth: int) -> list[tuple[int, Any]]:
        try:
            with open(os.path.join(folder, IGNORE_FILE_NAME), "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return parents
        except OSError:  # the file exists, but its rules are unknown
            data = _EVERYTHING
        rules = parse_rules(data)
        return parents if rules is None else [*parents, (depth, rules)]


def _is_ignored(parts: tuple[str, ...], files: list[tuple[int, Any]], is_folder: bool) -> bool:
    for depth, rules in reversed(files):
        match = match_rules(rules, parts[depth:], is_folder=is_folder)
        if match is not None:
            return match
    return False


def tool_services(home: UserPaths | None) -> dict[str, Any]:
    """Return values for ``Agent(extra=...)``: to-do lists in the user's folder, by session."""
    return {} if home is None else {TODO_STORE_KEY: EnvTodoStore(_PrivateFiles(home.root, must_exist=False))}


class _PrivateFiles(LocalEnv):
    """Files in the user's folder that only the user can read. The folder is created with the first file."""

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        target = Path(await self.realpath(path))

        def write() -> None:
            if parents:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(target, data)

        await asyncio.to_thread(write)


def enable_background_wakeups(agent: CoreAgent) -> None:
    """Send the agent a message when a background command ends."""
    agent.extra = {**agent.extra, ON_COMPLETION_KEY: agent.follow_up}
