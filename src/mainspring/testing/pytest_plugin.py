"""Pytest fixtures; opt in with ``pytest_plugins = ["mainspring.testing.pytest_plugin"]`` in a conftest.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.testing.tape import Tape, TapeMode


@pytest.fixture
def memory_env() -> MemoryEnv:
    """An empty in-memory environment: no file or process of the machine is used."""
    return MemoryEnv({})


@pytest.fixture
def scripted_agent(memory_env: MemoryEnv) -> Callable[..., CoreAgent]:
    """Create agents whose model follows a script: ``scripted_agent("Hello", tools=[...])``; the model is ``agent.model``."""

    def make(*script: Any, **options: Any) -> CoreAgent:
        return CoreAgent(ScriptedModel(*script), env=options.pop("env", memory_env), **options)

    return make


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tapes``."""
    parser.getgroup("mainspring").addoption(
        "--tapes",
        choices=("replay", "once", "record"),
        default="replay",
        help="Tapes of real runs: replay them (default), record missing ones (once), or record all again (record). Recording calls the "
        "real model and runs the real tools",
    )


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """The tape of this test: ``tapes/<file>/<test>.jsonl`` next to its file. Pass ``tape.model(...)`` and ``tape.steps`` to an agent.

    The tape is replayed; with ``--tapes=once`` or ``--tapes=record`` the run is a real one and is recorded. A test that fails does
    not change the tape.
    """
    file = request.path
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    mode: TapeMode = request.config.getoption("--tapes") or "replay"
    with Tape(file.parent / "tapes" / file.stem / f"{name}.jsonl", mode) as tape_file:
        failed = request.session.testsfailed
        yield tape_file
        if request.session.testsfailed > failed:
            tape_file.discard()
