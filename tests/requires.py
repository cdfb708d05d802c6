"""What tests need from the machine. This is the only place where tests are skipped, so that skips are easy to find."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest


def requires(met: bool, what: str) -> pytest.MarkDecorator:
    """Return a mark for tests that need something from the machine."""
    return pytest.mark.skipif(not met, reason=f"needs {what}")


def skip_missing(what: str) -> NoReturn:
    """Skip the running test because the machine lacks something."""
    pytest.skip(f"needs {what}")


def require_module(name: str, what: str) -> None:
    """Skip the running test unless a module can be imported."""
    if importlib.util.find_spec(name) is None:
        skip_missing(what)


on_posix = requires(os.name == "posix", "a POSIX system")
on_linux = requires(sys.platform == "linux", "Linux and its /proc")
on_tmux = requires(shutil.which("tmux") is not None, "tmux, a terminal that tests can drive")


def postgres_programs() -> Path | None:
    """Return the folder with the PostgreSQL server programs, if installed."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(found).resolve().parent] if found else []
    requested = ("initdb", "postgres", "createdb", "pg_isready")
    return next((f for f in folders if all((f / program).exists() for program in requested)), None)
