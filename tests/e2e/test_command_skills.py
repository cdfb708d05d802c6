"""``mainspring skills`` as a process: for a shell, a script, and a user at a terminal."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import Command, command
from tests.requires import on_posix

__all__ = ["command"]


def write_skill(folder: Path, body: str = "Do it.\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {folder.name}\ndescription: Does {folder.name}. Use it often.\n---\n"
    (folder / "SKILL.md").write_text(head + body, encoding="utf-8")
    return folder


@pytest.mark.covers("SKL-38", "OPT-06")
def test_skill_is_installed_from_a_git_repository(command: Command) -> None:
    source = write_skill(command.folder.parent / "pdf")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=source, check=True, capture_output=True)

    unconfirmed = command.run("skills", "install", f"file://{source}")  # without a terminal, nothing can confirm
    assert (unconfirmed.code, unconfirmed.out) == (1, "")
    assert "Not confirmed" in unconfirmed.err
    done = command.run("skills", "install", f"file://{source}", "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith("pdf: installed ")
    assert "Does pdf." in command.run("skills").out


@pytest.mark.covers("SKL-21", "SKL-38")
def test_skills_validate_exit_codes_match_the_reference(command: Command) -> None:
    write_skill(command.folder / "good")
    (command.folder / "bad").mkdir()
    (command.folder / "bad" / "SKILL.md").write_text("no head\n")
    assert command.run("skills", "validate", "good").code == 0
    assert command.run("skills", "validate", "bad").code == 1
    assert command.run("skills", "validate", "nowhere").code == 2


@pytest.mark.covers("SKL-38")
@on_posix
@pytest.mark.parametrize(("answer", "installed"), [("n", False), ("y", True)])
def test_skills_install_asks_for_confirmation_on_a_terminal(command: Command, answer: str, installed: bool) -> None:
    write_skill(command.folder / "a" / "pdf")
    leader, follower = os.openpty()
    try:
        os.write(leader, f"{answer}\n".encode())
        done = command.run("skills", "install", "a", stdin=follower)
    finally:
        os.close(leader)
        os.close(follower)
    assert "Install pdf? (y/N)" in done.err
    assert (done.code == 0, (command.home / ".agent" / "skills" / "pdf").exists()) == (installed, installed)
