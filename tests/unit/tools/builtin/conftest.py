"""Fixtures with a project folder on disk for tools."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.env import LocalEnv
from mainspring.tools import ToolContext


@pytest.fixture
def local_env(tmp_path: Path) -> LocalEnv:
    folder = tmp_path / "project"
    folder.mkdir()
    return LocalEnv(folder, home=str(tmp_path / "home"))


@pytest.fixture
def project(local_env: LocalEnv) -> Path:
    return Path(local_env.cwd)


@pytest.fixture
async def ctx(local_env: LocalEnv) -> AsyncIterator[ToolContext]:
    yield ToolContext(env=local_env)
    await local_env.aclose()


@pytest.fixture(autouse=True)
def _never_blocking(no_blocking: None) -> None:
    """Fail a test whose tool blocks the event loop."""
