"""Where the tools of the command work: on this machine as it is, or in a sandbox on it.

What tools find in their context beside the environment: where lists are kept, whom to tell of an end.
"""

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
from mainspring.env.ignore import VCS_DIRECTORIES
from mainspring.loop import CoreAgent
from mainspring.permissions.ignore_files import IGNORE_FILE_NAME, MAX_BYTES, match_rules, parse_rules
from mainspring.state_files import write_text_atomically
from mainspring.tools import (
    Tool,  # loads its parts on use
    diagnostics,  # loads its parts on use
)
from mainspring.tools.builtin.todos import TODO_STORE_KEY, EnvTodoStore
from mainspring.tools.support.background import ON_COMPLETION_KEY

CACHE_SECONDS = 5.0
"""How long a list of ignored files is good. What appears meanwhile is not hidden from the commands of that time."""


EDITING_TOOLS = frozenset({"write_file", "edit", "multi_edit", "apply_patch"})
"""The tools after which language servers are asked."""


_EVERYTHING = b"*"


def create_environment(settings: Settings, cwd: str) -> tuple[LocalEnv, str]:
    """The environment of a run. Blocking; starts a program for a moment where a sandbox is asked for.

    Args:
        settings: Which sandbox, if any, and what programs may use.
        cwd: The project folder.

    Returns:
        The environment, and what a sandbox holds and what it does not, for people.

    Raises:
        ConfigError: If a sandbox is asked for and none works here.
    """
    asked, limits, home = settings.config.sandbox, settings.config.execution, settings.home
    options: dict[str, Any] = {"max_processes": limits.max_processes, "reachable": limits.reachable}
    if asked.layer == "none":
        # The command has said already where its folder was deleted, and answers all the same.
        return LocalEnv(cwd, must_exist=False, **options), ""
    hidden = IgnoredPaths(cwd)
    env = sandbox.SandboxEnv(
        cwd,
        provider=sandbox.find_backend(None if asked.layer == "auto" else asked.layer),
        network=asked.network,
        writable=_paths(asked.writable, cwd),
        readable=[*([] if home is None else [str(home.skills), str(home.context)]), *_paths(asked.readable, cwd)],
        hidden=lambda: (
            *hidden(),
            *_paths(asked.hidden, cwd),
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
    """Paths of the settings, from the project folder on."""
    return [os.path.join(cwd, os.path.expanduser(name)) for name in names]


def with_language_servers(tools: Sequence[Tool], settings: Settings) -> list[Tool]:
    """The tools; those that change files also tell what the language servers of the settings say of the change."""
    wanted = {name: server for name, server in settings.config.language_servers.items() if server.enabled}
    if not wanted:
        return list(tools)
    servers = [
        diagnostics.LanguageServerConfig(
            command=server.command,
            languages=server.languages,
            name=name,
            options=server.options,
            settings=server.settings,
        )
        for name, server in sorted(wanted.items())
    ]
    return [diagnostics.with_diagnostics(t, servers) if t.name in EDITING_TOOLS else t for t in tools]


class IgnoredPaths:
    """Gives what the ignore files of a project leave out, so that a sandbox hides it from commands too.

    Args:
        root: The project folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: tuple[str, ...] = ()
        self._looked = float("-inf")

    def __call__(self) -> tuple[str, ...]:
        """The paths. Blocking; a walk of the project, at most every `FRESH_SECONDS`."""
        if time.monotonic() - self._looked > CACHE_SECONDS:
            self._found = tuple(self._find())
            self._looked = time.monotonic()
        return self._found

    def _find(self) -> Iterator[str]:
        parts = tuple(self._root.strip("/").split("/"))
        above: list[tuple[int, Any]] = []
        for depth in range(len(parts)):
            above = self._with_ignore_file(above, "/" + "/".join(parts[:depth]), depth)
        yield from self._below(parts, above)

    def _below(self, parts: tuple[str, ...], above: list[tuple[int, Any]]) -> Iterator[str]:
        folder = "/" + "/".join(parts)
        files = self._with_ignore_file(above, folder, len(parts))
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
                yield from self._below(inner, files)

    def _with_ignore_file(self, above: list[tuple[int, Any]], folder: str, depth: int) -> list[tuple[int, Any]]:
        try:
            with open(os.path.join(folder, IGNORE_FILE_NAME), "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return above
        except OSError:  # it is there, and what it says is not known
            data = _EVERYTHING
        rules = parse_rules(data)
        return above if rules is None else [*above, (depth, rules)]


def _is_ignored(parts: tuple[str, ...], files: list[tuple[int, Any]], is_folder: bool) -> bool:
    for depth, rules in reversed(files):
        said = match_rules(rules, parts[depth:], is_folder=is_folder)
        if said is not None:
            return said
    return False


def tool_services(home: UserPaths | None) -> dict[str, Any]:
    """For ``Agent(extra=...)``: lists of todos in the user's folder, by session."""
    return {} if home is None else {TODO_STORE_KEY: EnvTodoStore(_PrivateFiles(home.root, must_exist=False))}


class _PrivateFiles(LocalEnv):
    """The user's folder: what is written there only its owner may read. Made with the first that is."""

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        target = Path(await self.realpath(path))

        def write() -> None:
            if parents:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text_atomically(target, data.decode())

        await asyncio.to_thread(write)


def enable_background_wakeups(agent: CoreAgent) -> None:
    """Let a command that ends in the background become a message to the agent."""
    agent.extra = {**agent.extra, ON_COMPLETION_KEY: agent.follow_up}
