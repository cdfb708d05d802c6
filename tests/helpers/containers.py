"""Container engines for tests: podman if it is installed, and a fake docker without containers."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requires import skip_missing

ENGINES = ("fake_docker", "busybox_docker", *(("podman",) if os.environ.get("TEST_PODMAN") else ()))
"""The engine fixtures. A real engine runs only on request, because it may not work in a virtual machine."""

IMAGE = "localhost/mainspring-test:1"
"""An image with only busybox."""

FAKE = r"""#!/bin/sh
# Takes the arguments of docker and runs everything here.
case $1 in
    version) [ "$FAKE_DOCKER_IS_DOWN" ] && { echo "Cannot connect to the Docker daemon" >&2; exit 1; }; echo 1.0 ;;
    run)
        echo "$*" >>"$0.log"
        while [ "$1" != --entrypoint ]; do shift; done
        [ "$3" = missing ] && { echo "No such image: missing" >&2; exit 125; }
        program=$2; shift 3; exec "$program" "$@" ;;
    exec)
        shift
        [ -e "$0.path" ] && PATH=$(cat "$0.path")
        while :; do
            case $1 in
                -i) shift ;;
                -w) cd "$2" || exit 126; shift 2 ;;
                -e) case $2 in *=*) export "$2" ;; esac; shift 2 ;;
                *) break ;;
            esac
        done
        shift; exec "$@" ;;
esac
"""


@pytest.fixture
def fake_docker(tmp_path: Path) -> str:
    """Return a program that accepts the arguments of docker but has no engine."""
    folder = tmp_path.parent / f"{tmp_path.name}-engine"
    folder.mkdir(exist_ok=True)
    program = folder / "docker"
    program.write_text(FAKE)
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def busybox_docker(fake_docker: str) -> str:
    """Return the fake docker with only busybox programs, as in small images."""
    busybox = shutil.which("busybox")
    if busybox is None:
        skip_missing("busybox-static")
    _link_programs(busybox, Path(fake_docker).parent / "bin")
    Path(f"{fake_docker}.path").write_text(f"{Path(fake_docker).parent}/bin")
    return fake_docker


_PATIENCE = 6.0  # seconds for each engine call during setup; twice that is less than the timeout of a test


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield podman with its own storage that contains `IMAGE`; skip the test if it cannot run a container."""
    # An installed engine may not work in a virtual machine, so it is used only on request.
    program, busybox = shutil.which("podman"), shutil.which("busybox")
    if not os.environ.get("TEST_PODMAN") or program is None or busybox is None:
        skip_missing("TEST_PODMAN=1, podman and busybox-static")
    folder = tmp_path_factory.mktemp("podman")
    # A small virtual machine may reject high limits, and a runtime may not support its control groups.
    runtime = "runc" if shutil.which("runc") else "crun"
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\nruntime = "{runtime}"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
    )
    wrapper = folder / "podman"
    wrapper.write_text(
        f"#!/bin/sh\nexport CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf\n"
        f'exec {program} "$@"\n'
    )
    wrapper.chmod(0o755)
    try:
        _import(wrapper, busybox, folder)
        tried = _call(wrapper, "run", "--rm", "--network", "none", IMAGE, "true")
    except subprocess.TimeoutExpired:
        skip_missing(f"a podman that answers within {_PATIENCE:.0f} seconds")
    if tried.returncode:
        skip_missing(f"a podman that can run a container: {tried.stderr.strip()}")
    yield str(wrapper)
    with contextlib.suppress(subprocess.TimeoutExpired):
        _call(wrapper, "rm", "-fa")


def _import(wrapper: Path, busybox: str, folder: Path) -> None:
    root = folder / "root"
    for name in ("bin", "tmp", "root", "etc"):
        (root / name).mkdir(parents=True)
    _link_programs(busybox, root / "bin")
    subprocess.run(["tar", "-C", str(root), "-cf", str(folder / "image.tar"), "."], check=True)
    _call(wrapper, "import", str(folder / "image.tar"), IMAGE)


def _call(*command: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=_PATIENCE
    )


def _link_programs(busybox: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copy(busybox, folder / "busybox")
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            os.symlink("busybox", folder / name)
