"""If Mainspring is killed, sandboxed commands leave no files that run later, and no edit of the user is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mainspring.env.beneath import Folder
from mainspring.env.sandbox import SandboxBackend, SandboxEnv
from mainspring.env.sandbox.restore import RestoringGuard
from tests.unit.env.test_process import wait_until
from tests.unit.env.test_sandbox_guarded import base_folder, guarded_files, prepared_project, project, provider

__all__ = ["base_folder", "prepared_project", "project", "provider"]

pytestmark = pytest.mark.covers("EXE-03", "BYD-17")

PLANT = (
    "mkdir -p .agent/commands sub; echo EVIL > .agent/commands/x.md; echo EVIL > .git/commondir; echo EVIL > sub/AGENTS.md;"
    "echo EVIL >> kept/AGENTS.md; ln -s /tmp .git/refs/out; "
)


def kill_during_script(project: Path, provider: SandboxBackend, script: str) -> None:
    """Run a script in a sandbox of another program and kill the program once the file ``up`` exists."""
    code = f"""
        import asyncio
        from mainspring.env.sandbox import *
        env = SandboxEnv({str(project)!r}, provider={type(provider).__name__}())
        asyncio.run(env.run({script!r} + "echo > up; exec sleep 60"))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) as program:
        asyncio.run(wait_until((project / "up").exists))
        program.send_signal(signal.SIGKILL)
    (project / "up").unlink()


def list_records(base_folder: Path) -> list[str]:
    folder = base_folder / "home" / ".agent" / "sandbox"
    return os.listdir(folder) if folder.exists() else []


def test_next_environment_undoes_changes_of_a_killed_one(
    provider: SandboxBackend, project: Path, base_folder: Path
) -> None:
    before = guarded_files(project)
    kill_during_script(project, provider, PLANT)
    assert list_records(base_folder)

    env = SandboxEnv(project, provider=provider)
    asyncio.run(env.aclose())

    assert guarded_files(project) == before
    assert ".agent/commands/x.md" in env.recovered
    assert "mainspring-moved-" in env.recovered
    assert list_records(base_folder) == []


def test_old_record_does_not_undo_changes_by_the_user(
    provider: SandboxBackend, project: Path, base_folder: Path
) -> None:
    kill_during_script(project, provider, "true; ")
    [record] = (base_folder / "home" / ".agent" / "sandbox").iterdir()
    os.utime(record, (1, 1))
    (project / ".mcp.json").write_text("mine")
    (project / "kept" / "AGENTS.md").write_text("mine")

    env = SandboxEnv(project, provider=provider)
    asyncio.run(env.aclose())

    assert (project / ".mcp.json").read_text() == "mine"
    assert (project / "kept" / "AGENTS.md").read_text() == "mine"
    assert env.recovered == ""


def test_finished_command_leaves_no_record(provider: SandboxBackend, project: Path, base_folder: Path) -> None:
    async def run_to_the_end() -> list[str]:
        env = SandboxEnv(project, provider=provider)
        running = asyncio.ensure_future(env.run("echo > up; sleep 0.5"))
        await wait_until((project / "up").exists)
        during = list_records(base_folder)
        await running
        await env.aclose()
        return during

    assert len(asyncio.run(run_to_the_end())) == 1
    assert list_records(base_folder) == []


async def test_concurrent_environments_do_not_restore_planted_files(provider: SandboxBackend, project: Path) -> None:
    before = guarded_files(project)
    one, two = SandboxEnv(project, provider=provider), SandboxEnv(project, provider=provider)
    first = asyncio.ensure_future(one.run(PLANT + "echo > up; until test -e go; do sleep 0.05; done"))
    await wait_until((project / "up").exists)
    second = asyncio.ensure_future(two.run("echo > up2; until test -e go2; do sleep 0.05; done"))
    await wait_until((project / "up2").exists)
    (project / "go").touch()
    await first
    (project / "go2").touch()
    await second
    await one.aclose()
    await two.aclose()

    assert guarded_files(project) == before


async def test_edits_by_the_user_during_a_command_are_kept(provider: SandboxBackend, project: Path) -> None:
    env = SandboxEnv(project, provider=provider)
    running = asyncio.ensure_future(env.run("echo > up; until test -e go; do sleep 0.05; done"))
    await wait_until((project / "up").exists)
    (project / "sub").mkdir()
    for path in (".mcp.json", "sub/AGENTS.md", "kept/AGENTS.md", ".git/commondir", ".git/hooks/pre-commit"):
        (project / path).write_text(f"mine {path}")
    (project / "go").touch()
    result = await running
    await env.aclose()

    moved = result.stderr.text.partition("New content is in ")[2].split(". ")[0]
    texts = [p.read_bytes() for folder in (project, Path(moved)) for p in folder.rglob("*") if p.is_file()]
    for path in (".mcp.json", "sub/AGENTS.md", "kept/AGENTS.md", ".git/commondir", ".git/hooks/pre-commit"):
        assert f"mine {path}".encode() in texts
    assert not (project / ".git" / "commondir").exists()


async def test_earlier_moved_files_are_not_replaced(provider: SandboxBackend, project: Path) -> None:
    env = SandboxEnv(project, provider=provider)
    results = [await env.run(f"echo {n} > .mcp.json", timeout=120) for n in range(3)]
    await env.aclose()

    moved = Path(results[0].stderr.text.partition("New content is in ")[2].split(". ")[0])
    assert sorted(p.read_text() for p in moved.rglob(".mcp.json*")) == ["0\n", "1\n", "2\n"]


async def test_file_that_cannot_be_moved_is_renamed(
    provider: SandboxBackend, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    env = SandboxEnv(project, provider=provider)
    monkeypatch.setattr("mainspring.env.sandbox.restore._move", fail)
    await env.run("echo mine > .mcp.json", timeout=120)
    await env.aclose()

    assert not (project / ".mcp.json").exists()
    assert (project / ".mcp.json.mainspring-moved").read_text() == "mine\n"


def working_folder(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


@pytest.mark.parametrize("target", ["moved", "changed"])
async def test_folder_replaced_by_a_symlink_is_not_followed(
    provider: SandboxBackend, project: Path, base_folder: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    outside = base_folder / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("of the user")
    guard = RestoringGuard((str(project),), (), restores=True, private=lambda: str(base_folder))
    guard.begin()
    (project / "kept" / "AGENTS.md").write_text("EVIL")
    open_folder = Folder.__init__

    def swap(self: Folder, path: str, *, parents: bool = False) -> None:
        if path == str(project / "kept") and not (project / "kept").is_symlink() and (target == "moved" or parents):
            (project / "kept").rename(project / "k2")
            (project / "kept").symlink_to(outside)
        open_folder(self, path, parents=parents)

    monkeypatch.setattr(Folder, "__init__", swap)
    guard.end()

    assert [(p.name, p.read_text()) for p in outside.iterdir()] == [("AGENTS.md", "of the user")]


LATE = "while :; do mkdir -p .agent; echo EVIL > .agent/x; echo EVIL > .mcp.json; done"


@pytest.mark.parametrize(
    "start", ["{} &", "setsid sh -c '{}' &", "(setsid env -i /bin/sh -c '{}' &)", "(trap '' TERM HUP; {}) &"]
)
async def test_background_process_cannot_write_after_the_check(
    provider: SandboxBackend, project: Path, start: str
) -> None:
    env = SandboxEnv(project, provider=provider)
    result = await env.run(start.format(LATE) + " sleep 0.1", timeout=120)
    running = [pid for pid in os.listdir("/proc") if pid.isdigit() and working_folder(pid) == str(project)]
    await env.aclose()

    assert result.survivors == ()
    assert running == []
    assert not (project / ".agent").exists()
    assert not (project / ".mcp.json").exists()
