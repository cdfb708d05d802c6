"""Git that only reads asks where the repository's own settings may make it run something."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mainspring.env.local import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.permissions.git_config import read_settings
from mainspring.permissions.git_repository import parse_index
from mainspring.tools.builtin import shell

PLAIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n'


async def outcome(line: str, files: dict[str, str], *, cwd: str = "/project") -> str:
    env = MemoryEnv({"a.txt": "a", **{name: text.encode("latin-1") for name, text in files.items()}}, cwd=cwd)
    return (await Permissions().decide("shell", {"command": line}, env=env, definition=shell)).outcome


def repository(config: str = PLAIN, at: str = ".git") -> dict[str, str]:
    return {f"{at}/HEAD": "ref: refs/heads/main", f"{at}/config": config}


@pytest.mark.parametrize("line", ["git status", "git log --oneline", "git diff"])
async def test_a_plain_repository(line: str) -> None:
    assert await outcome(line, repository()) == "allow"
    assert await outcome(line, {}) == "allow"  # git finds none, and says so


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\tfsmonitor = ./run",
        "[CORE]\n\tFsMonitor=./run",
        "[core] fsmonitor = ./run",
        "[diff]\n\texternal = ./run",
        '[diff "x"]\n\ttextconv = ./run',
        '[filter "x"]\n\tclean = ./run',
        "[core]\n\tpager = ./run",
        "[pager]\n\tlog = ./run",
        "[include]\n\tpath = ../run",
        '[includeIf "gitdir:/"]\n\tpath = ../run',
        "[gpg]\n\tprogram = ./run",
        "[log]\n\tshowSignature = true",
        "[core]\n\tworktree = /",
        "[alias]\n\tx = !./run",
        "[core]\n\tbare = false \\\n fsmonitor = x",
        "[user]\n\tname = x\n[core]sshCommand = ./run",
        "core.fsmonitor = x",
        "[core",
    ],
)
@pytest.mark.covers("SEC-01")
async def test_settings_that_run_something(config: str) -> None:
    assert read_settings(config).unusual or read_settings(config).worktrees
    assert await outcome("git status", repository(config)) == "ask"


@pytest.mark.parametrize(
    "files",
    [
        {**repository(), ".git/hooks/post-index-change": "#!/bin/sh"},
        {**repository(), ".git/index": "DIRC\0\0à\0sub", **repository("[core]\n\tfsmonitor = ./run", "sub/.git")},
        {**repository(), ".git/sharedindex.1": "", **repository("[core]\n\tfsmonitor = ./run", "sub/.git")},
        {**repository(), ".git/config.worktree": "[core]\n\tfsmonitor = ./run"},
        {"HEAD": "ref: x", "objects/a": "", "refs/a": "", "config": "[core]\n\tfsmonitor = ./run"},
        {".git": "gitdir: elsewhere", **repository("[core]\n\tfsmonitor = ./run", "elsewhere")},
        {".git": "gitdir: a/b", "a/b/commondir": "..\n", **repository("[core]\n\tfsmonitor = ./run", "a")},
    ],
)
async def test_other_places_of_settings(files: dict[str, str]) -> None:
    assert await outcome("git status", files) == "ask"


async def test_a_repository_that_is_no_part_of_it_does_not_matter() -> None:
    files = {**repository(), **repository("[core]\n\tfsmonitor = ./run", "sub/.git")}

    assert await outcome("git status", files) == "allow"
    assert await outcome("cd sub && git status", files) == "ask"


async def test_a_worktree_of_a_plain_repository() -> None:
    files = {
        ".git": "gitdir: /main/.git/worktrees/x",
        "/main/.git/worktrees/x/commondir": "../..",
        "/main/.git/worktrees/x/gitdir": "/project/.git",
        "/main/.git/config": PLAIN,
    }

    assert await outcome("git status", files) == "allow"


async def test_what_git_may_show_of_secrets_asks() -> None:
    tracked = {**repository(), ".env": "KEY=1"}
    left_out = {**tracked, ".gitignore": ".env\n"}

    assert await outcome("git diff", tracked) == "ask"
    assert await outcome("git status", tracked) == "allow"
    assert await outcome("git diff", left_out) == "allow"
    assert await outcome("git show HEAD:.env", left_out) == "ask"


async def test_a_repository_that_is_more_than_the_project() -> None:
    files = {"/project/" + name: text for name, text in repository().items()}

    assert await outcome("git diff", files, cwd="/project/sub") == "ask"
    assert await outcome("git status", files, cwd="/project/sub") == "allow"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a file that an ignore file names."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a\n")
    git(tmp_path, "add", "src")
    return tmp_path


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout


async def asked(line: str, folder: Path) -> bool:
    env = LocalEnv(str(folder))
    return (await Permissions().decide("shell", {"command": line}, env=env, definition=shell)).outcome == "ask"


async def test_what_git_holds_in_spite_of_an_ignore_file_asks(checkout: Path) -> None:
    assert not await asked("git grep KEY", checkout)

    git(checkout, "add", "-f", ".env")

    assert await asked("git grep KEY", checkout)
    assert await asked("git diff --cached", checkout)
    assert not await asked("git status", checkout)


async def test_ignore_files_do_not_count_for_a_repository_inside_or_for_a_pattern_of_names(checkout: Path) -> None:
    assert not await asked("rg -. KEY", checkout)
    assert not await asked("rg -g '*.py' -g '!x' KEY", checkout)
    assert not await asked("rg -. -g '!x' KEY", checkout)
    assert await asked("rg -g '*' KEY", checkout)
    assert await asked("rg -g '.[e]nv' KEY", checkout)

    git(checkout, "init", "-q", "inner")
    (checkout / "inner/.env").write_text("KEY=2\n")

    assert await asked("rg -. KEY", checkout)
    assert await asked("rg -. KEY inner", checkout)
    assert await asked("cd inner && rg -. KEY", checkout)


async def test_ignore_files_do_not_count_outside_a_repository(tmp_path: Path, checkout: Path) -> None:
    folder = checkout / "src"
    git(folder, "init", "-q")
    shutil.rmtree(checkout / ".git")

    assert await asked("cd src && rg -. KEY ..", checkout)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_the_paths_of_an_index(tmp_path: Path, version: int, hashes: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={hashes}")
    names = sorted([f"f{'o' * n}/x{'y' * n}" for n in range(20)] + ["ü", "a b"])
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    if version == 3:
        git(tmp_path, "update-index", "--skip-worktree", names[3])
    git(tmp_path, "update-index", f"--index-version={max(version, 2)}")
    index = (tmp_path / ".git/index").read_bytes()

    assert index[7] == version
    assert parse_index(index) is not None
    assert sorted(parse_index(index) or ()) == names
    assert parse_index(index[:-7]) is None
    assert parse_index(b"") is None


def test_only_a_line_end_ends_a_line_of_settings() -> None:
    assert read_settings("[core]\n# \x0c[color]\nfsmonitor = ./run").unusual == "core.fsmonitor"
    assert read_settings("[core]\n# \u2028[color]\nfsmonitor = ./run").unusual == "core.fsmonitor"
