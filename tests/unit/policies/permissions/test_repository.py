"""Git that only reads asks where the repository's own settings may make it run something."""

import pytest

from mainspring.policies.permissions import Permissions
from mainspring.policies.permissions.repository import unusual
from mainspring.testing import MemoryEnv
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
        "[core]\n\thooksPath = .",
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
    assert unusual(config)
    assert await outcome("git status", repository(config)) == "ask"


@pytest.mark.parametrize(
    "files",
    [
        {**repository(), ".git/hooks/post-index-change": "#!/bin/sh"},
        {**repository(), ".git/index": "DIRC\0\0à\0sub", **repository("[core]\n\tfsmonitor = ./run", "sub/.git")},
        {**repository(), ".git/sharedindex.1": "", **repository("[core]\n\tfsmonitor = ./run", "sub/.git")},
        {**repository(), **repository("[core]\n\tfsmonitor = ./run", ".git/modules/sub")},
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
