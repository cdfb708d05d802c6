"""Where the tools of the command work: on this machine as it is, or in a sandbox on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from mainspring.env import LocalEnv
from mainspring.env.ignore import VCS
from mainspring.env.sandbox import SandboxEnv, find_provider
from mainspring.policies.permissions.ignored import MAX_BYTES, NAME, rules_in, verdict
from mainspring.runtime.home import Home
from mainspring.runtime.options import Confinement

FRESH_SECONDS = 5.0
"""How long a list of ignored files is good. What appears meanwhile is not hidden from the commands of that time."""

_EVERYTHING = b"*"


def environment(asked: Confinement, cwd: str, home: Home | None) -> tuple[LocalEnv, str]:
    """The environment of a run. Blocking; starts a program for a moment where a sandbox is asked for.

    Args:
        asked: Which sandbox, if any.
        cwd: The project folder.
        home: The user's folder: skills and large outputs stay readable, keys do not.

    Returns:
        The environment, and what a sandbox holds and what it does not, for people.

    Raises:
        ConfigError: If a sandbox is asked for and none works here.
    """
    if asked.layer is None:
        return LocalEnv(cwd), ""
    hidden = IgnoredPaths(cwd)
    env = SandboxEnv(
        cwd,
        provider=find_provider(None if asked.layer == "auto" else asked.layer),
        network=asked.network,
        readable=[] if home is None else [str(home.skills), str(home.context)],
        hidden=lambda: (*hidden(), *([] if home is None else [str(home.settings)])),
    )
    return env, env.state().text


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
        if time.monotonic() - self._looked > FRESH_SECONDS:
            self._found = tuple(self._find())
            self._looked = time.monotonic()
        return self._found

    def _find(self) -> Iterator[str]:
        parts = tuple(self._root.strip("/").split("/"))
        above: list[tuple[int, Any]] = []
        for depth in range(len(parts)):
            above = self._joined(above, "/" + "/".join(parts[:depth]), depth)
        yield from self._below(parts, above)

    def _below(self, parts: tuple[str, ...], above: list[tuple[int, Any]]) -> Iterator[str]:
        folder = "/" + "/".join(parts)
        files = self._joined(above, folder, len(parts))
        try:
            with os.scandir(folder) as entries:
                found = [(entry.path, entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            return
        for path, name, is_folder in found:
            inner = (*parts, name)
            if _is_left_out(inner, files, is_folder):
                yield path
            elif is_folder and name not in VCS:
                yield from self._below(inner, files)

    def _joined(self, above: list[tuple[int, Any]], folder: str, depth: int) -> list[tuple[int, Any]]:
        try:
            with open(os.path.join(folder, NAME), "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return above
        except OSError:  # it is there, and what it says is not known
            data = _EVERYTHING
        rules = rules_in(data)
        return above if rules is None else [*above, (depth, rules)]


def _is_left_out(parts: tuple[str, ...], files: list[tuple[int, Any]], is_folder: bool) -> bool:
    for depth, rules in reversed(files):
        said = verdict(rules, parts[depth:], is_folder=is_folder)
        if said is not None:
            return said
    return False
