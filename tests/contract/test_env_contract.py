"""The common behavior of execution environments; add a new one to `ENVIRONMENTS`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import EditorEnv, ExecutionEnv, LocalEnv, MemoryEnv, OutputLimits
from mainspring.env.container import ContainerEnv
from mainspring.env.sandbox import SandboxEnv
from tests.helpers.containers import ENGINES, IMAGE
from tests.helpers.sandboxes import layer

pytestmark = [pytest.mark.usefixtures("no_blocking"), pytest.mark.covers("EXE-01", "TST-04")]

Fixture = Callable[[str], Any]


def local(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return LocalEnv(folder, home=str(folder / "home"))


def memory(folder: Path, fixture: Fixture) -> ExecutionEnv:
    answers = {"printf hello": "hello", "printf '%s' a b": "ab"}
    return MemoryEnv(cwd=str(folder), home=str(folder / "home"), run=answers)


class QuietEditor:
    """An editor without open files."""

    async def read(self, path: str) -> str | None:
        return None

    async def write(self, path: str, text: str) -> bool:
        return False


def editor(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return EditorEnv(LocalEnv(folder, home=str(folder / "home")), QuietEditor())


def bubblewrap(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return SandboxEnv(folder, provider=layer("bubblewrap"), home=str(folder / "home"))


def landlock(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return SandboxEnv(folder, provider=layer("landlock"), home=str(folder / "home"))


def docker(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return ContainerEnv("any", folder, engine=fixture("fake_docker"), home=str(folder / "home"))


def podman(folder: Path, fixture: Fixture) -> ExecutionEnv:
    return ContainerEnv(IMAGE, folder, engine=fixture("podman"), home=str(folder / "home"))


ENVIRONMENTS: list[Callable[[Path, Fixture], ExecutionEnv]] = [local, memory, editor, bubblewrap, landlock, docker]
if "podman" in ENGINES:
    ENVIRONMENTS.append(podman)


@pytest.fixture(params=ENVIRONMENTS, ids=lambda make: make.__name__)
def new_env(request: pytest.FixtureRequest, tmp_path: Path) -> ExecutionEnv:
    return request.param(tmp_path, request.getfixturevalue)


@pytest.fixture
async def env(new_env: ExecutionEnv) -> AsyncIterator[ExecutionEnv]:
    yield new_env
    await new_env.aclose()


async def write_files(env: ExecutionEnv, *paths: str) -> None:
    for path in paths:
        await env.write_bytes(path, path.encode())


async def test_a_file_is_written_and_read_back(env: ExecutionEnv) -> None:
    await env.write_bytes("a/b/c.bin", b"\0\xff\r\n")
    assert await env.read_bytes("a/b/c.bin") == b"\0\xff\r\n"
    assert await env.read_bytes("./a/../a/b/c.bin", offset=1, limit=2) == b"\xff\r"
    await env.write_bytes("a/b/c.bin", b"")
    assert await env.read_bytes("a/b/c.bin") == b""


async def test_missing_folders_are_created_only_if_requested(env: ExecutionEnv) -> None:
    with pytest.raises(FileNotFoundError):
        await env.write_bytes("none/x", b"x", parents=False)
    with pytest.raises(FileNotFoundError):
        await env.stat("none")


async def test_a_file_is_renamed(env: ExecutionEnv) -> None:
    await write_files(env, "a", "b")
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


async def test_paths_start_at_the_project_folder(env: ExecutionEnv) -> None:
    assert await env.realpath(".") == env.cwd
    assert await env.realpath("x/../y//z/") == f"{env.cwd}/y/z"
    assert await env.realpath("/a/./b") == "/a/b"
    assert await env.realpath("~/x") == f"{env.cwd}/home/x"
    assert await env.realpath("./~") == f"{env.cwd}/~"


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_invalid_path_is_rejected(env: ExecutionEnv, path: str) -> None:
    with pytest.raises(OSError, match="NUL|empty|[Ii]nvalid"):
        await env.realpath(path)


async def test_stat_returns_size_kind_and_real_path(env: ExecutionEnv) -> None:
    await env.write_bytes("x/y", b"12345")
    found = await env.stat("x/../x/y")
    assert (found.kind, found.size, found.path) == ("file", 5, f"{env.cwd}/x/y")
    assert (await env.stat("x")).kind == "directory"
    with pytest.raises(FileNotFoundError):
        await env.stat("nope")


async def test_write_updates_the_modification_time(env: ExecutionEnv) -> None:
    await env.write_bytes("x", b"1")
    before = (await env.stat("x")).mtime_ns
    await env.write_bytes("x", b"2")
    assert (await env.stat("x")).mtime_ns >= before


async def test_folder_cannot_be_read_as_a_file(env: ExecutionEnv) -> None:
    await env.write_bytes("x/y", b"")
    with pytest.raises(IsADirectoryError):
        await env.read_bytes("x")
    with pytest.raises(IsADirectoryError):
        await env.write_bytes("x", b"")
    with pytest.raises(NotADirectoryError):
        await env.list_dir("x/y")


async def test_list_dir_is_sorted(env: ExecutionEnv) -> None:
    await write_files(env, "b", "a/x", ".c")
    assert [(e.name, e.kind) for e in await env.list_dir(".")] == [(".c", "file"), ("a", "directory"), ("b", "file")]


async def test_remove_deletes_files_and_empty_folders(env: ExecutionEnv) -> None:
    await write_files(env, "a/x")
    with pytest.raises(OSError, match="not empty"):
        await env.remove("a")
    await env.remove("a/x")
    await env.remove("a/")
    with pytest.raises(FileNotFoundError):
        await env.remove("a")


async def test_walk_is_sorted_and_lists_folders_first(env: ExecutionEnv) -> None:
    await write_files(env, "b/x", "b.txt", "a/c/y", "a/b", ".hidden/z")
    walk = await env.walk(".")
    expected = [".hidden", ".hidden/z", "a", "a/b", "a/c", "a/c/y", "b", "b/x", "b.txt"]
    assert [e.path for e in walk.entries] == expected
    assert [e.path for e in (await env.walk("a")).entries] == ["b", "c", "c/y"]


async def test_walk_obeys_ignore_files(env: ExecutionEnv) -> None:
    await write_files(
        env, "keep.py", "x.log", "keep.log", "out/a", "src/out/b", "src/gen.py", "src/a.py", ".git/HEAD", "z/.svn/e"
    )
    await env.write_bytes(".gitignore", b"*.log\n!keep.log\nout/\n# gone\n")
    await env.write_bytes("src/.gitignore", b"/gen.py\n!out/\n")
    await env.write_bytes(".ignore", b"\xef\xbb\xbfz\r\n[\n")
    walk = await env.walk(".")
    files = [e.path for e in walk.entries if e.kind == "file"]
    assert files == [".gitignore", ".ignore", "keep.log", "keep.py", "src/.gitignore", "src/a.py", "src/out/b"]
    assert walk.ignored == (".git/", "out/", "src/gen.py", "x.log", "z/")


async def test_walk_can_include_ignored_files_but_not_git(env: ExecutionEnv) -> None:
    await write_files(env, "out/a", ".git/HEAD")
    await env.write_bytes(".gitignore", b"out\n")
    walk = await env.walk(".", include_ignored=True)
    assert [e.path for e in walk.entries] == [".gitignore", "out", "out/a"]


async def test_walk_applies_ignore_files_of_parent_folders(env: ExecutionEnv) -> None:
    await write_files(env, "src/a.py", "src/a.pyc")
    await env.write_bytes(".gitignore", b"*.pyc\n")
    assert [e.path for e in (await env.walk("src")).entries] == ["a.py"]


async def test_walk_enters_an_ignored_folder_that_is_named(env: ExecutionEnv) -> None:
    await write_files(env, "out/a.log", "out/in/b", "out/no")
    await env.write_bytes(".gitignore", b"out\n*.log\n")
    await env.write_bytes("out/.ignore", b"no\n")
    assert await env.is_ignored("out")
    assert await env.is_ignored("out/in/b")
    assert not await env.is_ignored("in")
    assert [e.path for e in (await env.walk("out")).entries] == [".ignore", "a.log", "in", "in/b"]


async def test_walk_stops_at_depth_and_limit(env: ExecutionEnv) -> None:
    await write_files(env, "a/b/c/d", "x")
    assert [e.path for e in (await env.walk(".", depth=2)).entries] == ["a", "a/b", "x"]
    walk = await env.walk(".", limit=2)
    assert walk.truncated
    assert [e.path for e in walk.entries] == ["a", "x"]  # the deepest entries are cut off


async def test_walk_stops_on_cancel(env: ExecutionEnv) -> None:
    await write_files(env, "a/b")
    token = CancelToken()
    token.cancel()
    assert (await env.walk(".", signal=token)).truncated


async def test_walk_requires_a_folder(env: ExecutionEnv) -> None:
    await write_files(env, "a")
    with pytest.raises(NotADirectoryError):
        await env.walk("a")
    with pytest.raises(FileNotFoundError):
        await env.walk("nope")


async def test_run_returns_output_and_exit_code(env: ExecutionEnv) -> None:
    seen: list[tuple[str, bytes]] = []
    result = await env.run("printf hello", on_output=lambda stream, data: seen.append((stream, data)))
    assert (result.exit_code, result.stdout.text, result.stdout.total, result.stderr.data) == (0, "hello", 5, b"")
    assert seen == [("stdout", b"hello")]
    assert not result.survivors


async def test_unknown_command_exits_with_127(env: ExecutionEnv) -> None:
    result = await env.run("no-such-command-here --flag", limits=OutputLimits(head=100, tail=100))
    assert result.exit_code == 127
    assert "no-such-command-here: " in result.stderr.text
    assert "not found" in result.stderr.text


async def test_find_program_returns_none_for_unknown_programs(env: ExecutionEnv) -> None:
    assert await env.find_program("no-such-program-here") is None


async def test_lock_is_exclusive_and_fair(env: ExecutionEnv) -> None:
    order: list[str] = []

    async def work(name: str, path: str) -> None:
        async with env.lock(path):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.gather(work("1", "/a"), work("2", "/a"), work("3", "/a"))
    assert order == ["1 in", "1 out", "2 in", "2 out", "3 in", "3 out"]


async def test_locks_of_different_files_are_independent(env: ExecutionEnv) -> None:
    async with env.lock("/a"), asyncio.timeout(1), env.lock("/b"):
        pass
    async with env.lock("/a"):
        pass


async def test_path_filter_is_unset_by_default(env: ExecutionEnv) -> None:
    assert env.path_filter is None
