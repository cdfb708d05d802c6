"""File tools while another process replaces allowed files and folders with links."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import LocalEnv, beneath
from mainspring.errors import PermissionDeniedError
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin.apply_patch import apply_patch
from mainspring.tools.builtin.edit import edit
from mainspring.tools.builtin.glob import glob
from mainspring.tools.builtin.grep import grep
from mainspring.tools.builtin.list_files import list_files
from mainspring.tools.builtin.read_file import read_file
from mainspring.tools.builtin.write_file import write_file
from tests.requires import on_linux, skip_missing

pytestmark = on_linux

_SWAP = """
import ctypes, sys
swap = ctypes.CDLL(None, use_errno=True).renameat2
print(swap(-100, b"notes.md", -100, b"link", 2), flush=True)
while True:
    swap(-100, b"notes.md", -100, b"link", 2)
    swap(-100, b"d", -100, b"folder-link", 2)
"""
"""Swaps with RENAME_EXCHANGE, so each name always exists: as a file, a folder, or an outside link."""

CANARY = "CANARY-outside"


class RacingProject:
    """A project with constantly changing paths, and files outside the project."""

    def __init__(self, env: LocalEnv, outside: Path) -> None:
        self.env = env
        self.project = Path(env.cwd)
        self.outside = outside
        (outside / "d").mkdir(parents=True)
        (self.project / "d").mkdir()
        for folder, text in ((outside, CANARY), (self.project, "inside")):
            (folder / "notes.md").write_text(f"{text}\nword\n")
        for name in ("f", "gone", "old", f"{CANARY}-name"):
            (outside / "d" / name).write_text(f"{CANARY}\nword\n")
        (self.project / "link").symlink_to(outside / "notes.md")
        (self.project / "folder-link").symlink_to(outside / "d")
        self.folder = os.open(self.project / "d", os.O_RDONLY)  # independent of the current name
        self.before = self.seen()

    def seen(self) -> dict[str, bytes]:
        """Return the files outside the project."""
        return {str(p): p.read_bytes() for p in sorted(self.outside.rglob("*")) if p.is_file()}

    def put(self, *names: str) -> None:
        """Create files in the folder, under its current name."""
        for name in names:
            created = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=self.folder)
            os.write(created, b"inside\nword\n")
            os.close(created)

    async def call(self, tool: Tool, arguments: dict[str, Any], *spelled: str) -> bool:
        """Call a tool with paths judged before the links existed; return True if it used an outside file."""
        ctx = ToolContext(env=self.env, paths={p: os.path.join(self.env.cwd, p) for p in spelled})
        try:
            result = await tool(ctx, **arguments)
            text = result.text
        except (OSError, PermissionDeniedError) as error:
            text = str(error)
        return CANARY in text or self.seen() != self.before


CALLS: dict[str, tuple[Tool, dict[str, Any], tuple[str, ...]]] = {
    "read": (read_file, {"path": "notes.md"}, ("notes.md",)),
    "read below": (read_file, {"path": "d/f"}, ("d/f",)),
    "edit": (edit, {"path": "notes.md", "old_string": "word", "new_string": "word"}, ("notes.md",)),
    "edit below": (edit, {"path": "d/f", "old_string": "word", "new_string": "changed"}, ("d/f",)),
    "write": (write_file, {"path": "notes.md", "content": "inside\nword\n"}, ("notes.md",)),
    "write below": (write_file, {"path": "d/f", "content": "new"}, ("d/f",)),
    "write a new folder": (write_file, {"path": "d/new/f", "content": "new"}, ("d/new/f",)),
    "grep": (grep, {"pattern": "CANARY|inside", "path": "."}, (".",)),
    "grep a file": (grep, {"pattern": "CANARY|inside", "path": "notes.md"}, ("notes.md",)),
    "grep a folder": (grep, {"pattern": ".", "path": "d", "output_mode": "count"}, ("d",)),
    "glob": (glob, {"pattern": "**"}, (".",)),
    "list": (list_files, {"path": "."}, (".",)),
    "list a folder": (list_files, {"path": "d"}, ("d",)),
    "delete": (apply_patch, {"patch": "*** Begin Patch\n*** Delete File: d/gone\n*** End Patch"}, ("d/gone",)),
    "move": (
        apply_patch,
        {"patch": "*** Begin Patch\n*** Update File: d/old\n*** Move to: d/moved\n@@\n-word\n+words\n*** End Patch"},
        ("d/old", "d/moved"),
    ),
}


@pytest.fixture
def racing_project(tmp_path: Path, local_env: LocalEnv) -> Iterator[RacingProject]:
    created = RacingProject(local_env, tmp_path / "outside")
    swapper = subprocess.Popen([sys.executable, "-I", "-c", _SWAP], cwd=local_env.cwd, stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        if swapper.stdout.readline() != b"0\n":
            skip_missing("a file system that exchanges names")
        yield created
    finally:
        swapper.kill()
        swapper.communicate()
        os.close(created.folder)


async def _count_leaks(racing_project: RacingProject, kind: str, times: int) -> int:
    tool, arguments, spelled = CALLS[kind]
    outside = 0
    for _ in range(times):
        racing_project.put("f", "gone", "old")
        outside += await racing_project.call(tool, arguments, *spelled)
    return outside


@pytest.mark.parametrize("kind", CALLS)
async def test_tools_stay_on_the_judged_path(racing_project: RacingProject, kind: str) -> None:
    assert await _count_leaks(racing_project, kind, 30) == 0


@pytest.mark.parametrize("kind", ["read", "read below", "write below", "write a new folder", "list a folder"])
async def test_tools_stay_on_the_judged_path_without_openat2(
    racing_project: RacingProject, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "_opener", lambda: beneath.open_by_parts)
    assert await _count_leaks(racing_project, kind, 60) == 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", CALLS)
async def test_ten_thousand_calls_stay_on_their_paths(racing_project: RacingProject, kind: str) -> None:
    assert await _count_leaks(racing_project, kind, 10_000 // len(CALLS) + 1) == 0
