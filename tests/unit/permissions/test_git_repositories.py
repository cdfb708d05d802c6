"""Read-only git commands in hostile and ordinary repositories, with the real git."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mainspring import Agent
from mainspring.env.local import LocalEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.permissions.git_repository import neutral_environment
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, ToolResult
from mainspring.tools.builtin import shell
from tests.unit.permissions.git_lines import LINES
from tests.unit.permissions.git_shapes import (
    BENIGN,
    BENIGN_COMMANDS,
    HISTORY,
    HISTORY_COMMANDS,
    HOSTILE,
    READS,
    SECRET,
    SIGNATURES,
    make_base,
    make_repository,
)

pytestmark = pytest.mark.slow

NEUTRALIZED = (
    "fsmonitor",
    "config.worktree",
    "include",
    "hook",
    "hook in hooksPath",
    "submodule with fsmonitor",
    "split index",
)
"""Hostile repositories that the neutral environment makes harmless."""

PARTIAL = """
git config remote.o.url host:x; git config remote.o.promisor true; git config extensions.partialClone o
git config core.repositoryformatversion 1; blob=$(git rev-parse HEAD:notes.md)
rm -f ".git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)"
"""
"""Script for a partial clone that lacks a file; git would run ssh to fetch the file."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repositories that a test starts with: made once, because git starts ten processes for them."""
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(autouse=True)
def isolated_home(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ssh", "gpg"):
        program = programs / name
        program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/trace"\nexit 1\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")


async def decide_line(line: str, env: LocalEnv, **rules: Any) -> PermissionDecision:
    return await Permissions(**rules).decide("shell", {"command": line}, env=env, definition=shell)


async def run_line(line: str, env: LocalEnv, variables: dict[str, str]) -> str:
    result = await shell.execute({"command": line, "metadata": False}, ToolContext(env=env, environment=variables))
    assert isinstance(result, ToolResult)
    return str(result.output)


async def find_leaks(lines: Sequence[str], env: LocalEnv, trace: Path, **rules: Any) -> list[str]:
    """Return the allowed lines that showed the secret or ran the program."""
    found: list[str] = []
    for line in lines:
        decision = await decide_line(line, env, **rules)
        output = await run_line(line, env, decision.environment) if decision.outcome == "allow" else ""
        if SECRET in output or trace.exists():
            found.append(line)
            trace.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_repository_asks(name: str, tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, HOSTILE[name])))

    assert [line for line in READS if (await decide_line(line, env)).outcome != "ask"] == []
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", LINES)
async def test_git_lines_neither_show_secrets_nor_run_programs(name: str, tmp_path: Path) -> None:
    script, lines = LINES[name]
    env = LocalEnv(str(make_repository(tmp_path, script)))

    assert await find_leaks(lines, env, tmp_path / "trace") == []


@pytest.mark.parametrize("name", HISTORY)
async def test_history_with_a_secret_is_not_shown(name: str, tmp_path: Path) -> None:
    blob = "$(git rev-list --objects HEAD | grep -E 'env|id_rsa|old/x' | head -1 | cut -d' ' -f1)"
    script = f"{HISTORY[name]}; git branch -f gone HEAD~1; git tag blobtag {blob}; echo KEY={SECRET} > .env; git add -f .env; git stash -q"
    env = LocalEnv(str(make_repository(tmp_path, script)))
    trace = tmp_path / "trace"

    assert await find_leaks(HISTORY_COMMANDS, env, trace, deny=["read_file(old/**)"]) == []
    assert not await find_leaks(["git log -p --oneline -2 -- notes.md", "git log", "git show --stat HEAD"], env, trace)
    if name == "denied folder":
        lines = (
            "git log -p",
            "git show HEAD~1",
            "git grep hunter2 HEAD~1",
            "git show HEAD~1:old/x",
            "git diff HEAD~1 HEAD",
        )
        assert await find_leaks(lines, env, trace, allow=["shell(git *)"], deny=["read_file(old/**)"]) == []


async def test_history_too_long_to_check_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))
    assert (await decide_line("git log -p", env)).outcome == "allow"

    slow = tmp_path / "bin" / "git"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr("mainspring.permissions.git_history.MAX_SECONDS", 0.1)

    decision = await decide_line("git log -p", env)
    assert decision.outcome == "ask"
    assert "too long to check" in decision.reason

    slow.unlink()
    monkeypatch.setattr("mainspring.permissions.git_history.MAX_SECONDS", 120)
    assert (
        await decide_line("git log -p", env)
    ).outcome == "ask"  # without another wait: a call is decided about repeatedly
    assert (await decide_line("git log -p", LocalEnv(env.cwd))).outcome == "allow"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cd sub; git diff", "git finds another repository here"),
        ("git show 'a\nb'", "a revision contains a line break"),
        ("git diff HEAD~1..HEAD *.md", "it is not known which revisions it shows; write -- after them"),
    ],
)
async def test_git_command_with_unknown_files_asks(line: str, reason: str, tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, "mkdir -p sub/.git")))

    decision = await decide_line(line, env)

    assert f"it reads, but {reason}" in [verdict.reason for verdict in decision.needs_answer]


async def test_git_command_with_too_many_files_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))
    monkeypatch.setattr("mainspring.permissions.git_history._MAX_FILES", 1)

    assert (await decide_line("git show HEAD -- src", env)).outcome == "allow"
    assert "too long to check" in (await decide_line("git log -p", env)).reason


@pytest.mark.parametrize(
    ("script", "line", "reason"),
    [
        ('git config core.fsmonitor "$RUN"', "git diff", "it is not known which files git shows"),
        (":", "git log -p --find-copies --find-copies", "it compares with files that did not change"),
    ],
)
async def test_allowed_git_command_with_unknown_files_asks_if_a_rule_restricts_reading(
    script: str, line: str, reason: str, tmp_path: Path
) -> None:
    env = LocalEnv(str(make_repository(tmp_path, script)))

    assert (await decide_line(line, env, allow=["shell(git *)"])).outcome == "allow"
    decision = await decide_line(line, env, allow=["shell(git *)"], deny=["read_file(old/**)"])

    assert decision.reason == reason
    assert not (tmp_path / "trace").exists()


async def test_each_allowed_git_command_is_checked_against_ignore_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = LocalEnv(
        str(make_repository(tmp_path, "echo a.txt > .agentignore; echo a > a.txt; git add .; git commit -qm a"))
    )
    monkeypatch.setattr("mainspring.permissions.recursive_reads._MAX_HISTORIES", 1)

    assert (await decide_line("git log -p -- src; git diff -- src", env, allow=["shell(git *)"])).outcome == "allow"
    decision = await decide_line("git diff -- src; git log -p", env, allow=["shell(git *)"])
    assert "it would show a.txt" in decision.reason


class _BrokenGitEnv(LocalEnv):
    """An environment that finds git in the project, or cannot run it."""

    git = ""

    async def find_program(self, name: str) -> str | None:
        return self.git or await super().find_program(name)

    async def run(self, *arguments: Any, **options: Any) -> Any:
        raise OSError("no more processes")


async def test_git_that_cannot_be_asked_asks_the_user(tmp_path: Path) -> None:
    env = _BrokenGitEnv(str(make_repository(tmp_path, ":")))

    assert "git cannot list the files that it shows" in (await decide_line("git diff", env)).reason
    env.git = f"{env.cwd}/bin/git"
    assert "the project contains its own git program" in (await decide_line("git diff", env)).reason


async def test_unknown_git_settings_ask_with_another_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_repository(tmp_path, "mkdir bin")
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")

    decision = await decide_line("git status && pytest", _BrokenGitEnv(str(folder)), allow=["shell(pytest)"])

    assert "it is not known which programs git starts; run git alone" in decision.reason


@pytest.mark.parametrize("line", SIGNATURES)
async def test_git_signature_checks_ask(line: str, tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))

    assert (await decide_line(line, env)).outcome == "ask"


@pytest.mark.parametrize("name", BENIGN)
async def test_ordinary_repository_is_allowed(name: str, tmp_path: Path) -> None:
    folder = make_repository(tmp_path, BENIGN[name])
    env = LocalEnv(str(tmp_path / "main" if name == "subfolder" else folder))
    prefix = "cd src && " if name == "subfolder" else ""

    assert [line for line in BENIGN_COMMANDS if (await decide_line(prefix + line, env)).outcome != "allow"] == []


@pytest.mark.parametrize("name", NEUTRALIZED)
async def test_neutral_environment_keeps_git_from_running_programs(name: str, tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, HOSTILE[name])))
    trace = tmp_path / "trace"
    # Another time of a file: git writes its index, for which it runs a hook. A time like that of the index would depend on the clock.
    line = "touch -d @{} src/a; git status; git diff"

    await run_line(line.format(1), env, neutral_environment(env))
    assert not trace.exists()

    await run_line(line.format(2), env, {})
    assert trace.exists()


DRIVER = """
mkdir -p .venv/bin; cp "$RUN" .venv/bin/{name}; git config --global filter.{name}.clean "{name} clean -- %f"
echo "*.md filter={name}" > .gitattributes; touch notes.md
"""
"""Script for user settings that name a program, and a project with a program of that name."""


async def test_git_does_not_run_programs_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_repository(tmp_path, DRIVER.format(name="driver"))
    monkeypatch.setenv("PATH", str(folder / ".venv/bin"), prepend=":")
    env = LocalEnv(str(folder))
    trace = tmp_path / "trace"

    decision = await decide_line("git diff", env)
    assert decision.outcome == "allow"
    assert str(folder) not in decision.environment["PATH"]
    await run_line("git diff; git status", env, decision.environment)
    assert not trace.exists()

    await run_line("git diff", env, {})
    assert trace.exists()


async def test_git_lfs_in_the_project_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_repository(tmp_path, DRIVER.format(name="git-lfs"))
    monkeypatch.setenv("PATH", str(folder / ".venv/bin"), prepend=":")

    decision = await decide_line("git diff && git status", LocalEnv(str(folder)))

    assert decision.outcome == "ask"
    assert "'git-lfs' would run" in decision.reason
    assert not (tmp_path / "trace").exists()


async def test_configured_driver_in_the_project_asks_with_another_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_repository(tmp_path, DRIVER.format(name="driver") + "git config --global user.name pytest")
    monkeypatch.setenv("PATH", str(folder / ".venv/bin"), prepend=":")
    env = LocalEnv(str(folder))

    decision = await decide_line("git status && pytest", env, allow=["shell(pytest)"])

    assert decision.outcome == "ask"
    assert "git may start 'driver'" in decision.reason

    (folder / ".venv/bin/driver").unlink()
    assert (await decide_line("git status && pytest", env, allow=["shell(pytest)"])).outcome == "allow"


@pytest.mark.parametrize(
    "line", ["git -C inner show HEAD", "git -C inner log -p", "git --no-pager -C inner diff HEAD~1"]
)
async def test_git_with_another_folder_is_judged_in_that_folder(line: str, tmp_path: Path, base: Path) -> None:
    folder = make_repository(tmp_path, "mkdir -p src; echo x > src/a.txt")
    env = LocalEnv(str(folder))
    shutil.copytree(base, tmp_path / "second")
    inner = make_repository(tmp_path / "second", 'git config core.fsmonitor "$RUN"; git config diff.external "$RUN"')
    inner.rename(folder / "inner")

    assert (await decide_line("git -C src status && git -C src log -p", env)).outcome == "allow"
    assert (await decide_line(line, env)).outcome == "ask"
    assert (await decide_line("git -C src -C .. status", env)).outcome == "ask"
    assert (await decide_line(f"git -C {tmp_path} status", env)).outcome == "ask"


async def test_files_in_the_index_are_checked(tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, "mkdir -p src; echo x > src/a.py; git add src")))
    folder = Path(env.cwd)
    (tmp_path / "outside.py").write_text("x")

    assert (await decide_line("git ls-files | xargs wc -l", env)).outcome == "allow"
    assert (await decide_line("git ls-files '*.py' | xargs grep -n x", env)).outcome == "allow"
    for line in ("git ls-files | xargs grep -r x", "git ls-files -o | xargs cat", "git ls-files :/ | xargs cat"):
        assert (await decide_line(line, env)).outcome == "ask", line
    (folder / "src/a.py").unlink()
    (folder / "src/a.py").symlink_to(tmp_path / "outside.py")
    assert (await decide_line("git ls-files | xargs cat", env)).outcome == "ask"
    assert (await decide_line("cd src && git ls-files '*.py' | xargs cat", env)).outcome == "ask"


@pytest.mark.parametrize("name", [b"../outside.py", b"/aa/outsid.py", b"-aa/outsid.py", b"a a/outsid.py"])
async def test_forged_index_cannot_name_outside_files(name: bytes, tmp_path: Path) -> None:
    env = LocalEnv(
        str(
            make_repository(
                tmp_path, "mkdir -p aaa; echo x > aaa/outsid.py; git add aaa; echo x > aa.py; git add aa.py"
            )
        )
    )
    index = Path(env.cwd, ".git/index")
    planted = index.read_bytes()[:-20].replace(b"aaa/outsid.py"[: len(name)], name)
    index.write_bytes(planted + hashlib.sha1(planted, usedforsecurity=False).digest())

    assert (await decide_line("git ls-files | xargs cat", env)).outcome == "ask"


async def test_partial_clone_fetches_nothing(tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, PARTIAL)))
    trace = tmp_path / "trace"

    assert (await decide_line("git status && git log --oneline", env)).outcome == "allow"
    assert (await decide_line("git show HEAD", env)).outcome == "ask"
    mixed = await decide_line("git status && make", env, allow=["shell(make)"])
    assert mixed.outcome == "ask"
    assert (await decide_line("env -i git status", env)).outcome == "ask"

    await run_line("git show HEAD", env, neutral_environment(env))
    assert not trace.exists()

    await run_line("git show HEAD", env, {})
    assert trace.exists()


async def test_only_read_only_commands_get_the_git_environment(tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))

    assert (await decide_line("git status && ls", env)).environment["GIT_CONFIG_KEY_0"] == "core.fsmonitor"
    assert (await decide_line("ls", env)).environment == {}
    assert (await decide_line("git status", env, allow=["shell(git *)"])).environment == {}
    assert (await decide_line("git commit -m x", env, allow=["shell(git commit *)"])).environment == {}
    assert (await decide_line("git status; git commit -m x", env, allow=["shell(git commit *)"])).environment == {}
    assert (await decide_line("git status && make", env)).environment == {}  # an approval is required


async def test_agent_runs_a_read_only_command_with_the_git_environment(tmp_path: Path) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))
    calls = [ScriptedCall("shell", {"command": "git status -s"}), ScriptedCall("shell", {"command": "git commit -m x"})]
    seen: list[dict[str, str]] = []

    async def execute(arguments: dict[str, Any], context: ToolContext) -> str:
        seen.append(dict(context.environment))
        return "done"

    permissions = Permissions(allow=["shell(git commit *)"])
    recorder = structs.replace(shell, execute=execute)
    agent = Agent(ScriptedModel(calls, "done"), tools=[recorder], execution=env, permissions=permissions)

    await agent.run("go")

    assert [variables.get("GIT_OPTIONAL_LOCKS") for variables in seen] == ["0", None]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_DIR", "../other/.git"),
        ("GIT_WORK_TREE", "../other"),
        ("GIT_OBJECT_DIRECTORY", "../other/.git/objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "../other/.git/objects"),
        ("GIT_INDEX_FILE", "x"),
        ("GIT_EXTERNAL_DIFF", "./x"),
        ("GIT_EXEC_PATH", "libexec"),
        ("GIT_CONFIG_GLOBAL", "gitconfig"),
        ("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=./x'"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_COUNT", "x"),
    ],
)
async def test_git_variables_that_redirect_git_ask(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))
    assert (await decide_line("git status", env)).outcome == "allow"

    monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "./x")

    assert (await decide_line("git status", env)).outcome == "ask"


async def test_git_config_variables_of_the_user_are_preserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = LocalEnv(str(make_repository(tmp_path, ":")))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "*")

    decision = await decide_line("git status", env)

    assert decision.outcome == "allow"
    assert "GIT_CONFIG_KEY_0" not in decision.environment
    assert decision.environment["GIT_CONFIG_KEY_1"] == "core.fsmonitor"
