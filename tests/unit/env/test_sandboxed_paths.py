"""`ConfinedEnv`: nothing outside of the workspace, and no writing where that is switched off."""

import os
from pathlib import Path

import pytest

from mainspring.env import ConfinedEnv, LocalEnv
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import apply_patch, edit, glob, grep, list_files, read_file, shell, write_file

pytestmark = [pytest.mark.usefixtures("no_blocking"), pytest.mark.covers("OPT-07")]


@pytest.fixture
def inside(tmp_path: Path) -> ConfinedEnv:
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
async def test_no_tool_reaches_a_file_outside(inside: ConfinedEnv, tmp_path: Path, path: str) -> None:
    ctx = ToolContext(env=inside)
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
    assert await inside._env.read_bytes(str(tmp_path / "project-secrets" / "key")) == b"secret\n"


async def test_no_folder_outside_is_listed(inside: ConfinedEnv) -> None:
    ctx = ToolContext(env=inside)
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


async def test_links_themselves_can_be_removed_but_not_beyond(inside: ConfinedEnv, tmp_path: Path) -> None:
    await inside.remove("link")
    with pytest.raises(PermissionError, match="outside"):
        await inside.remove("folder/key")
    with pytest.raises(PermissionError, match="outside"):
        await inside.rename("a.txt", "folder/a.txt")
    assert sorted(os.listdir(tmp_path / "project")) == ["a.txt", "folder"]
    assert os.listdir(tmp_path / "project-secrets") == ["key"]


async def test_programs_are_refused_because_nothing_could_hold_them(inside: ConfinedEnv) -> None:
    ctx = ToolContext(env=inside)
    result = await shell(ctx, command="cat ../project-secrets/key")
    assert "programs cannot run here" in result.text
    with pytest.raises(PermissionError, match="sandbox"):
        await inside.run(["cat", "/etc/hostname"])
    with pytest.raises(PermissionError, match="sandbox"):
        await inside.connect(["cat"])
    assert "programs cannot run here" in (await shell(ctx, command="sleep 9", background=True)).text


async def test_writing_can_be_switched_off(inside: ConfinedEnv, tmp_path: Path) -> None:
    inside.writable = False
    ctx = ToolContext(env=inside)
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


async def test_more_folders_may_be_added(tmp_path: Path, inside: ConfinedEnv) -> None:
    wider = ConfinedEnv(inside._env, roots=[str(tmp_path / "project-secrets")])
    assert "secret" in (await read_file(ToolContext(env=wider), path="link")).text
