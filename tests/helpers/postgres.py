"""A PostgreSQL server for tests: started by the first test that needs it, in a temporary folder, on a socket."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requires import postgres_programs, skip_missing


class Postgres:
    """A running server.

    Attributes:
        folder: The folder of its data and its socket.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._count = 0
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root.
            user = _find_user()
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D", self._data)
        with (folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [programs / "postgres", "-D", self._data, "-k", folder, "-h", "", "-F", "-N", "300"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                **self._as,
            )
        self._run("pg_isready", "-q", "-h", folder, "-t", "15", tries=200)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The process ID of the server."""
        return self._server.pid

    def _run(self, program: str, *words: str | Path, tries: int = 1) -> None:
        for remaining in reversed(range(tries)):
            done = subprocess.run(
                [self._programs / program, *words], capture_output=True, text=True, cwd=self.folder, **self._as
            )
            if not done.returncode:
                return
            if not remaining:
                raise AssertionError(f"{program}: {done.stdout}{done.stderr}")
            subprocess.run(["sleep", "0.05"], check=True)

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def database(self, template: str = "template0") -> str:
        """Create a database and return its URL."""
        self._count += 1
        name = f"test{self._count}"
        self._run("createdb", "-h", self.folder, "-U", "postgres", "-T", template, name)
        return self.url(name)

    def close(self) -> None:
        """Stop the server and wait for its end."""
        self._server.terminate()
        try:
            self._server.wait(120)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait(120)


def _find_user() -> pwd.struct_passwd:
    """Return the user of the server: some systems have the programs without the user of their package."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL server; skip the test if none is installed."""
    programs = postgres_programs()
    if programs is None:
        skip_missing("PostgreSQL")
    # Short, because the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Postgres(folder, programs)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
