"""Tests of environments."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, OutputLimits
from mainspring.testing.contracts.runner import in_event_loop

_with_env = in_event_loop("create_env", "close_env")


async def _write_files(env: ExecutionEnv, *paths: str) -> None:
    for path in paths:
        await env.write_bytes(path, path.encode())


class _FileTests:
    """Tests of files."""

    @_with_env
    async def test_a_file_is_written_and_read_back(self, env: ExecutionEnv) -> None:
        """A file is written and read back."""
        await env.write_bytes("a/b/c.bin", b"\0\xff\r\n")
        assert await env.read_bytes("a/b/c.bin") == b"\0\xff\r\n"
        assert await env.read_bytes("./a/../a/b/c.bin", offset=1, limit=2) == b"\xff\r"
        await env.write_bytes("a/b/c.bin", b"")
        assert await env.read_bytes("a/b/c.bin") == b""

    @_with_env
    async def test_missing_folders_are_created_only_if_requested(self, env: ExecutionEnv) -> None:
        """Missing folders are created only if requested."""
        with pytest.raises(FileNotFoundError):
            await env.write_bytes("none/x", b"x", parents=False)
        with pytest.raises(FileNotFoundError):
            await env.stat("none")

    @_with_env
    async def test_a_file_is_renamed(self, env: ExecutionEnv) -> None:
        """A file is renamed."""
        await _write_files(env, "a", "b")
        await env.rename("a", "new/c")
        await env.rename("b", "new/c")
        assert await env.read_bytes("new/c") == b"b"
        with pytest.raises(FileNotFoundError):
            await env.stat("a")
        with pytest.raises(FileNotFoundError):
            await env.rename("a", "x")
        with pytest.raises(FileNotFoundError):
            await env.rename("new/c", "none/x", parents=False)
        with pytest.raises(IsADirectoryError):
            await env.rename("new", "x")

    @_with_env
    async def test_paths_start_at_the_project_folder(self, env: ExecutionEnv) -> None:
        """Paths start at the project folder."""
        assert await env.realpath(".") == env.cwd
        assert await env.realpath("x/../y//z/") == f"{env.cwd}/y/z"
        assert await env.realpath("/a/./b") == "/a/b"
        assert await env.realpath("~/x") == f"{env.cwd}/home/x"
        assert await env.realpath("./~") == f"{env.cwd}/~"

    @_with_env
    async def test_invalid_path_is_rejected(self, env: ExecutionEnv) -> None:
        """Invalid path is rejected."""
        for path in ("", "a\0b"):
            with pytest.raises(OSError, match="NUL|empty|[Ii]nvalid"):
                await env.realpath(path)

    @_with_env
    async def test_stat_returns_size_kind_and_real_path(self, env: ExecutionEnv) -> None:
        """Stat returns size kind and real path."""
        await env.write_bytes("x/y", b"12345")
        found = await env.stat("x/../x/y")
        assert (found.kind, found.size, found.path) == ("file", 5, f"{env.cwd}/x/y")
        assert (await env.stat("x")).kind == "directory"
        with pytest.raises(FileNotFoundError):
            await env.stat("nope")

    @_with_env
    async def test_write_updates_the_modification_time(self, env: ExecutionEnv) -> None:
        """Write updates the modification time."""
        await env.write_bytes("x", b"1")
        before = (await env.stat("x")).mtime_ns
        await env.write_bytes("x", b"2")
        assert (await env.stat("x")).mtime_ns >= before

    @_with_env
    async def test_folder_cannot_be_read_as_a_file(self, env: ExecutionEnv) -> None:
        """Folder cannot be read as a file."""
        await env.write_bytes("x/y", b"")
        with pytest.raises(IsADirectoryError):
            await env.read_bytes("x")
        with pytest.raises(IsADirectoryError):
            await env.write_bytes("x", b"")
        with pytest.raises(NotADirectoryError):
            await env.list_dir("x/y")

    @_with_env
    async def test_list_dir_is_sorted(self, env: ExecutionEnv) -> None:
        """List dir is sorted."""
        await _write_files(env, "b", "a/x", ".c")
        assert [(e.name, e.kind) for e in await env.list_dir(".")] == [
            (".c", "file"),
            ("a", "directory"),
            ("b", "file"),
        ]

    @_with_env
    async def test_remove_deletes_files_and_empty_folders(self, env: ExecutionEnv) -> None:
        """Remove deletes files and empty folders."""
        await _write_files(env, "a/x")
        with pytest.raises(OSError, match="not empty"):
            await env.remove("a")
        await env.remove("a/x")
        await env.remove("a/")
        with pytest.raises(FileNotFoundError):
            await env.remove("a")


class _WalkTests:
    """Tests of listing folders."""

    @_with_env
    async def test_walk_is_sorted_and_lists_folders_first(self, env: ExecutionEnv) -> None:
        """Walk is sorted and lists folders first."""
        await _write_files(env, "b/x", "b.txt", "a/c/y", "a/b", ".hidden/z")
        walk = await env.walk(".")
        expected = [".hidden", ".hidden/z", "a", "a/b", "a/c", "a/c/y", "b", "b/x", "b.txt"]
        assert [e.path for e in walk.entries] == expected
        assert [e.path for e in (await env.walk("a")).entries] == ["b", "c", "c/y"]

    @_with_env
    async def test_walk_obeys_ignore_files(self, env: ExecutionEnv) -> None:
        """Walk obeys ignore files."""
        await _write_files(
            env, "keep.py", "x.log", "keep.log", "out/a", "src/out/b", "src/gen.py", "src/a.py", ".git/HEAD", "z/.svn/e"
        )
        await env.write_bytes(".gitignore", b"*.log\n!keep.log\nout/\n# gone\n")
        await env.write_bytes("src/.gitignore", b"/gen.py\n!out/\n")
        await env.write_bytes(".ignore", b"\xef\xbb\xbfz\r\n[\n")
        walk = await env.walk(".")
        files = [e.path for e in walk.entries if e.kind == "file"]
        assert files == [".gitignore", ".ignore", "keep.log", "keep.py", "src/.gitignore", "src/a.py", "src/out/b"]
        assert walk.ignored == (".git/", "out/", "src/gen.py", "x.log", "z/")

    @_with_env
    async def test_walk_can_include_ignored_files_but_not_git(self, env: ExecutionEnv) -> None:
        """Walk can include ignored files but not git."""
        await _write_files(env, "out/a", ".git/HEAD")
        await env.write_bytes(".gitignore", b"out\n")
        walk = await env.walk(".", include_ignored=True)
        assert [e.path for e in walk.entries] == [".gitignore", "out", "out/a"]

    @_with_env
    async def test_walk_applies_ignore_files_of_parent_folders(self, env: ExecutionEnv) -> None:
        """Walk applies ignore files of parent folders."""
        await _write_files(env, "src/a.py", "src/a.pyc")
        await env.write_bytes(".gitignore", b"*.pyc\n")
        assert [e.path for e in (await env.walk("src")).entries] == ["a.py"]

    @_with_env
    async def test_walk_enters_an_ignored_folder_that_is_named(self, env: ExecutionEnv) -> None:
        """Walk enters an ignored folder that is named."""
        await _write_files(env, "out/a.log", "out/in/b", "out/no")
        await env.write_bytes(".gitignore", b"out\n*.log\n")
        await env.write_bytes("out/.ignore", b"no\n")
        assert await env.is_ignored("out")
        assert await env.is_ignored("out/in/b")
        assert not await env.is_ignored("in")
        assert [e.path for e in (await env.walk("out")).entries] == [".ignore", "a.log", "in", "in/b"]

    @_with_env
    async def test_walk_stops_at_depth_and_limit(self, env: ExecutionEnv) -> None:
        """Walk stops at depth and limit."""
        await _write_files(env, "a/b/c/d", "x")
        assert [e.path for e in (await env.walk(".", depth=2)).entries] == ["a", "a/b", "x"]
        walk = await env.walk(".", limit=2)
        assert walk.truncated
        assert [e.path for e in walk.entries] == ["a", "x"]  # the deepest entries are cut off

    @_with_env
    async def test_walk_stops_on_cancel(self, env: ExecutionEnv) -> None:
        """Walk stops on cancel."""
        await _write_files(env, "a/b")
        token = CancelToken()
        token.cancel()
        assert (await env.walk(".", signal=token)).truncated

    @_with_env
    async def test_walk_requires_a_folder(self, env: ExecutionEnv) -> None:
        """Walk requires a folder."""
        await _write_files(env, "a")
        with pytest.raises(NotADirectoryError):
            await env.walk("a")
        with pytest.raises(FileNotFoundError):
            await env.walk("nope")


class ExecutionEnvContract(_FileTests, _WalkTests):
    """Tests of an `ExecutionEnv`. Override `create_env`."""

    def create_env(self, folder: Path) -> ExecutionEnv:
        """Return an environment without files.

        Its project folder is ``folder``, its home folder ``folder / "home"``, and it can run ``printf``.
        """
        raise NotImplementedError("Override create_env.")

    async def close_env(self, env: ExecutionEnv) -> None:
        """Close an environment that `create_env` returned."""
        await env.aclose()

    @_with_env
    async def test_run_returns_output_and_exit_code(self, env: ExecutionEnv) -> None:
        """Run returns output and exit code."""
        seen: list[tuple[str, bytes]] = []
        result = await env.run("printf hello", on_output=lambda stream, data: seen.append((stream, data)))
        assert (result.exit_code, result.stdout.text, result.stdout.total, result.stderr.data) == (0, "hello", 5, b"")
        assert seen == [("stdout", b"hello")]
        assert not result.survivors

    @_with_env
    async def test_unknown_command_exits_with_127(self, env: ExecutionEnv) -> None:
        """Unknown command exits with 127."""
        result = await env.run("no-such-command-here --flag", limits=OutputLimits(head=100, tail=100))
        assert result.exit_code == 127
        assert "no-such-command-here: " in result.stderr.text
        assert "not found" in result.stderr.text

    @_with_env
    async def test_find_program_returns_none_for_unknown_programs(self, env: ExecutionEnv) -> None:
        """Find program returns none for unknown programs."""
        assert await env.find_program("no-such-program-here") is None

    @_with_env
    async def test_lock_is_exclusive_and_fair(self, env: ExecutionEnv) -> None:
        """Lock is exclusive and fair."""
        order: list[str] = []

        async def work(name: str, path: str) -> None:
            async with env.lock(path):
                order.append(f"{name} in")
                await asyncio.sleep(0)
                order.append(f"{name} out")

        await asyncio.gather(work("1", "/a"), work("2", "/a"), work("3", "/a"))
        assert order == ["1 in", "1 out", "2 in", "2 out", "3 in", "3 out"]

    @_with_env
    async def test_locks_of_different_files_are_independent(self, env: ExecutionEnv) -> None:
        """Locks of different files are independent."""
        async with env.lock("/a"), asyncio.timeout(1), env.lock("/b"):
            pass
        async with env.lock("/a"):
            pass

    @_with_env
    async def test_path_filter_is_unset_by_default(self, env: ExecutionEnv) -> None:
        """Path filter is unset by default."""
        assert env.path_filter is None
