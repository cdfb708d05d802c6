"""What tests need from the machine. This is the only place where tests are skipped, so that skips are easy to find."""

import importlib.util
import os
import re
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable
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


durable_on_sqlite = requires(
    sys.version_info < (3, 12) or sqlite3.sqlite_version_info >= (3, 42),
    "SQLite 3.42 for durable runs with this Python",
)
"""A newer SQLite from a wheel would replace the module of the whole process, unlike what users have: skip the tests instead."""

HOW_TO_PROVIDE = {
    "../shared/material": "recorded traffic and public test suites: put the folder shared/material next to the checkout",
    "TEST_PODMAN=1": "apt-get install podman busybox-static, then TEST_PODMAN=1 make test",
    "a sandbox": "apt-get install bubblewrap",
    "bubblewrap": "apt-get install bubblewrap",
    "Chromium": "apt-get install chromium",
    "ripgrep": "apt-get install ripgrep, or pip install ripgrep",
    "tmux": "apt-get install tmux",
    "PostgreSQL": "apt-get install postgresql",
    "bash": "apt-get install bash",
    "dash": "apt-get install dash",
    "zsh": "apt-get install zsh",
    "fish": "apt-get install fish",
    "busybox": "apt-get install busybox-static",
    "openssl": "apt-get install openssl",
    "DBOS": "pip install -e '.[durable]'",
    "the extra `local`": "pip install -e '.[local]'",
    "npm": "apt-get install npm",
    "git": "apt-get install git, and run the tests as root",
    "uv": "pip install uv",
    "PyInstaller": "pip install pyinstaller",
    "pylsp": "pip install python-lsp-server",
    "SQLite 3.42": "a Python of uv or python.org, which contain a newer SQLite",
    "root": "run the tests as root",
    "the right to mount": "run the tests as root",
}
"""How to provide what a skipped test needs, by words of its reason; the first entry that occurs applies."""


def describe_skipped(reasons: Iterable[str]) -> list[str]:
    """Return how many tests did not run for each missing thing, and how to provide it."""
    counts = Counter(reason.removeprefix("Skipped: ").removeprefix("needs ") for reason in reasons)
    lines: list[str] = []
    for what, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        names = (name for name in HOW_TO_PROVIDE if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", what, re.IGNORECASE))
        how = HOW_TO_PROVIDE.get(next(names, ""), "")
        lines.append(
            f"{count} test{'' if count == 1 else 's'} need{'s' if count == 1 else ''} {what}{how and f' ({how})'}"
        )
    return lines
