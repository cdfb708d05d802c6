"""Environments that wrap others: every method is overridden or forwarded because of a decision, not because it was forgotten."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from mainspring.env import ConfinedEnv, EditorEnv, ExecutionEnv, LocalEnv
from mainspring.env.beneath import RealPath
from mainspring.env.protocol import BatchReader, FolderInspector, PathNaming
from mainspring.env.sandbox import SandboxEnv
from mainspring.env.wrapper import EnvWrapper
from mainspring.permissions.git_history import Runs
from mainspring.permissions.git_repository import ReadsFolders, _StartsLocally as StartsLocally
from mainspring.permissions.line_files import ListsDirectories
from mainspring.permissions.paths import ReadsFiles
from mainspring.permissions.programs import LocatesPrograms, SearchesPrograms

Decision = Literal["own", "inner", "none"]
"""The class defines the method itself, uses that of the wrapped environment (`SandboxEnv`: of `LocalEnv`), or does not have it."""

DECISIONS: Mapping[str, tuple[Decision, Decision, Decision]] = {
    # member: (ConfinedEnv, EditorEnv, SandboxEnv)
    # The file methods of `SandboxEnv` are those of `LocalEnv`, in threads and with files that it replaces.
    "cwd": ("inner", "inner", "inner"),
    "jobs": ("inner", "inner", "inner"),
    "realpath": ("inner", "inner", "inner"),
    "stat": ("own", "own", "inner"),
    "read_bytes": ("own", "own", "inner"),
    "read_files": ("own", "own", "inner"),
    "write_bytes": ("own", "own", "inner"),
    "list_dir": ("own", "inner", "inner"),
    "walk": ("own", "inner", "inner"),
    "is_ignored": ("own", "inner", "inner"),
    "remove": ("own", "own", "inner"),
    "rename": ("own", "own", "inner"),
    "inspect_folder": ("own", "inner", "inner"),
    "find_program": ("inner", "inner", "inner"),
    "run": ("own", "inner", "own"),
    "connect": ("own", "inner", "own"),
    "fetch": ("inner", "inner", "own"),
    "lock": ("inner", "inner", "inner"),
    "aclose": ("inner", "inner", "own"),
    # Methods that only some environments have.
    "display_name": ("none", "own", "own"),
    "kill_all": ("none", "own", "inner"),
    "spool": ("none", "none", "inner"),
    "variable_overrides": ("none", "none", "inner"),
}


def public_members(*classes: type) -> set[str]:
    """Return the names of the public methods and properties that the classes define themselves."""
    return {n for c in classes for n, v in vars(c).items() if n[0] != "_" and (callable(v) or isinstance(v, property))}


OPTIONAL: Mapping[str, type] = {"inspect_folder": FolderInspector, "read_files": BatchReader}
PROTOCOL = sorted(public_members(ExecutionEnv, *OPTIONAL.values()))
METHODS = [name for name in PROTOCOL if name not in ("cwd", "jobs")]


def find_decision(wrapper: type, name: str) -> Decision:
    """Return what a class does with a method of the interface."""
    if name in vars(wrapper):
        return "own"
    is_attribute = issubclass(wrapper, LocalEnv) and name in ("cwd", "jobs")
    return "inner" if hasattr(wrapper, name) or is_attribute else "none"


def test_every_method_has_a_decision() -> None:
    names = public_members(ExecutionEnv, *OPTIONAL.values(), PathNaming, LocalEnv)
    assert names == set(DECISIONS), "Decide for each wrapper whether it must check or change this method."


@pytest.mark.parametrize("name", DECISIONS)
def test_wrappers_override_the_methods_that_they_change(name: str) -> None:
    found = tuple(find_decision(wrapper, name) for wrapper in (ConfinedEnv, EditorEnv, SandboxEnv))
    assert found == DECISIONS[name]


def test_base_forwards_the_interface_and_nothing_else() -> None:
    assert public_members(EnvWrapper) == set(PROTOCOL)


class RecordingEnv:
    """An environment that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, object]]] = []
        self.path_filter = None
        self.scratch: dict[str, Any] = {}
        self.cwd, self.jobs = "/project", object()

    def lock(self, path: str) -> object:
        return self._record("lock", {"path": path})

    def __getattr__(self, name: str) -> object:
        async def method(*given: object, **options: object) -> object:
            names = [n for n in parameters(name) if n not in options]
            return self._record(name, {**dict(zip(names, given, strict=False)), **options})

        if name not in METHODS or name in OPTIONAL:
            raise AttributeError(name)
        return method

    def _record(self, name: str, given: dict[str, object]) -> object:
        self.calls.append((name, given))
        return f"result of {name}"


class RecordingEnvWithFiles(RecordingEnv):
    """A recording environment whose files can be used directly."""

    async def inspect_folder(self, root: object, work: object) -> object:
        return self._record("inspect_folder", {"root": root, "work": work})

    async def read_files(self, paths: object, **options: object) -> object:
        return self._record("read_files", {"paths": paths, **options})


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method of the interface."""
    method = getattr(OPTIONAL.get(name, ExecutionEnv), name)
    return dict(list(inspect.signature(method).parameters.items())[1:])


@pytest.mark.parametrize("name", METHODS)
async def test_base_forwards_every_argument_and_the_result(name: str) -> None:
    inner = RecordingEnvWithFiles()
    given = {n: f"value of {n}" for n in parameters(name)}
    positional = [given[n] for n, p in parameters(name).items() if p.kind is not p.KEYWORD_ONLY]
    options = {n: given[n] for n, p in parameters(name).items() if p.kind is p.KEYWORD_ONLY}
    result = getattr(EnvWrapper(cast("ExecutionEnv", inner)), name)(*positional, **options)
    if inspect.isawaitable(result):
        result = await result
    assert inner.calls == [(name, given)]
    has_result = inspect.signature(getattr(EnvWrapper, name)).return_annotation != "None"
    assert result == (f"result of {name}" if has_result else None)


def test_base_shares_the_state_of_the_wrapped_environment() -> None:
    inner = RecordingEnv()
    env = EnvWrapper(cast("ExecutionEnv", inner))
    assert (env.cwd, env.jobs) == (inner.cwd, inner.jobs)
    assert env.scratch is inner.scratch


async def test_files_of_an_environment_without_them_are_not_used() -> None:
    assert await EnvWrapper(cast("ExecutionEnv", RecordingEnv())).inspect_folder(RealPath("/project"), id) is None


def test_optional_interfaces_of_the_wrappers(tmp_path: Path) -> None:
    class Buffers:
        async def read(self, path: str) -> str | None:
            return None

        async def write(self, path: str, text: str) -> bool:
            return False

    optional = (
        *(BatchReader, FolderInspector, PathNaming, Runs, ReadsFiles, ReadsFolders, ListsDirectories),
        *(SearchesPrograms, LocatesPrograms, StartsLocally),
    )
    env = LocalEnv(tmp_path)
    always = {BatchReader, FolderInspector, Runs, ReadsFiles, ReadsFolders, ListsDirectories}
    assert {p for p in optional if isinstance(ConfinedEnv(env), p)} == always
    editor = EditorEnv(env, Buffers())
    assert {p for p in optional if isinstance(editor, p)} == {*always, PathNaming, SearchesPrograms}
    assert {p for p in optional if isinstance(env, p)} == {*always, SearchesPrograms, StartsLocally}
    assert issubclass(SandboxEnv, LocalEnv)
    assert issubclass(SandboxEnv, PathNaming)
    assert not issubclass(SandboxEnv, LocatesPrograms)
