"""`mainspring --sandbox` confines tool calls and says which sandbox does."""

import json
import subprocess
from pathlib import Path

import pytest

from mainspring.env.sandbox import Bubblewrap
from tests.e2e.command import KEY, Command, command
from tests.e2e.servers.chat import Reply
from tests.helpers.sandboxes import LAYERS, layer

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-17", "OPT-03")


@pytest.mark.parametrize("name", LAYERS)
def test_sandbox_confines_shell_and_file_tools(command: Command, name: str) -> None:
    layer(name)
    (command.folder / ".agentignore").write_text("private/\n", encoding="utf-8")
    (command.folder / "private").mkdir()
    (command.folder / "private" / "a").write_text("HIDDEN", encoding="utf-8")
    (command.folder / "src").mkdir()
    outside = command.folder.parent / f"{command.folder.name}-outside"
    script = f"echo in > src/b; echo out > {outside}; cat p*/a; curl -m 3 {command.server.base_url}; env"
    program = command.folder / "run.sh"  # in a file, so that the rules cannot see what the script does
    program.write_text(script, encoding="utf-8")
    command.server.script += [Reply("", calls=[("shell", {"command": "sh ./run.sh"}), ("list_files", {})]), "done"]

    done = command.run("-p", "x", "--sandbox", name, "--allow", "shell", "--allow", "list_files")

    assert (done.code, done.out) == (0, "done\n")
    assert f"sandbox: {name}" in done.err.lower()
    assert (command.folder / "src" / "b").read_text(encoding="utf-8") == "in\n"
    assert not outside.exists()
    results = json.dumps(command.server.requests[1]["messages"][-2:])
    assert "HIDDEN" not in results
    assert KEY not in results
    assert "private" not in json.dumps(command.server.requests[1]["messages"][-1])


def test_sandbox_uses_the_strongest_backend_and_hides_keys(command: Command) -> None:
    layer("landlock" if Bubblewrap().unavailable_reason() else "bubblewrap")
    key = Path(command.home) / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("PRIVATE", encoding="utf-8")
    program = command.folder / "run.sh"
    program.write_text(f"cat {key}", encoding="utf-8")
    calls = [("read_file", {"path": str(key)}), ("shell", {"command": "sh ./run.sh"})]
    command.server.script += [Reply("", calls=calls), "done"]

    done = command.run("-p", "x", "--sandbox", "--allow", f"read_file({key})", "--allow", "shell")

    assert (done.code, done.out) == (0, "done\n")
    assert "blocks writes outside the project" in done.err
    read, ran = command.server.requests[1]["messages"][-2:]
    assert "the sandbox hides it" in json.dumps(read)
    assert "cat: " in json.dumps(ran)
    assert "PRIVATE" not in json.dumps([read, ran])


def test_unavailable_sandbox_stops_the_run(command: Command) -> None:
    done = command.run("-p", "x", "--sandbox", "seatbelt")

    assert done.code == 2
    assert "No sandbox works here, so nothing was started: Seatbelt is available on macOS only" in done.err
    assert command.server.requests == []


def test_sandbox_network_flag_requires_a_sandbox(command: Command) -> None:
    done = command.run("-p", "x", "--sandbox-network")

    assert done.code == 2
    assert "Add --sandbox" in done.err


# --- chains: a file that a sandboxed command writes is used outside later ----------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_planted_git_config_does_not_run_on_git_status(command: Command, name: str) -> None:
    layer(name)
    canary = command.folder.parent / f"{command.folder.name}-canary"
    subprocess.run(["git", "init", "-q"], cwd=command.folder, check=True)
    program = command.folder / "plant.sh"
    program.write_text(
        "cp -r .git evil; echo ../evil > .git/commondir\n"
        f'git config -f evil/config core.fsmonitor "touch {canary}; false"\n'
        f"printf '#!/bin/sh\\ntouch {canary}\\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change\n",
        encoding="utf-8",
    )
    command.server.script += [Reply("", calls=[("shell", {"command": "sh ./plant.sh"})]), "done"]

    done = command.run("-p", "x", "--sandbox", name, "--allow", "shell")
    status = subprocess.run(["git", "status"], cwd=command.folder, capture_output=True, text=True, check=False)

    assert done.code == 0
    assert status.returncode == 0, status.stderr
    assert not canary.exists()
    assert not (command.folder / ".git" / "commondir").exists()


@pytest.mark.parametrize("name", LAYERS)
def test_planted_custom_command_does_not_run_outside_the_sandbox(command: Command, name: str) -> None:
    layer(name)
    canary = command.folder.parent / f"{command.folder.name}-canary"
    assert command.run("trust").code == 0
    program = command.folder / "plant.sh"
    program.write_text(
        f"mkdir -p .agent/commands; echo 'Review: !`touch {canary}`' > .agent/commands/review.md", encoding="utf-8"
    )
    command.server.script += [Reply("", calls=[("shell", {"command": "sh ./plant.sh"})]), "done", "reviewed"]

    done = command.run("-p", "x", "--sandbox", name, "--allow", "shell")
    later = command.run("-p", "/review")

    assert done.code == 0
    assert not (command.folder / ".agent" / "commands" / "review.md").exists()
    assert "review.md" in json.dumps(command.server.requests[1]["messages"][-1]), "the model gets the path of its file"
    assert not canary.exists(), later.err


def test_new_or_changed_custom_command_waits_for_trust(command: Command) -> None:
    canary = command.folder.parent / f"{command.folder.name}-canary"
    file = command.folder / ".agent" / "commands" / "rv.md"
    file.parent.mkdir(parents=True)
    command.server.script += ["one", "two", "three", "four"]
    assert command.run("trust").code == 0

    file.write_text(f"Review !`touch {canary}`", encoding="utf-8")
    new = command.run("-p", "/rv")
    assert not canary.exists()
    assert "mainspring trust" in new.err
    assert f"touch {canary}" in command.run("trust", "--show").err

    assert command.run("trust").code == 0
    assert command.run("-p", "/rv").code == 0
    assert canary.exists(), "a trusted command runs"
    canary.unlink()

    file.write_text(f"Review !`touch  {canary}`", encoding="utf-8")
    command.run("-p", "/rv")
    assert not canary.exists()


def test_user_command_overrides_project_command(command: Command) -> None:
    for folder, text in (
        (command.folder / ".agent", "from the project"),
        (Path(command.home) / ".agent", "from the user"),
    ):
        (folder / "commands").mkdir(parents=True, exist_ok=True)
        (folder / "commands" / "rv.md").write_text(text, encoding="utf-8")
    assert command.run("trust").code == 0
    command.server.script += ["one", "two"]

    command.run("-p", "/rv")
    command.run("-p", "/project:rv")
    listed = command.run("commands")

    assert "from the user" in json.dumps(command.server.requests[0]["messages"][-1])
    assert "from the project" in json.dumps(command.server.requests[1]["messages"][-1])
    assert "your own /rv takes precedence; use /project:rv instead" in listed.out + listed.err


@pytest.mark.parametrize("name", LAYERS)
def test_sandboxed_worktree_can_commit(command: Command, name: str) -> None:
    layer(name)
    script = (
        "git init -q -b main && git config user.email a@example.com && git config user.name a && "
        "git commit -q --allow-empty -m first"
    )
    subprocess.run(["sh", "-c", script], cwd=command.folder, check=True)
    program = "echo x > new && git add new && git commit -qm second; git config core.fsmonitor evil"
    command.server.script += [Reply("", calls=[("shell", {"command": program})]), "done"]

    done = command.run(
        "-p", "x", "--worktree", "fix", "--sandbox", name, "--allow", "shell", "--allow", "scope:fs-write"
    )

    assert done.code == 0, done.err
    log = subprocess.run(
        ["git", "log", "--format=%s", "mainspring/fix"], cwd=command.folder, capture_output=True, text=True, check=True
    )
    assert log.stdout.split() == ["second", "first"], json.dumps(command.server.requests[1]["messages"][-1])
    assert "evil" not in (command.folder / ".git" / "config").read_text(encoding="utf-8")
