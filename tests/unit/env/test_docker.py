"""Containers: with podman if it is installed, and always with a program that accepts the arguments of docker."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import OutputLimits
from mainspring.env.container import ContainerEnv, find_engine
from mainspring.errors import ConfigError
from tests.helpers.containers import ENGINES, IMAGE
from tests.unit.env.test_process import read_text, wait_until

pytestmark = pytest.mark.covers("EXE-02", "EXE-05")

Make = Callable[..., ContainerEnv]


@pytest.fixture(params=ENGINES)
def engine_path(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my, project"
    folder.mkdir()
    return folder


async def make_environments(engine_path: str, project: Path) -> AsyncIterator[Make]:
    environments: list[ContainerEnv] = []

    def create(image: str = IMAGE, **options: Any) -> ContainerEnv:
        environments.append(ContainerEnv(image, project, engine=engine_path, **options))
        return environments[-1]

    yield create
    for env in environments:
        await env.aclose()


@pytest.fixture
async def make(engine_path: str, project: Path) -> AsyncIterator[Make]:
    """Return a function that creates environments with each engine."""
    async for create in make_environments(engine_path, project):
        yield create


@pytest.fixture(params=["fake_docker", "busybox_docker"])
async def make_fake(request: pytest.FixtureRequest, project: Path) -> AsyncIterator[Make]:
    """Return a function that creates environments whose container is this machine, which is fast."""
    async for create in make_environments(request.getfixturevalue(request.param), project):
        yield create


async def output(container: ContainerEnv, script: str, **options: Any) -> str:
    result = await container.run(script, timeout=120, **options)
    return result.stdout.text + result.stderr.text


def read_log(engine_path: str) -> str:
    """Return the calls of the fake engine that run containers."""
    return read_text(f"{engine_path}.log")


async def test_container_starts_on_first_use_and_stops_with_the_environment(fake_docker: str, project: Path) -> None:
    env = ContainerEnv("image:1", project, engine=fake_docker)
    await env.write_bytes("a", b"1")
    assert env.container is None, "files of the project need no container"
    assert not Path(f"{fake_docker}.log").exists()
    assert await output(env, "cat a") == "1"
    assert env.container is not None
    assert await output(env, "echo again") == "again\n"
    assert len(read_log(fake_docker).splitlines()) == 1, "all commands run in one container"
    await env.aclose()
    assert env.container is None


async def test_programs_and_tools_see_the_same_files(make: Make, project: Path) -> None:
    env = make()
    assert await output(env, "pwd; echo hi > a; mkdir -p b; ls") == f"{project}\na\nb\n"
    assert await env.read_bytes("a") == b"hi\n"
    assert await output(env, "pwd", cwd="b") == f"{project}/b\n"
    assert (project / "a").stat().st_uid == os.getuid()


async def test_file_methods_work_inside_the_container(make_fake: Make, tmp_path: Path) -> None:
    at = str(tmp_path / "data")
    env = make_fake(home=at)
    await env.write_bytes("~/a b/c", b"\0\xff123")
    assert await env.read_bytes(f"{at}/a b/c") == b"\0\xff123"
    assert await env.read_bytes(f"{at}/a b/c", offset=2, limit=2) == b"12"
    found = await env.stat(f"{at}/a b/../a b/c")
    assert (found.path, found.kind, found.size) == (f"{at}/a b/c", "file", 5)
    assert abs(found.mtime_ns / 1e9 - time.time()) < 60
    await output(env, f"chmod 750 '{at}/a b/c'; mkfifo {at}/p; ln -s 'a b' {at}/l; ln -s {at}/n {at}/m")
    await env.write_bytes(f"{at}/l/c", b"2")
    assert (await env.stat(f"{at}/a b/c")).mode == 0o750
    assert [(e.name, e.kind) for e in await env.list_dir(at)] == [
        ("a b", "directory"),
        ("l", "symlink"),
        ("m", "symlink"),
        ("p", "fifo"),
    ]
    assert await env.realpath(f"{at}/l/c/../../x/y") == f"{at}/x/y"
    assert await env.realpath("~/x") == f"{at}/x"
    assert await env.realpath("/") == "/"
    await env.rename(f"{at}/a b/c", f"{at}/new/d")
    await env.rename(f"{at}/new/d", "d")
    assert await env.read_bytes("d") == b"2"
    await env.remove(f"{at}/p")
    assert [e.path for e in (await env.walk(at)).entries] == ["a b", "l", "m", "new"]


async def test_file_errors_inside_the_container_are_python_errors(make_fake: Make, tmp_path: Path) -> None:
    at = str(tmp_path / "data")
    env = make_fake()
    await output(env, f"mkdir -p {at}/d/e; mkfifo {at}/p; echo > {at}/f")
    with pytest.raises(FileNotFoundError):
        await env.read_bytes(f"{at}/none")
    with pytest.raises(FileNotFoundError):
        await env.stat(f"{at}/none/x")
    with pytest.raises(FileNotFoundError):
        await env.write_bytes(f"{at}/none/x", b"", parents=False)
    with pytest.raises(FileNotFoundError):
        await env.remove(f"{at}/none")
    with pytest.raises(FileNotFoundError):
        await env.rename(f"{at}/none", f"{at}/x")
    with pytest.raises(IsADirectoryError):
        await env.read_bytes(f"{at}/d")
    with pytest.raises(IsADirectoryError):
        await env.write_bytes(f"{at}/d", b"")
    with pytest.raises(IsADirectoryError):
        await env.rename(f"{at}/d", f"{at}/x")
    with pytest.raises(NotADirectoryError):
        await env.list_dir(f"{at}/f")
    with pytest.raises(OSError, match="not empty"):
        await env.remove(f"{at}/d")
    with pytest.raises(OSError, match="Invalid"):
        await env.read_bytes(f"{at}/p")


async def test_run_returns_exit_code_output_and_passes_input(make: Make) -> None:
    env = make()
    result = await env.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (3, "out\n", "err\n")
    assert (await env.run(["cat"], stdin=b"\0\xff")).stdout.data == b"\0\xff"
    assert (await env.run("cat", stdin=b"in")).stdout.text == "in"
    assert (await env.run("cat")).stdout.text == ""
    assert await output(env, "echo $A$B", env={"A": "1", "B": "x y"}) == "1x y\n"
    assert await env.find_program("cat")
    assert await env.find_program("no-such-program") is None


async def test_timeout_or_cancel_ends_the_process_in_the_container(make: Make, project: Path) -> None:
    env = make()
    script = "trap 'echo bye > bye; exit 1' TERM; echo x > up; sleep 100 & wait"
    result = await env.run(script, timeout=3)
    assert result.timed_out
    await wait_until(lambda: read_text(project / "bye") == "bye\n")
    token = CancelToken()
    running = asyncio.ensure_future(env.run("echo $$ > pid; exec sleep 100", signal=token))
    await wait_until(lambda: read_text(project / "pid") != "")
    token.cancel()
    assert (await running).cancelled
    pid = read_text(project / "pid").strip()
    assert await output(env, f"grep -c sleep /proc/{pid}/comm 2>/dev/null") in ("", "0\n")


async def test_excessive_output_stops_the_program(make: Make) -> None:
    result = await make().run("yes", limits=OutputLimits(head=10, tail=10, cap=100_000), timeout=120)
    assert result.overflowed


async def test_long_script_is_run(make: Make) -> None:
    script = "x=1\n" + "# filling\n" * 20_000 + "echo $x\n"
    assert await output(make(), script) == "1\n"


async def test_long_script_of_sh_is_a_file_in_the_container(make_fake: Make) -> None:
    env = make_fake(shell="sh")
    path = await output(env, "# filling\n" * 20_000 + 'printf %s "$0"; rm "$0"')
    assert path.startswith("/tmp/mainspring-script-")


async def test_connect_talks_to_a_program(make: Make) -> None:
    connection = await make().connect(["cat"])
    await connection.write(b"hello")
    assert await connection.read() == b"hello"
    await connection.aclose()


async def test_missing_image_is_reported(make: Make) -> None:
    with pytest.raises(OSError, match="the container of missing did not start: .*([Nn]o such image|not known|resolve)"):
        await make("missing").run("true")


async def test_docker_command_line_contains_the_options(fake_docker: str, project: Path) -> None:
    env = ContainerEnv("image:1", project, engine=fake_docker, max_processes=50, arguments=("--memory", "2g"))
    assert await output(env, "echo $MARK", env={"MARK": "1"}) == "1\n"
    await env.aclose()
    command_line = read_log(fake_docker)
    assert "--network none --pids-limit 50 --memory 2g --entrypoint /bin/sh image:1 -c" in command_line
    assert f'--mount type=bind,"source={project}","target={project}" -w {project}' in command_line
    open_env = ContainerEnv("image:1", project, engine=fake_docker, network=True)
    await open_env.run("true")
    await open_env.aclose()
    assert "--network" not in read_log(fake_docker).splitlines()[1]


async def test_container_stops_with_an_environment_that_is_not_closed(fake_docker: str, project: Path) -> None:
    env = ContainerEnv("image:1", project, engine=fake_docker)
    await env.run("true")
    client = env._container._client
    assert client is not None
    assert client.poll() is None

    del env
    gc.collect()

    assert client.poll() is not None


async def test_fetch_is_denied_without_network(fake_docker: str, project: Path) -> None:
    with pytest.raises(PermissionError, match="no network"):
        await ContainerEnv("image", project, engine=fake_docker).fetch("https://example.org", timeout=1, max_bytes=1)


def test_unavailable_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_docker: str) -> None:
    monkeypatch.setenv("FAKE_DOCKER_IS_DOWN", "1")
    with pytest.raises(
        ConfigError, match=r"No container can be started: .*Cannot connect to the Docker daemon.*podman"
    ):
        find_engine(fake_docker)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="engine-of-nobody: it is not installed"):
        find_engine("engine-of-nobody")


@pytest.mark.covers("EXE-06")
async def test_environments_of_one_folder_have_separate_locks(make: Make) -> None:
    one, two = make(), make()
    async with one.lock("/a"), two.lock("/a"):
        await one.write_bytes("a", b"1")
        await two.write_bytes("a", b"2")
    assert await one.read_bytes("a") == b"2", "the last write wins, as documented"
    assert "write the same file at the same time overwrite each other" in " ".join((ContainerEnv.__doc__ or "").split())
    await asyncio.gather(output(one, "echo 3 > b"), output(two, "echo 4 > c"))
    assert await output(one, "cat b c") == await output(two, "cat b c") == "3\n4\n"
    assert one.container != two.container


async def test_changes_of_guarded_files_are_undone(make: Make, project: Path) -> None:
    (project / ".agent").mkdir()
    (project / ".agent" / "settings.json").write_text("{}")
    env = make()

    result = await env.run("echo x > .mcp.json; echo x > .agent/settings.json; echo x > AGENTS.md", timeout=120)

    assert sorted(p.name for p in project.iterdir()) == [".agent", "AGENTS.md"]
    assert (project / ".agent" / "settings.json").read_text() == "{}"
    assert ".mcp.json" in result.stderr.text
