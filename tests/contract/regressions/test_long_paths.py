"""Paths that are very long or very deep are answered quickly and with the right reason, by every tool and by the permissions."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent
from mainspring.app.workspace.instructions import InstructionReader
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.saved_rules import GrantStore
from mainspring.app.workspace.settings import InstructionSettings, load_settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.env import LocalEnv
from mainspring.permissions import Permissions
from mainspring.sessions.jsonl_store import JsonlStore
from mainspring.shell_analysis.references import find_hosts
from mainspring.skills.discovery import scan_folder
from mainspring.skills.state import SkillStateFile
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.anyio

PATHS = {
    "one name": "a" * 5000,
    "many names": "/".join(["abcdefghi"] * 500),
    "1,000 levels": "/".join(["d"] * 1000) + "/f.txt",
    "3,000 levels": "/".join(["d"] * 3000),
    "absolute": "/" + "/".join(["d"] * 1000),
    "50,000 levels": "x/" * 50_000,
    "up": "../" * 1000 + "etc/passwd",
    "up and down": "d/../" * 1000 + "a.txt",
    "same folder": "./" * 2500 + "a.txt",
    "slashes": "/" * 5000 + "etc/passwd",
    "links": "self/" * 1000 + "a.txt",
    "circular links": "loop/" * 500 + "x",
    "home of another user": "~nobody-here/" + "a" * 5000,
}
TOOLS: dict[str, Any] = {
    "read_file": lambda path: {"path": path},
    "write_file": lambda path: {"path": path, "content": "x"},
    "edit": lambda path: {"path": path, "old_string": "hi", "new_string": "ho"},
    "grep": lambda path: {"pattern": "hi", "path": path},
    "glob": lambda path: {"pattern": "*.none", "path": path},
    "list_files": lambda path: {"path": path},
}
LINES = (
    "cat {}",
    "echo hi > {}",
    "cd {} && ls",
    "git -C {} status",
    "rm -rf {}",
    "ls {}/*",
    "find {} -name x",
    "cp {} {}2",
)
SECONDS = 9.0
"""Of the processor: far above the 50 ms that it takes, and far below the 38 s that one such path took."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a project. Python cannot remove the folders that the tests create in it."""
    (tmp_path / "a.txt").write_text("hi\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agentignore").write_text("secret\n")
    os.symlink("loop", tmp_path / "loop")
    os.symlink(".", tmp_path / "self")
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


async def call(
    folder: Path, tool: str, arguments: dict[str, Any], permissions: Permissions | None
) -> tuple[str, float]:
    model = ScriptedModel(Reply(calls=[ScriptedCall(tool, arguments)]), "done")
    env = LocalEnv(folder)
    agent = Agent(model, tools=builtin_tools(), execution=env, permissions=permissions)
    start = time.process_time()
    await agent.run("go")
    seconds = time.process_time() - start
    await env.aclose()
    [result] = [r for m in agent.messages for r in getattr(m, "tool_results", ())]
    return result.text, seconds


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("guarded", [False, True])
async def test_long_path_is_answered_quickly_by_file_tools(tool: str, name: str, guarded: bool, folder: Path) -> None:
    permissions = Permissions(allow=["write_file", "edit"]) if guarded else None
    text, seconds = await call(folder, tool, TOOLS[tool](PATHS[name]), permissions)
    assert seconds < SECONDS
    assert "recursion" not in text.lower()
    if guarded:
        reasons = ("levels or 4096 characters", "name too long", "outside the project")
        assert any(reason in text.lower() for reason in reasons) or "Cannot" in text


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("line", LINES)
async def test_long_path_in_a_command_asks_quickly(line: str, name: str, folder: Path) -> None:
    text, seconds = await call(folder, "shell", {"command": line.replace("{}", PATHS[name])}, Permissions())
    assert seconds < SECONDS
    assert text.startswith("Permission denied")


async def test_reason_names_the_limits(folder: Path) -> None:
    text, _ = await call(folder, "shell", {"command": f"cat {PATHS['1,000 levels']}"}, Permissions())
    assert "it has more than 200 levels or 4096 characters" in text
    text, _ = await call(folder, "read_file", {"path": PATHS["1,000 levels"]}, Permissions())
    assert "it has more than 200 levels or 4096 characters" in text
    text, _ = await call(folder, "read_file", {"path": PATHS["3,000 levels"]}, None)
    assert "too long" in text.lower()


async def test_long_word_is_searched_for_hosts_in_linear_time() -> None:
    start = time.process_time()
    assert list(find_hosts("a" * 200_000 + " https://example.com/x")) == ["example.com"]
    assert time.process_time() - start < SECONDS


async def test_inaccessible_optional_files_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root can access everything, so the system call itself is replaced."""
    for name in ("skills", "agents", "extensions"):
        (tmp_path / ".agent" / name).mkdir(parents=True)
    real = os.stat

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike) and "/.agent/" in os.fspath(path):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert not scan_folder(tmp_path / ".agent" / "skills").found
    reader = InstructionReader(InstructionSettings(files=(".agent/AGENTS.md",)), str(tmp_path), None, trusted=True)
    assert (await reader.read_initial()).files == ()


async def test_import_with_a_long_name_is_plain_text(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(f"Rules\n@{'a' * 5000}\n@{'d/' * 1000}x.md\n")
    (file,) = (await InstructionReader(InstructionSettings(), str(tmp_path), None, trusted=True).read_initial()).files
    assert "Rules" in file.text


@pytest.fixture
def closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an ``.agent`` folder that this user cannot open. Root can open everything, so the system calls are replaced."""
    folder = tmp_path / ".agent"
    (folder / "skills").mkdir(parents=True)
    (folder / "settings.json").write_text("{}")
    stat, access, scan = os.stat, os.access, os.scandir

    def refuse(call: Any) -> Any:
        def called(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(f"{folder}/"):
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return call(path, *arguments, **options)

        return called

    monkeypatch.setattr(os, "stat", refuse(stat))
    monkeypatch.setattr(os, "lstat", refuse(os.lstat))
    monkeypatch.setattr(os, "scandir", refuse(scan))
    monkeypatch.setattr(
        os, "access", lambda path, *a, **k: not os.fspath(path).startswith(str(folder)) and access(path, *a, **k)
    )
    return folder


def test_inaccessible_project_folder_is_reported(closed_folder: Path) -> None:
    assert load_settings(str(closed_folder.parent)).warnings == (
        f"Cannot read {closed_folder} (Permission denied). Default settings are used.",
    )


def test_settings_below_an_inaccessible_folder_are_reported(
    closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = closed_folder / "home" / "name"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("MAINSPRING_HOME", raising=False)

    assert load_settings(str(closed_folder.parent / "project")).warnings == (
        f"Cannot read {home / '.agent'} (Permission denied). Default settings are used.",
    )


def test_inaccessible_user_folder_trusts_nothing_and_grants_nothing(closed_folder: Path) -> None:
    home = UserPaths(closed_folder)
    assert not TrustStore(home).list()
    assert not GrantStore(home).list()
    assert not SkillStateFile(closed_folder / "skills").entries()
    assert not JsonlStore(closed_folder).exists("some-id")
