"""The page of extension points has a runnable program for each kind (`test_examples` runs them)."""

import re
from pathlib import Path

import pytest

RECIPES = {
    "Add a tool": "@tool",
    "Add a provider": "registry.register(",
    "Add a callback": "AgentCallbacks(",
    "Add a hook handler": "@agent.on(",
    "Add a plugin": "def for_child(self)",
    "Add a policy": "ctx.deny(",
    "Add a kind of subagent": "subagents=[",
    "Add a skill": 'skills="skills"',
    "Add an extension": "extensions=[",
    "Add a command hook": "CommandHooks(",
    "Add an MCP server": "mcp_servers=",
    "Add a front end": "Chat.open(",
}
EXTENSION_POINTS = ["command hook", "extension", "callback", "hook handler", "plugin"]


def read_page(repository: Path) -> str:
    return (repository / "docs" / "extension-points.md").read_text(encoding="utf-8")


def test_table_compares_and_links_every_extension_point(repository: Path) -> None:
    section = read_page(repository).split("\n## Which extension point do I use?\n")[1].split("\n## ")[0]
    for name in EXTENSION_POINTS:
        title = next(title for title in RECIPES if title.endswith(f" {name}"))
        assert f"| [{name}](#{title.lower().replace(' ', '-')}) |" in section
        assert re.search(rf"^\| {name} \|", section, re.MULTILINE)


@pytest.mark.covers("PKG-14")
@pytest.mark.parametrize("title", RECIPES)
def test_each_recipe_has_steps_and_a_program(repository: Path, title: str) -> None:
    recipe = read_page(repository).split(f"\n## {title}\n")[1].split("\n## ")[0]
    assert re.search(r"^1\. .*\n+(?:.*\n)*?2\. ", recipe, re.MULTILINE), "the recipe has numbered steps"
    [program] = re.findall(r"^```python(?: async)?\n(.*?)^```", recipe, re.MULTILINE | re.DOTALL)
    assert RECIPES[title] in program
    assert "assert " in program, "the program checks its result"
