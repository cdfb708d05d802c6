"""Parts that can be tested without a sandbox: the policy of a project, Landlock rules, and the macOS profile."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mainspring.env.sandbox import SandboxEnv, SandboxPolicy, Seatbelt
from mainspring.env.sandbox.backend import SandboxReport
from mainspring.env.sandbox.landlock import landlock_rules
from mainspring.env.sandbox.policy import make_policy
from mainspring.env.sandbox.seatbelt import build_profile

pytestmark = pytest.mark.covers("EXE-03", "BYD-17")


def build_policy(folder: Path, home: Path, **options: Any) -> SandboxPolicy:
    folder.mkdir(exist_ok=True)
    return make_policy(str(folder), home=str(home), tmp="/private", **options)


def test_policy_of_a_project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".tool/bin", ".tool/lib", "bin", ".local/bin", ".local/share/keyrings", ".ssh", ".config/git"):
        (home / name).mkdir(parents=True)
    (home / ".gitconfig").write_text("")
    path = [f"{home}/{name}" for name in (".tool/bin", "bin", ".local/bin")]
    monkeypatch.setenv("PATH", os.pathsep.join([*path, "relative/bin", ""]))
    found = build_policy(tmp_path / "project", home)
    in_home = [os.path.relpath(p, home) for p in found.readable if p.startswith(f"{home}/")]
    assert in_home == [".config/git", ".gitconfig", ".local/bin", ".tool", "bin"], "only the folders that programs need"
    assert found.writable == (str(tmp_path / "project"),)
    assert str(home / ".ssh") in found.hidden
    for path in ("/usr/bin/env", "/etc/hostname", str(home / ".tool/lib/x"), str(tmp_path / "project/x"), "/private/x"):
        assert found.can_read(path), path
    for path in (str(home / ".ssh/id"), str(home / ".local/share/x"), str(home), "/", "/root2", f"{tmp_path}/project2"):
        assert not found.can_read(path), path
    assert found.can_write(str(tmp_path / "project/x"))
    assert not found.can_write("/usr/bin/env")


def test_hidden_paths_override_readable_paths(tmp_path: Path, home: Path) -> None:
    (home / ".ssh").mkdir()
    (tmp_path / "project" / "in").mkdir(parents=True)
    found = build_policy(tmp_path / "project", home, readable=["~/.ssh", str(home)], hidden=["in"])
    for path in (home / ".ssh" / "x", tmp_path / "project" / "in" / "x"):
        assert not found.can_read(str(path))
        assert not found.can_write(str(path))
    assert found.can_read(str(home / "x"))


def test_project_reached_through_a_symlink(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tmp_path}/link/bin")
    found = build_policy(tmp_path / "project", home)
    assert str(tmp_path / "tools") in found.readable
    assert (str(tmp_path / "link"), str(tmp_path / "tools")) in [(link.path, link.target) for link in found.links]


@pytest.mark.parametrize(
    ("gitdir", "readable"),
    [
        ("../repo/.git/worktrees/x", "repo/.git"),
        ("../repo/.git/modules/x", "repo/.git/modules/x"),
        ("../elsewhere", ""),
    ],
)
def test_policy_of_a_worktree_includes_its_repository(tmp_path: Path, home: Path, gitdir: str, readable: str) -> None:
    for name in ("repo/.git/worktrees/x", "repo/.git/modules/x", "elsewhere", "project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project" / ".git").write_text(f"gitdir: {gitdir}\n")
    found = build_policy(tmp_path / "project", home).readable
    below = [os.path.relpath(p, tmp_path) for p in found if p.startswith(f"{tmp_path}/")]
    assert below == ([readable] if readable else [])


def test_landlock_rules_leave_out_hidden_paths(tmp_path: Path) -> None:
    for name in ("a", "b/secret", "b/open"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("/etc")
    secret = str(tmp_path / "b" / "secret")
    found = landlock_rules(
        SandboxPolicy(writable=(str(tmp_path),), readable=(), hidden=(secret,), tmp="/private", home="/home")
    )
    below = {(kind, os.path.relpath(path, tmp_path)) for kind, path in found if path.startswith(str(tmp_path))}
    assert below == {("list", "."), ("write", "a"), ("list", "b"), ("write", "b/open")}


def test_seatbelt_profile() -> None:
    found = build_profile(
        SandboxPolicy(
            writable=('/Users/me/a "b\\c',),
            readable=("/usr", "/opt"),
            hidden=("/Users/me/.ssh",),
            guarded=("/Users/me/p/.git/hooks",),
            tmp="/private/tmp/x",
            home="/Users/me",
        )
    )
    assert found.startswith("(version 1)\n(deny default)\n")
    assert '(subpath "/Users/me/a \\"b\\\\c")' in found
    assert '(allow file-write*\n  (subpath "/Users/me/a \\"b\\\\c")\n  (subpath "/private/tmp/x"))' in found
    assert '(deny file-write*\n  (subpath "/Users/me/p/.git/hooks"))' in found
    assert found.endswith('(deny file-read* file-write*\n  (subpath "/Users/me/.ssh"))\n'), "the last rule wins"
    assert "network" not in found
    assert found.count("(") == found.count(")")


def test_seatbelt_profile_with_network() -> None:
    open_box = SandboxPolicy(writable=("/p",), readable=("/usr",), tmp="/private/x", home="/h", network=True)
    assert "(allow network*)" in build_profile(open_box)
    state = Seatbelt().state(open_box)
    assert (state.tcp, state.udp, state.sockets, state.processes) == (False, False, False, False)
    assert Seatbelt().wrap(["make", "x"], "/p", open_box)[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert Seatbelt().wrap(["make", "x"], "/p", open_box)[3:] == ["make", "x"]


class EchoBackend:
    """A backend that prints the program instead of running it."""

    has_private_tmp = False

    def unavailable_reason(self) -> str | None:
        return None

    def state(self, box: SandboxPolicy) -> SandboxReport:
        return SandboxReport(layer="echo")

    def wrap(self, command: Sequence[str], cwd: str, box: SandboxPolicy) -> list[str]:
        return ["echo", "in", os.path.basename(cwd), *command]


async def test_backend_can_be_replaced(tmp_path: Path, home: Path) -> None:
    env = SandboxEnv(tmp_path, provider=EchoBackend(), home=str(home))
    result = await env.run(["ls", "-l"])
    await env.aclose()
    assert result.stdout.text == f"in {tmp_path.name} ls -l\n"
    assert env.state().layer == "echo"
