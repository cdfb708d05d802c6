"""Run the real command in its own process, folder, and home, against a server of the test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.servers.chat import ChatServer

KEY = "sk-test-0123456789abcdefghij"


@dataclass
class CommandResult:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines of stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The last JSON line of stdout."""
        return self.lines[-1]


@dataclass
class Command:
    """The command, with a working folder and a server that responds."""

    server: ChatServer
    folder: Path
    home: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the process."""
        given = {"OPENAI_BASE_URL": self.server.base_url, "OPENAI_API_KEY": KEY, **self.variables}
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "COVERAGE_PROCESS_START": "", **given}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start the command; stdin is empty unless given."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            [sys.executable, "-m", "mainspring", *arguments],
            cwd=self.folder,
            env=self.environment,
            encoding="utf-8",
            **options,
        )

    def run(self, *arguments: str, piped: str | None = None, **options: Any) -> CommandResult:
        """Run the command and wait for its end."""
        if piped is not None:
            options["stdin"] = subprocess.PIPE
        with self.start(*arguments, **options) as process:
            return finish(process, piped)

    def shell(self, line: str) -> CommandResult:
        """Run a shell line in which ``$MAINSPRING`` is the command."""
        environment = {**self.environment, "MAINSPRING": f"{sys.executable} -m mainspring"}
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def settings(self, value: object) -> None:
        """Write the user's settings."""
        file = self.home / ".agent" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def finish(process: "subprocess.Popen[str]", piped: str | None = None) -> CommandResult:
    """Wait for the end of a process."""
    try:
        out, err = process.communicate(piped, timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return CommandResult(process.returncode, out, err)


@pytest.fixture
def command(tmp_path: Path, home: Path) -> Iterator[Command]:
    """The command in an empty folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    with ChatServer() as server:
        yield Command(server, folder, home)
