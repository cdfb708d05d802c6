"""`ConfinedEnv`: no access outside of the workspace, and no writes if it is read-only."""

import contextlib
import os
from pathlib import Path

import pytest

from mainspring.env import ConfinedEnv, LocalEnv
from mainspring.env.beneath import RealPath
from mainspring.env.local_files import FilesBelow
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import apply_patch, edit, glob, grep, list_files, read_file, shell, write_file

pytestmark = [pytest.mark.usefixtures("no_blocking"), pytest.mark.covers("OPT-07")]


@pytest.fixture
def confined_env(tmp_path: Path) -> ConfinedEnv:
    project, outside = tmp_path / "project", tmp_path / "project-secrets"
    project.mkdir()
    outside.mkdir()
    (outside / "key").write_text("secret\n")
    (project / "a.txt").write_text("one\n")
    (project / "link").symlink_to(outside / "key")
    (project / "folder").symlink_to(outside)
    return ConfinedEnv(LocalEnv(project))


OUTSIDE = ["../project-secrets/key", "link", "folder/key", "/etc/hostname", "~/x", "folder/../key"]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_tools_cannot_access_files_outside(confined_env: ConfinedEnv, tmp_path: Path, path: str) -> None:
    ctx = ToolContext(env=confined_env)
    patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    calls: list[tuple[Tool, dict[str, object]]] = [
        (read_file, {"path": path}),
        (write_file, {"path": path, "content": "x"}),
        (edit, {"path": path, "old_string": "secret", "new_string": "x"}),
        (apply_patch, {"patch": patch}),
        (grep, {"pattern": "secret", "path": path}),
    ]
    for tool, arguments in calls:
        result = await tool(ctx, **arguments)
        assert result.is_error, tool.name
        assert "outside the workspace" in result.text, (tool.name, result.text)
    assert await confined_env._env.read_bytes(str(tmp_path / "project-secrets" / "key")) == b"secret\n"


async def test_folders_outside_are_not_listed(confined_env: ConfinedEnv) -> None:
    ctx = ToolContext(env=confined_env)
    for tool, arguments in (
        (list_files, {"path": "folder"}),
        (glob, {"pattern": "../*"}),
        (glob, {"pattern": "/etc/*"}),
    ):
        result = await tool(ctx, **arguments)
        assert result.is_error
        assert "outside the workspace" in result.text
    assert "a.txt" in (await list_files(ctx)).text
    assert "1:one" in (await grep(ctx, pattern="one")).text


async def test_folders_outside_are_not_inspected(confined_env: ConfinedEnv, tmp_path: Path) -> None:
    names = ["a.txt", "link", "folder/key", "../project-secrets/key"]

    def inspect(files: FilesBelow) -> list[str]:
        opened: list[str] = []
        for name in names:
            with contextlib.suppress(OSError), files.open(name) as file:
                opened.append(file.read().decode())
        return opened

    root = RealPath(confined_env.cwd)
    assert await confined_env.inspect_folder(root, inspect) == ["one\n"]
    assert await confined_env.inspect_folder(root, lambda files: [n for n in names if files.exists(n)]) == ["a.txt"]
    for outside in (RealPath(str(tmp_path)), RealPath("/etc")):
        with pytest.raises(PermissionError, match="outside the workspace"):
            await confined_env.inspect_folder(outside, inspect)


async def test_symlinks_can_be_removed_but_not_followed_outside(confined_env: ConfinedEnv, tmp_path: Path) -> None:
    await confined_env.remove("link")
    with pytest.raises(PermissionError, match="outside"):
        await confined_env.remove("folder/key")
    with pytest.raises(PermissionError, match="outside"):
        await confined_env.rename("a.txt", "folder/a.txt")
    assert sorted(os.listdir(tmp_path / "project")) == ["a.txt", "folder"]
    assert os.listdir(tmp_path / "project-secrets") == ["key"]


async def test_programs_are_denied(confined_env: ConfinedEnv) -> None:
    ctx = ToolContext(env=confined_env)
    result = await shell(ctx, command="cat ../project-secrets/key")
    assert "programs cannot run here" in result.text
    with pytest.raises(PermissionError, match="sandbox"):
        await confined_env.run(["cat", "/etc/hostname"])
    with pytest.raises(PermissionError, match="sandbox"):
        await confined_env.connect(["cat"])
    assert "programs cannot run here" in (await shell(ctx, command="sleep 9", background=True)).text


async def test_workspace_can_be_read_only(confined_env: ConfinedEnv, tmp_path: Path) -> None:
    confined_env.writable = False
    ctx = ToolContext(env=confined_env)
    calls: list[tuple[Tool, dict[str, object]]] = [
        (write_file, {"path": "new", "content": "x"}),
        (edit, {"path": "a.txt", "old_string": "one", "new_string": "x"}),
        (apply_patch, {"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"}),
    ]
    for tool, arguments in calls:
        result = await tool(ctx, **arguments)
        assert "the workspace is read-only" in result.text, result.text
    assert "they could write" in (await shell(ctx, command="echo x > a.txt")).text
    assert (await read_file(ctx, path="a.txt")).text.startswith("1\tone")
    assert sorted(os.listdir(tmp_path / "project")) == ["a.txt", "folder", "link"]


async def test_roots_can_be_added(tmp_path: Path, confined_env: ConfinedEnv) -> None:
    wider = ConfinedEnv(confined_env._env, roots=[str(tmp_path / "project-secrets")])
    assert "secret" in (await read_file(ToolContext(env=wider), path="link")).text
