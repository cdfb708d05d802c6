"""Read-only git commands ask if settings of the repository may run a program."""

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
from tests.unit.permissions.harness import make_index

PLAIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n'


async def decide_line(line: str, files: dict[str, str], *, cwd: str = "/project") -> str:
    env = MemoryEnv({"a.txt": "a", **{name: text.encode("latin-1") for name, text in files.items()}}, cwd=cwd)
    return (await Permissions().decide("shell", {"command": line}, env=env, definition=shell)).outcome


def repository_files(config: str = PLAIN, at: str = ".git") -> dict[str, str]:
    return {f"{at}/HEAD": "ref: refs/heads/main", f"{at}/config": config}


@pytest.mark.parametrize("line", ["git status", "git log --oneline", "git diff"])
async def test_plain_repository_is_allowed(line: str) -> None:
    assert await decide_line(line, repository_files()) == "allow"
    assert await decide_line(line, {}) == "allow"  # git reports that it found no repository


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
async def test_settings_that_run_a_program_ask(config: str) -> None:
    assert read_settings(config).unusual or read_settings(config).worktrees
    assert await decide_line("git status", repository_files(config)) == "ask"


@pytest.mark.parametrize(
    "files",
    [
        {**repository_files(), ".git/hooks/post-index-change": "#!/bin/sh"},
        {
            **repository_files(),
            ".git/index": "DIRC\0\0à\0sub",
            **repository_files("[core]\n\tfsmonitor = ./run", "sub/.git"),
        },
        {**repository_files(), ".git/sharedindex.1": "", **repository_files("[core]\n\tfsmonitor = ./run", "sub/.git")},
        {**repository_files(), ".git/config.worktree": "[core]\n\tfsmonitor = ./run"},
        {"HEAD": "ref: x", "objects/a": "", "refs/a": "", "config": "[core]\n\tfsmonitor = ./run"},
        {".git": "gitdir: elsewhere", **repository_files("[core]\n\tfsmonitor = ./run", "elsewhere")},
        {".git": "gitdir: a/b", "a/b/commondir": "..\n", **repository_files("[core]\n\tfsmonitor = ./run", "a")},
    ],
)
async def test_settings_in_other_places_ask(files: dict[str, str]) -> None:
    assert await decide_line("git status", files) == "ask"


async def test_unrelated_repository_is_ignored() -> None:
    files = {**repository_files(), **repository_files("[core]\n\tfsmonitor = ./run", "sub/.git")}

    assert await decide_line("git status", files) == "allow"
    assert await decide_line("cd sub && git status", files) == "ask"


async def test_worktree_of_a_plain_repository_is_allowed() -> None:
    files = {
        ".git": "gitdir: /main/.git/worktrees/x",
        "/main/.git/worktrees/x/commondir": "../..",
        "/main/.git/worktrees/x/gitdir": "/project/.git",
        "/main/.git/config": PLAIN,
    }

    assert await decide_line("git status", files) == "allow"


async def test_files_of_a_worktree_are_those_of_its_own_index() -> None:
    files = {
        ".git": "gitdir: /main/.git/worktrees/x",
        "/main/.git/worktrees/x/commondir": "../..",
        "/main/.git/worktrees/x/gitdir": "/project/.git",
        "/main/.git/config": PLAIN,
        ".gitignore": ".env\n",
        ".env": "KEY=1",
    }
    assert await decide_line("git diff", files) == "allow"

    files["/main/.git/worktrees/x/index"] = make_index(".env").decode("latin-1")
    assert await decide_line("git diff", files) == "ask"


async def test_git_command_that_may_show_secrets_asks() -> None:
    tracked = {**repository_files(), ".env": "KEY=1"}
    ignored = {**tracked, ".gitignore": ".env\n"}

    assert await decide_line("git diff", tracked) == "ask"
    assert await decide_line("git status", tracked) == "allow"
    assert await decide_line("git diff", ignored) == "allow"
    assert await decide_line("git show HEAD:.env", ignored) == "ask"


async def test_repository_above_the_project_asks() -> None:
    files = {"/project/" + name: text for name, text in repository_files().items()}

    assert await decide_line("git diff", files, cwd="/project/sub") == "ask"
    assert await decide_line("git status", files, cwd="/project/sub") == "allow"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with an ignored file."""
    run_git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a\n")
    run_git(tmp_path, "add", "src")
    return tmp_path


def run_git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout


async def is_asked(line: str, folder: Path) -> bool:
    env = LocalEnv(str(folder))
    return (await Permissions().decide("shell", {"command": line}, env=env, definition=shell)).outcome == "ask"


async def test_tracked_file_asks_despite_an_ignore_file(checkout: Path) -> None:
    assert not await is_asked("git grep KEY", checkout)

    run_git(checkout, "add", "-f", ".env")

    assert await is_asked("git grep KEY", checkout)
    assert await is_asked("git diff --cached", checkout)
    assert not await is_asked("git status", checkout)


async def test_ignore_files_do_not_cover_inner_repositories_or_glob_options(checkout: Path) -> None:
    assert not await is_asked("rg -. KEY", checkout)
    assert not await is_asked("rg -g '*.py' -g '!x' KEY", checkout)
    assert not await is_asked("rg -. -g '!x' KEY", checkout)
    assert await is_asked("rg -g '*' KEY", checkout)
    assert await is_asked("rg -g '.[e]nv' KEY", checkout)

    run_git(checkout, "init", "-q", "inner")
    (checkout / "inner/.env").write_text("KEY=2\n")

    assert await is_asked("rg -. KEY", checkout)
    assert await is_asked("rg -. KEY inner", checkout)
    assert await is_asked("cd inner && rg -. KEY", checkout)


async def test_ignore_files_do_not_apply_outside_a_repository(tmp_path: Path, checkout: Path) -> None:
    folder = checkout / "src"
    run_git(folder, "init", "-q")
    shutil.rmtree(checkout / ".git")

    assert await is_asked("cd src && rg -. KEY ..", checkout)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_parse_index_returns_all_paths(tmp_path: Path, version: int, hashes: str) -> None:
    run_git(tmp_path, "init", "-q", f"--object-format={hashes}")
    names = sorted([f"f{'o' * n}/x{'y' * n}" for n in range(20)] + ["ü", "a b"])
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    run_git(tmp_path, "add", ".")
    if version == 3:
        run_git(tmp_path, "update-index", "--skip-worktree", names[3])
    run_git(tmp_path, "update-index", f"--index-version={max(version, 2)}")
    index = (tmp_path / ".git/index").read_bytes()

    assert index[7] == version
    assert parse_index(index) is not None
    assert sorted(parse_index(index) or ()) == names
    assert parse_index(index[:-7]) is None
    assert parse_index(b"") is None


@pytest.mark.parametrize(
    ("line", "unusual"),
    [
        ('pager = "less" # fsmonitor', ""),
        ('name = "a;b" ; comment', ""),
        ('pager = "le\\\\ss"', "core.pager"),
        ('pager = "le\\xss"', 'pager = "le\\xss"'),
        ('pager = "less', 'pager = "less'),
    ],
)
def test_values_of_git_settings_are_unquoted(line: str, unusual: str) -> None:
    section = "user" if line.startswith("name") else "core"

    assert read_settings(f"[{section}]\n{line}").unusual == unusual


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({**repository_files(), ".GIT/config": ""}, "/project contains another spelling of .git"),
        ({**repository_files(), ".git/config": "#" * (1 << 19)}, "/project/.git/config is too large to check"),
        (
            {name: text for n in range(101) for name, text in repository_files(at=f"{'d/' * n}.git").items()},
            "it contains too many nested repositories to check",
        ),
    ],
)
@pytest.mark.covers("SEC-01")
async def test_repository_that_cannot_be_checked_asks(files: dict[str, str], reason: str) -> None:
    folder = "/project" + "/d" * sum(name.endswith(".git/HEAD") for name in files if name.startswith("d/"))
    env = MemoryEnv(files)

    decision = await Permissions().decide("shell", {"command": f"cd {folder}; git status"}, env=env, definition=shell)

    assert reason in {verdict.reason.removeprefix("it reads, but ") for verdict in decision.needs_answer}


def test_only_a_newline_ends_a_line_of_git_settings() -> None:
    assert read_settings("[core]\n# \x0c[color]\nfsmonitor = ./run").unusual == "core.fsmonitor"
    assert read_settings("[core]\n# \u2028[color]\nfsmonitor = ./run").unusual == "core.fsmonitor"
