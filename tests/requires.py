"""What a test needs of the machine. The one place where tests are skipped, so that what is left out anywhere can be seen."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest


def requires(met: bool, what: str) -> pytest.MarkDecorator:
    """A mark for tests that need something of the machine."""
    return pytest.mark.skipif(not met, reason=f"needs {what}")


def skip_missing(what: str) -> NoReturn:
    """Skip the running test: the machine has not what it needs."""
    pytest.skip(f"needs {what}")


def require_module(name: str, what: str) -> None:
    """Skip the running test unless a module can be imported."""
    if importlib.util.find_spec(name) is None:
        skip_missing(what)


on_posix = requires(os.name == "posix", "a POSIX system")
on_linux = requires(sys.platform == "linux", "Linux and its /proc")
on_tmux = requires(shutil.which("tmux") is not None, "tmux, a terminal that tests can drive")


def postgres_programs() -> Path | None:
    """The folder with the programs of a PostgreSQL server, where one is installed."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(found).resolve().parent] if found else []
    requested = ("initdb", "postgres", "createdb", "pg_isready")
    return next((f for f in folders if all((f / program).exists() for program in requested)), None)
