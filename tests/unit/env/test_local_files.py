"""Local files: attributes that a write preserves, and files that cannot be read."""

import os
import socket
import stat
from pathlib import Path

import pytest

from mainspring.env import LocalEnv


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    return LocalEnv(tmp_path)


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640, 0o444 | 0o200])
async def test_write_keeps_the_file_mode(env: LocalEnv, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"old")
    file.chmod(mode)
    await env.write_bytes("x", b"new")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.read_bytes() == b"new"


async def test_new_file_has_the_mode_of_the_umask(env: LocalEnv, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        await env.write_bytes("x", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


async def test_write_follows_symlinks_and_keeps_them(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "rc"
    real.write_bytes(b"old")
    (tmp_path / "middle").symlink_to("dotfiles/rc")
    (tmp_path / "rc").symlink_to("middle")
    await env.write_bytes("rc", b"new")
    assert (tmp_path / "rc").is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert real.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path / "dotfiles")) == ["rc"]


async def test_write_to_a_dangling_symlink_creates_its_target(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    assert await env.realpath("link") == str(tmp_path / "later")
    await env.write_bytes("link", b"x")
    assert (tmp_path / "later").read_bytes() == b"x"
    assert (tmp_path / "link").is_symlink()


async def test_symlink_loop_is_an_error(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in ("a", "a/x", "nope/../a"):
        with pytest.raises(OSError, match="symbolic links"):
            await env.realpath(path)
    with pytest.raises(OSError, match="symbolic links"):
        await env.write_bytes("a", b"")


async def test_realpath_resolves_a_symlink_out_of_the_project(env: LocalEnv, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-secrets"
    outside.mkdir()
    (tmp_path / "inside").symlink_to(outside)
    assert await env.realpath("inside/new/file") == f"{outside}/new/file"


async def test_project_folder_can_be_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert LocalEnv(tmp_path / "link").cwd == str(tmp_path / "real")


async def test_write_keeps_hard_links(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a longer old text")
    os.link(tmp_path / "a", tmp_path / "b")
    await env.write_bytes("a", b"new")
    assert (tmp_path / "b").read_bytes() == b"new"
    assert (await env.stat("a")).links == 2


@pytest.mark.covers("OPT-07")
async def test_interrupted_write_leaves_the_old_file(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"old")

    def fail_sync(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_sync)
    with pytest.raises(OSError, match="No space"):
        await env.write_bytes("x", b"new" * 1000)
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


async def test_file_is_rewritten_if_renaming_is_impossible(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"a longer old text")
    inode = (tmp_path / "x").stat().st_ino

    def fail_rename(source: str, target: str, **_: int | None) -> None:
        raise OSError(16, "Device or resource busy", target)

    monkeypatch.setattr(os, "replace", fail_rename)
    await env.write_bytes("x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_ino == inode
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("renames", [True, False])
async def test_incomplete_write_of_a_drive_is_reported(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    """Some synchronized drives store less data without an error."""
    (tmp_path / "x").write_bytes(b"old")
    if not renames:
        os.link(tmp_path / "x", tmp_path / "y")
    sync = os.fsync

    def truncate_after_sync(descriptor: int) -> None:
        sync(descriptor)
        if os.path.isfile(f"/dev/fd/{descriptor}"):
            os.truncate(f"/dev/fd/{descriptor}", 1)

    monkeypatch.setattr(os, "fsync", truncate_after_sync)
    with pytest.raises(OSError, match="the drive stored 1 of 5 bytes"):
        await env.write_bytes("x", b"newer")
    assert (tmp_path / "x").read_bytes() == (b"old" if renames else b"n")


async def test_write_keeps_extended_attributes(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    try:
        os.setxattr(tmp_path / "x", "user.note", b"kept")
    except (OSError, AttributeError):
        return  # Some systems and file systems have no extended attributes.
    await env.write_bytes("x", b"new")
    assert os.getxattr(tmp_path / "x", "user.note") == b"kept"


async def test_read_only_file_is_not_replaced(env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o444)
    make = os.open

    def deny_access(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "x" and flags & os.O_WRONLY:
            raise PermissionError(13, "Permission denied", path)  # Any user except root gets this error.
        return make(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", deny_access)
    with pytest.raises(PermissionError, match="read-only"):
        await env.write_bytes("x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"


async def test_file_in_a_read_only_folder_is_rewritten(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"old")
    make = os.open

    def closed(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", path)
        return make(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", closed)
    await env.write_bytes("x", b"new")
    with pytest.raises(PermissionError):
        await env.write_bytes("another", b"new")
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]


async def test_only_regular_files_are_read_and_written(env: LocalEnv, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        for name in ("fifo", "null"):
            with pytest.raises(OSError, match="not a regular file"):
                await env.read_bytes(name)
            with pytest.raises(OSError, match="not a regular file"):
                await env.write_bytes(name, b"x")
        kinds = {name: (await env.stat(name)).kind for name in ("fifo", "null", "s")}
    assert kinds == {"fifo": "fifo", "null": "device", "s": "socket"}
    assert [e.kind for e in await env.list_dir(".")] == ["fifo", "symlink", "socket"]


async def test_file_names_can_be_invalid_utf8(env: LocalEnv, tmp_path: Path) -> None:
    await env.write_bytes("na\udcffme", b"x")
    assert os.listdir(bytes(tmp_path)) == [b"na\xffme"]
    [entry] = await env.list_dir(".")
    assert await env.read_bytes(entry.name) == b"x"
    assert [e.path for e in (await env.walk(".")).entries] == ["na\udcffme"]


async def test_remove_deletes_a_symlink_and_not_its_target(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    await env.remove("link")
    assert os.listdir(tmp_path) == ["real"]
    for path in (".", "..", "~", "/"):
        with pytest.raises(OSError, match="not the name"):
            await env.remove(path)


async def test_walk_lists_unreadable_folders(env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    scandir = os.scandir

    closed = (tmp_path / "closed").stat().st_ino

    def deny_access(folder: int) -> object:
        if os.fstat(folder).st_ino == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", deny_access)
    walk = await env.walk(".")
    assert walk.unreadable == ("closed: permission denied by the operating system",)
    assert [(e.path, e.kind) for e in walk.entries] == [
        ("closed", "directory"),
        ("dangling", "symlink"),
        ("open", "directory"),
    ]
