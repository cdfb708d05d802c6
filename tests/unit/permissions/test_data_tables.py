"""Two tables in `data/`: read-only commands, which never ask, and bypass attempts, which are never allowed."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.tools.builtin import builtin_tools
from tests.rows import each_row

DATA = Path(__file__).parent / "data"
TOOLS = {t.name: t for t in builtin_tools(include_optional=True)}
CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = false
[remote "origin"]
\turl = https://git.example/x
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
"""
PLAIN = {
    "README.md": "hello",
    "notes.txt": "notes",
    "package.json": "{}",
    "src/app.py": "print()",
    "src/deep/er.py": "print()",
    "other/src/x.py": "print()",
    "docs/a.md": "a",
    "build/a.tar": "",
    "build/a.zip": "",
    ".git/HEAD": "ref: refs/heads/main",
    ".git/config": CONFIG,
}
SECRET = {
    **PLAIN,
    ".env": "KEY=1",
    "config/credentials.json": "{}",
    "private/a": "x",
    "vendor/x": "",
    "x": "",
    "out/o": "",
    "deep/er.py": "",
    "tmp/vendor/x": "",
    "tmp/.agent/settings.json": "{}",
    "tmp/.mcp.json": "{}",
}
LINKS = {
    "escape": "/etc",
    "passwd": "/etc/passwd",
    "hidden": ".env",
    "secret_link": "private",
    "out_link": "/tmp",
    "dirs/l": "/etc",
}

READING = [line for line in (DATA / "reading.txt").read_text().splitlines() if line and not line.startswith("#")]
GROUPS: dict[str, dict[str, Any]] = tomllib.loads((DATA / "bypass.toml").read_text())


def bypass_attempts() -> list[tuple[str, str, dict[str, str]]]:
    """Return every attempt with its group, tool, and arguments."""
    found: list[tuple[str, str, dict[str, str]]] = []
    for group, table in GROUPS.items():
        found += [(group, "shell", {"command": line}) for line in table.get("lines", ())]
        found += [(group, "fetch", {"url": url}) for url in table.get("urls", ())]
        for tool, path in table.get("calls", ()):
            more = {
                "grep": {"pattern": "x"},
                "write_file": {"content": ""},
                "edit": {"old_string": "a", "new_string": "b"},
            }
            found.append((group, tool, {"path": path, **more.get(tool, {})}))
    return found


async def decide_call(tool: str, arguments: dict[str, str], env: MemoryEnv, **rules: Any) -> PermissionDecision:
    return await Permissions(**rules).decide(tool, arguments, env=env, definition=TOOLS[tool])


def test_data_tables_are_large_enough() -> None:
    assert len(set(READING)) >= 150
    assert len(bypass_attempts()) >= 400


@each_row("line", READING)
@pytest.mark.covers("SEC-01")
async def test_read_only_command_is_allowed(line: str) -> None:
    decision = await decide_call("shell", {"command": line}, MemoryEnv(PLAIN))

    assert decision.outcome == "allow", [(v.resource, v.reason) for v in decision.needs_answer]


@each_row("line", [line for line in READING if line not in ("true", "[ -d src ]")])
async def test_read_only_command_asks_if_all_shell_commands_ask(line: str) -> None:
    assert (await decide_call("shell", {"command": line}, MemoryEnv(PLAIN), mode="ask")).outcome == "ask"
    assert (await decide_call("shell", {"command": line}, MemoryEnv(PLAIN), ask=["scope:shell-run"])).outcome == "ask"
    assert (await decide_call("shell", {"command": line}, MemoryEnv(PLAIN), deny=["shell"])).outcome == "deny"


@each_row("group, tool, arguments", bypass_attempts())
@pytest.mark.covers("SEC-01", "SEC-02", "BYD-18")
async def test_bypass_attempt_is_not_allowed(group: str, tool: str, arguments: dict[str, str]) -> None:
    rules = {effect: GROUPS[group].get(effect, ()) for effect in ("allow", "ask", "deny")}

    decision = await decide_call(tool, arguments, MemoryEnv(SECRET, links=LINKS), **rules)

    assert decision.outcome != "allow", [(v.resource, v.reason) for v in decision.verdicts]
