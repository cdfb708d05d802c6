"""The parts that `docs/recipes.md` replaces pass the contract tests of their protocols."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import ExecutionEnv, LocalEnv
from mainspring.models import ModelProvider, Transport, default_transport
from mainspring.testing.contracts import (
    AsyncSessionStoreContract,
    ExecutionEnvContract,
    ModelProviderContract,
    TransportContract,
)
from scripts.check_examples import find_blocks
from tests.docs.test_examples import REPOSITORY, run_blocks


@cache
def page() -> dict[str, Any]:
    """Run the page and return its names."""
    path = REPOSITORY / "docs" / "recipes.md"
    return run_blocks(path, find_blocks(path.read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page()


class TestProvider(ModelProviderContract):
    def create_model(self, folder: Path) -> ModelProvider:
        return page()["LineModel"]("small", page()["url"])


class TestSessionStore(AsyncSessionStoreContract):
    async def create_store(self, folder: Path) -> Any:
        return page()["RedisStore"](page()["RedisDouble"]())


class TestEnvironment(ExecutionEnvContract):
    def create_env(self, folder: Path) -> ExecutionEnv:
        return page()["FrozenFolderEnv"](LocalEnv(folder, home=os.fspath(folder / "home")), "vendor")


class TestTransport(TransportContract):
    def create_transport(self, folder: Path) -> Transport:
        return page()["GatewayTransport"](default_transport(), "travel")
