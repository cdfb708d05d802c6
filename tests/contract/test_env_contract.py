"""The common behavior of execution environments; users run the same tests on theirs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import EditorEnv, ExecutionEnv, LocalEnv, MemoryEnv
from mainspring.env.container import ContainerEnv
from mainspring.env.sandbox import SandboxEnv
from mainspring.testing.contracts import ExecutionEnvContract
from tests.helpers.containers import ENGINES, IMAGE
from tests.helpers.sandboxes import layer

pytestmark = [pytest.mark.usefixtures("no_blocking"), pytest.mark.covers("EXE-01", "TST-04")]

Fixture = Callable[[str], Any]


def local(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return LocalEnv(folder, home=str(folder / "home"))


def memory(folder: Path, fixture: Fixture) -> ExecutionEnv:
    answers = {"printf hello": "hello", "printf '%s' a b": "ab"}
    return MemoryEnv(cwd=str(folder), home=str(folder / "home"), run=answers)


class QuietEditor:
    """An editor without open files."""

    async def read(self, path: str) -> str | None:
        return None

    async def write(self, path: str, text: str) -> bool:
        return False


def editor(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return EditorEnv(LocalEnv(folder, home=str(folder / "home")), QuietEditor())


def bubblewrap(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return SandboxEnv(folder, provider=layer("bubblewrap"), home=str(folder / "home"))


def landlock(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return SandboxEnv(folder, provider=layer("landlock"), home=str(folder / "home"))


def docker(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return ContainerEnv("any", folder, engine=fixture("fake_docker"), home=str(folder / "home"))


def podman(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return ContainerEnv(IMAGE, folder, engine=fixture("podman"), home=str(folder / "home"))


ENVIRONMENTS: list[Callable[[Path, Fixture], ExecutionEnv]] = [local, memory, editor, bubblewrap, landlock, docker]
if "podman" in ENGINES:
    ENVIRONMENTS.append(podman)


@pytest.mark.parametrize("make", ENVIRONMENTS, ids=lambda make: make.__name__, scope="class")
class TestEnvironments(ExecutionEnvContract):
    @pytest.fixture(autouse=True)
    def keep_parameters(self, request: pytest.FixtureRequest, make: Callable[[Path, Fixture], ExecutionEnv]) -> None:
        self.make = make
        self.fixture = request.getfixturevalue

    def create_env(self, folder: Path) -> ExecutionEnv:
        return self.make(folder, self.fixture)
