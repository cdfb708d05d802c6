"""Fetching repositories over HTTPS and SSH, with clear errors and without password prompts."""

import asyncio
import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from mainspring.skills import fetch as git_module
from mainspring.skills.fetch import parse_spec
from mainspring.skills.install import open_source
from mainspring.skills.skill import SkillError
from tests.helpers.processes import ended
from tests.requires import on_posix, skip_missing
from tests.unit.skills.git_host import GitHost, git_host
from tests.unit.skills.test_install import commit, git, skill

pytestmark = [on_posix, pytest.mark.covers("OPT-06")]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for ``localhost``."""
    if shutil.which("openssl") is None:
        skip_missing("openssl")
    folder = tmp_path_factory.mktemp("certificate")
    made = folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        + [
            "-keyout",
            folder / "key.pem",
            "-out",
            made,
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ],
        check=True,
        capture_output=True,
    )
    return made


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A bare repository with two commits, and the ID of the older one."""
    skill(tmp_path / "source" / "pdf", body="Old.\n")
    older = commit(tmp_path / "source")
    git(tmp_path / "source", "tag", "v1")
    skill(tmp_path / "source" / "pdf", body="New.\n")
    commit(tmp_path / "source")
    bare = tmp_path / "root" / "skills.git"
    git(tmp_path, "clone", "-q", "--bare", "source", str(bare))
    git(bare, "update-server-info")
    return bare, older


@pytest.fixture
def host(repository: tuple[Path, str], certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[GitHost]:
    monkeypatch.setenv("GIT_SSL_CAINFO", str(certificate))
    monkeypatch.setenv("NO_PROXY", "localhost")
    with git_host(repository[0].parent, certificate) as made:
        yield made


async def fetch_text(address: str) -> str:
    """Return the text of the skill at an address."""
    async with open_source(parse_spec(address, cwd="/nowhere")) as source:
        offer = await source.list_skills()
        assert offer.names == {"pdf": "pdf"}
        with tempfile.TemporaryDirectory() as home:
            candidate = await source.stage("pdf", Path(home))
            return (candidate.staged / "SKILL.md").read_text()


async def fetch_error(address: str) -> str:
    with pytest.raises(SkillError) as caught:
        await fetch_text(address)
    return str(caught.value)


@pytest.mark.parametrize("smart", [True, False])
async def test_branches_tags_and_commits_are_fetched(host: GitHost, repository: tuple[Path, str], smart: bool) -> None:
    host.smart = smart
    older = repository[1]
    address = f"{host.url}/skills.git"
    assert "New." in await fetch_text(address)
    assert "New." in await fetch_text(f"{address}#main")
    for ref in ("v1", older, older[:12]):
        assert "Old." in await fetch_text(f"{address}#{ref}"), ref
    assert "couldn't find remote ref gone" in await fetch_error(f"{address}#gone")


async def test_missing_repository_or_login_is_an_error_without_a_prompt(host: GitHost) -> None:
    assert "the repository does not exist" in await fetch_error(f"{host.url}/other.git")
    host.password = "Basic " + base64.b64encode(b"me:right").decode()
    for ref in ("", "#main", "#0123456789"):
        before = len(host.requests)
        text = await fetch_error(f"{host.url}/skills.git{ref}")
        assert "requires a login, and Mainspring does not ask for one: log in with git first" in text
        assert len(host.requests) == before + 1  # no second attempt by another protocol


@pytest.mark.parametrize("password", ["right", "wrong"])
async def test_git_credentials_are_used(
    host: GitHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    host.password = "Basic " + base64.b64encode(b"me:right").decode()
    helper = tmp_path / "helper"
    helper.write_text(
        f'#!/bin/sh\n[ "$1" = get ] && [ "$GCM_INTERACTIVE" = never ] && echo username=me && echo password={password}\n'
    )
    helper.chmod(0o755)
    (tmp_path / "config").write_text(f'[credential]\n\thelper = "{helper}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    if password == "right":
        assert "New." in await fetch_text(f"{host.url}/skills.git")
    else:
        assert "requires a login" in await fetch_error(f"{host.url}/skills.git")


async def test_untrusted_or_wrong_certificate_is_rejected(host: GitHost, monkeypatch: pytest.MonkeyPatch) -> None:
    other = f"https://127.0.0.1:{host.port}/skills.git"
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert "not trusted or belongs to another host" in await fetch_error(other)
    monkeypatch.delenv("GIT_SSL_CAINFO")
    assert "not trusted or belongs to another host" in await fetch_error(f"{host.url}/skills.git")
    assert host.requests == []


async def test_redirect_to_plain_http_is_rejected(host: GitHost) -> None:
    host.moved = "http://localhost:9/skills.git/info/refs?service=git-upload-pack"
    assert "redirects to a URL that is neither https" in await fetch_error(f"{host.url}/skills.git")


async def test_missing_network_or_unknown_host_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as unused_socket:  # bound, but not listening
        unused_socket.bind(("127.0.0.1", 0))
        port = unused_socket.getsockname()[1]
        assert "is unreachable" in await fetch_error(f"https://127.0.0.1:{port}/a.git#main")
    assert "unknown host or no network" in await fetch_error("https://no-such-host.invalid/a.git")


@pytest.mark.parametrize(("name", "value"), [("_STALL_SECONDS", 1), ("_SECONDS", 4)])
async def test_unresponsive_host_times_out(
    host: GitHost, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(git_module, name, value)
    host.silent = True
    text = await fetch_error(f"{host.url}/skills.git#main")
    assert ("does not answer" in text) or ("took more than 4 seconds" in text)
    assert len(host.requests) == 1


SSH = """#!{python}
import os, subprocess, sys
with open({log!r}, "a") as log:
    log.write(repr(sys.argv[1:]) + "\\n")
{body}
"""
RUNS = 'os.chdir({root!r}); sys.exit(subprocess.call(["sh", "-c", sys.argv[-1]]))'
ASKS = """
assert os.environ["SSH_ASKPASS_REQUIRE"] == "never"
try:
    open("/dev/tty").read(1)
except OSError:
    sys.exit("Permission denied (publickey,password).")
"""
HANGS = 'open({root!r} + "/pid", "w").write(str(os.getpid())); import time; time.sleep(600)'


def install_fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """Install a program in place of ssh; return the log of its arguments."""
    program, log = tmp_path / "bin" / "ssh", tmp_path / "ssh.log"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        SSH.format(python=sys.executable, log=str(log), body=body.replace("{root!r}", repr(str(tmp_path / "root"))))
    )
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    return log


@pytest.mark.parametrize(
    ("address", "called"),
    [
        (
            "git@host.example:skills.git",
            ["git@host.example", "git-upload-pack 'skills.git'"],
        ),  # from the home folder there
        ("host.example:./skills.git#main", ["host.example", "git-upload-pack './skills.git'"]),
        (
            "ssh://me@host.example:2222{root}/skills.git#v1",
            ["-p", "2222", "me@host.example", "git-upload-pack '{root}/skills.git'"],
        ),
    ],
)
async def test_ssh_gets_the_host_and_path(
    repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, called: list[str]
) -> None:
    root = str(repository[0].parent)
    log = install_fake_ssh(tmp_path, monkeypatch, RUNS)
    text = await fetch_text(address.replace("{root}", root))
    assert ("Old." if "#v1" in address else "New.") in text
    first = log.read_text().splitlines()[0]
    assert all(repr(word.replace("{root}", root)) in first for word in called), first


async def test_ssh_login_is_an_error_without_a_prompt(
    repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_ssh(tmp_path, monkeypatch, ASKS)
    assert "requires a login, and Mainspring does not ask for one" in await fetch_error("git@host.example:skills.git")
    install_fake_ssh(tmp_path, monkeypatch, 'sys.exit("Host key verification failed.")')
    assert "the host's key is unknown" in await fetch_error("git@host.example:skills.git#main")
    install_fake_ssh(tmp_path, monkeypatch, RUNS)
    assert "the repository does not exist" in await fetch_error("git@host.example:gone.git")


async def test_cancelled_fetch_stops_ssh(
    repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_ssh(tmp_path, monkeypatch, HANGS)
    os.mkfifo(tmp_path / "root" / "pid")
    task = asyncio.ensure_future(fetch_text("git@host.example:skills.git"))
    pid = int(await asyncio.to_thread((tmp_path / "root" / "pid").read_text))
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert await asyncio.to_thread(ended, pid)
