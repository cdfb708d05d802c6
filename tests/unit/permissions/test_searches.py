"""Decisions about searches: which files a search shows, by its options, its ignore files, and its environment."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mainspring.env import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from tests.rows import each_row
from tests.unit.permissions.harness import TOOLS

pytestmark = pytest.mark.covers("SEC-01")

FILES = {"README.md": "", "src/app.py": "", "src/.env": "KEY=1", ".env": "KEY=1", ".github/ci.yml": ""}
PRIVATE = {"src/app.py": "", "private/key.py": "", "src/local.py": ""}


class LocalMemoryEnv(MemoryEnv):
    """Files in memory, and programs that inherit the variables of this process."""

    def variable_overrides(self, given: Mapping[str, str]) -> dict[str, str]:
        return dict(given)


async def decide(line: str, files: dict[str, str], *allow: str, deny: tuple[str, ...] = ()) -> str:
    permissions = Permissions(allow=allow, deny=deny)
    return (
        await permissions.decide("shell", {"command": line}, env=LocalMemoryEnv(files), definition=TOOLS["shell"])
    ).outcome


@each_row(
    "line, more, outcome",
    [
        ("rg KEY", {}, "allow"),
        ("rg -n KEY src .", {}, "allow"),
        ("rg -g '!*.md' KEY", {}, "allow"),
        ("rg -T py KEY", {}, "allow"),
        ("rg --files | head", {}, "allow"),
        ("rg -l KEY | xargs cat", {}, "allow"),
        ("rg KEY", {".gitignore": "!.github/\n*.o\n", "src/.ignore": "!.x\n"}, "allow"),
        ("rg --hidden KEY", {}, "ask"),
        ("rg -. KEY", {}, "ask"),
        ("rg -n. KEY", {}, "ask"),
        ("rg -uu KEY", {}, "ask"),
        ("rg -g '.*' KEY", {}, "ask"),
        ("rg -t sh KEY", {}, "ask"),
        ("rg -tsh KEY", {}, "ask"),
        ("rg --type=sh KEY", {}, "ask"),
        ("rg KEY .env", {}, "ask"),
        ("rg KEY", {".gitignore": "!.env\n"}, "ask"),
        ("rg KEY", {"src/.rgignore": "!.e*\n"}, "ask"),
        ("rg KEY", {"../.ignore": "!.env\n"}, "ask"),
        ("rg KEY", {".git/HEAD": "ref: refs/heads/main", ".git/info/exclude": "!.env\n"}, "ask"),
        ("rg KEY", {"src/.git/HEAD": "ref: refs/heads/main", "src/.git/info/exclude": "!.env\n"}, "ask"),
        ("RIPGREP_CONFIG_PATH=README.md rg KEY", {}, "ask"),
        ("env RIPGREP_CONFIG_PATH=README.md rg KEY", {}, "ask"),
        ("grep -r KEY .", {}, "ask"),
        ("grep -rn --include='*.py' KEY .", {}, "allow"),
        ("grep -rn --include='*.py' --exclude='a*' KEY .", {}, "allow"),
        ("grep -rn --exclude='a*' --include='*.py' KEY .", {}, "ask"),
        ("grep -rn --exclude='a/' --include='*.py' KEY .", {}, "ask"),
        ("grep -rn --exclude='.env' KEY .", {}, "allow"),
        ("grep -rn --exclude='.env' --include='.e*' KEY .", {}, "ask"),
        ("grep -rn --exclude='.ENV' KEY .", {}, "ask"),
        ("grep -rn --exclude-dir=.env KEY .", {}, "ask"),
        ("wc -l **/*.py", {}, "allow"),
        ("cat **/.e*", {}, "ask"),
    ],
)
async def test_search_asks_only_if_it_may_show_a_sensitive_file(line: str, more: dict[str, str], outcome: str) -> None:
    assert await decide(line, FILES | more) == outcome
    deny = ("read_file(**/.env*)",)
    rules = ("shell(rg *)", "shell(grep *)", "shell(xargs *)", "shell(cat *)")
    assert (await decide(line, FILES | more, *rules, deny=deny) == "allow") == (outcome == "allow")


@each_row(
    "line, outcome",
    [
        ("grep -rn --exclude-dir=private x .", "allow"),
        ("grep -rn --exclude-dir='priv*' x .", "allow"),
        ("grep -rn --exclude=private x .", "ask"),
        ("grep -rn --exclude=private/ x .", "ask"),
        ("grep -rn --exclude-dir=./private x .", "ask"),
        ("cat **/*.py", "deny"),
        ("ls src/**/*.py", "allow"),
        ("zsh -c 'cat src/**/*.py'", "ask"),
    ],
)
async def test_search_asks_only_if_it_may_show_a_denied_file(line: str, outcome: str) -> None:
    assert await decide(line, PRIVATE, deny=("read_file(private/**)",)) == outcome


@each_row("value, outcome", [("/x/config", "ask"), ("", "allow")])
async def test_search_asks_if_a_variable_names_more_options(
    value: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", value)
    env = LocalEnv(tmp_path)
    decision = await Permissions().decide("shell", {"command": "rg KEY"}, env=env, definition=TOOLS["shell"])
    assert decision.outcome == outcome


async def test_search_asks_if_the_variables_of_the_environment_are_unknown() -> None:
    env = MemoryEnv(FILES)
    decision = await Permissions().decide("shell", {"command": "rg KEY"}, env=env, definition=TOOLS["shell"])
    assert decision.outcome == "ask", "a container may set RIPGREP_CONFIG_PATH"
