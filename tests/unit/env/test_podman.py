"""Containers of a real engine. They run only with `TEST_PODMAN=1`, which `make soak` sets."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mainspring.env.container import ContainerEnv
from tests.helpers.containers import IMAGE
from tests.unit.env.test_docker import make_environments, output
from tests.unit.env.test_process import wait_until
from tests.unit.env.test_sandbox import running_program

pytestmark = pytest.mark.soak

Make = Callable[..., ContainerEnv]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my, project"
    folder.mkdir()
    return folder


@pytest.fixture
async def make_real(podman: str, project: Path) -> AsyncIterator[Make]:
    """Return a function that creates environments with real isolation."""
    async for create in make_environments(podman, project):
        yield create


async def test_container_starts_on_first_use_and_stops_with_the_environment(make_real: Make, podman: str) -> None:
    env = make_real()
    assert env.container is None
    await env.write_bytes("a", b"1")
    assert env.container is None, "files of the project need no container"
    assert await output(env, "cat a") == "1"
    name = env.container
    assert name is not None
    assert name in list_containers(podman)
    await output(env, "sleep 100 & sleep 100 &")
    await env.aclose()
    assert name not in list_containers(podman)
    assert env.container is None


def list_containers(podman: str) -> str:
    listed = subprocess.run([podman, "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True, check=True)
    return listed.stdout


async def test_container_stops_when_the_program_is_killed(podman: str, project: Path) -> None:
    code = f"""
        import asyncio
        from mainspring.env.container import ContainerEnv as DockerEnv
        env = DockerEnv({IMAGE!r}, {str(project)!r}, engine={podman!r})
        asyncio.run(env.run("hostname; echo > up; sleep 100"))
    """
    with running_program([sys.executable, "-c", textwrap.dedent(code)]) as program:
        await wait_until((project / "up").exists)
        assert list_containers(podman)
        program.send_signal(signal.SIGKILL)
    await wait_until(lambda: not list_containers(podman))


async def test_environments_have_separate_containers(make_real: Make) -> None:
    one, two = make_real(), make_real()
    assert await output(one, "echo 1 > /tmp/x; cat /tmp/x") == "1\n"
    assert "No such file" in await output(two, "cat /tmp/x")
    assert one.container != two.container


async def test_container_cannot_read_the_host_or_use_the_network(make_real: Make, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("KEY")
    env = make_real()
    assert "KEY" not in await output(env, f"cat '{tmp_path}/outside'; cat ~/.ssh/*")
    assert (await output(env, "ls /sys/class/net")) == "lo\n"


async def test_file_methods_work_inside_a_container(make_real: Make) -> None:
    env = make_real()
    await env.write_bytes("/data/a", b"\0\xff123")
    assert await env.read_bytes("/data/a", offset=1) == b"\xff123"
    assert [e.name for e in await env.list_dir("/data")] == ["a"]
    assert (await env.stat("/data/a")).size == 5


async def test_symlink_out_of_the_project_is_resolved_inside_the_container(make_real: Make, project: Path) -> None:
    (project / "link").symlink_to("/etc")
    env = make_real()
    await output(env, "echo inside > /etc/hostname-of-test")
    assert await env.read_bytes("link/hostname-of-test") == b"inside\n"
    with pytest.raises(FileNotFoundError):
        await env.read_bytes("link/debian_version")
