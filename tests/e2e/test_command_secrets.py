"""Each secret, through each source of the real command, is in no file and in no output of another command."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call, error
from tests.secret_forms import FORMS
from tests.secret_samples import SAMPLES, Sample

__all__ = ["command"]

pytestmark = pytest.mark.slow

VALUE = "correct-horse-42"
"""The value of a variable and of a setting that looks like no token."""

PLANTED = [s for s in (*SAMPLES[::5], *FORMS[::7]) if not {"\n", "\x1b", "\\"} & set(s.text)]
TEXT = "\n".join(sample.text for sample in PLANTED)
SECRETS = [*PLANTED, Sample("environment", VALUE, VALUE)]

SINKS = (
    "sessions --all", "sessions tree", "export --format html -o -", "export --format markdown -o -",
    "export --format jsonl -o -", "rewind --list", "cost --by session", "config show", "mcp list --no-connect",
    "mcp logs broken", "check --json",
)  # fmt: skip


def read_files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_bytes().decode("utf-8", "replace")
        for file in folder.rglob("*")
        if file.is_file() and file.name != "settings.json"
    }


def find_leaks(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sinks that contain a secret, with the forms of those secrets."""
    found = {sink: [s.name for s in SECRETS if s.secret in text] for sink, text in texts.items()}
    return {sink: names for sink, names in found.items() if names}


def broken_servers() -> dict[str, Any]:
    """Return servers that cannot start, with secrets in all their fields."""
    servers: dict[str, Any] = {"broken": {"command": "sh", "args": ["-c", "cat notes.txt >&2; exit 3"]}}
    for number, sample in enumerate(PLANTED[::6]):
        escaped = quote(sample.secret, safe="")
        servers[f"flag{number}"] = {"command": "missing", "args": ["--token", sample.secret, sample.text]}
        servers[f"env{number}"] = {"command": "missing", "env": {"ANY": sample.secret}}
        servers[f"url{number}"] = {
            "url": f"http://u:{escaped}@127.0.0.1:9/mcp?token={escaped}",
            "headers": {"X-Any": sample.secret},
        }
    return servers


def test_no_file_or_command_output_contains_a_secret(command: Command) -> None:
    (command.folder / "notes.txt").write_text(TEXT)
    command.variables["DB_PASSWORD"] = VALUE
    rules = ("--allow", "read_file", "--allow", "shell", "-v")
    runs: dict[str, tuple[str, list[Any]]] = {
        "prompt": (TEXT, ["done"]),
        "attached file": ("see @notes.txt", ["done"]),
        "file": ("read", [call("read_file", path="notes.txt"), "done"]),
        "shell": ("run", [call("shell", command="cat notes.txt; echo $DB_PASSWORD"), "done"]),
        "failed tool": ("run", [call("shell", command=f"cat notes.txt >&2; exit '{PLANTED[0].secret}'"), "done"]),
        "answer": (f"say {VALUE}", [f"{TEXT}\nand {VALUE}"]),
        "provider error": ("go", [error(400, f"bad request: {TEXT} {VALUE}", **{"x_request_id": PLANTED[0].secret})]),
    }
    done = None
    for source, (prompt, script) in runs.items():
        if source == "provider error":  # the last one: every run tries to start all servers
            command.settings({"mcp": {"servers": broken_servers()}})
        command.server.script[:] = script
        done = command.run("-p", prompt, *rules, *(("--continue",) if source != "prompt" else ()))
        assert (done.code == 0) == (source != "provider error"), done.err
    assert done is not None
    texts = {"stderr of a refused request": done.err}  # the stderr of the other runs is the conversation itself
    texts |= {line: (done := command.run(*line.split())).out + done.err for line in SINKS}
    texts |= read_files(command.home)

    assert find_leaks(texts) == {}
    assert sum("[redacted]" in text for text in texts.values()) > 6
    assert len([json.loads(line) for line in texts["export --format jsonl -o -"].splitlines()]) > 10
