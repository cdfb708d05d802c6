"""Pytest fixtures; opt in with ``pytest_plugins = ["mainspring.testing.plugin"]`` in a conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.models.scripted import ScriptedModel


@pytest.fixture
def memory_env() -> MemoryEnv:
    """An empty environment in memory: no file or process of the machine is touched."""
    return MemoryEnv({})


@pytest.fixture
def scripted_agent(memory_env: MemoryEnv) -> Callable[..., CoreAgent]:
    """Makes agents whose model follows a script: ``scripted_agent("Hello", tools=[...])``; its model is ``agent.model``."""

    def make(*script: Any, **options: Any) -> CoreAgent:
        return CoreAgent(ScriptedModel(*script), env=options.pop("env", memory_env), **options)

    return make
