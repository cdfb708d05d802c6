"""The page of recipes has one for each kind of thing that can be added, and each is a program that runs (`test_examples`)."""

import re
from pathlib import Path

import pytest

RECIPES = {
    "A tool": "@tool",
    "A provider": "registry.register(",
    "A callback": "AgentCallbacks(",
    "A handler of a hook": "@agent.on(",
    "A plug": "def for_child(self)",
    "A policy": "ctx.deny(",
    "A kind of sub-agent": "subagents=[",
    "A skill": 'skills="skills"',
    "An extension": "extensions=[",
    "An MCP server": "mcp_servers=",
    "A front end": "Chat.open(",
}


@pytest.mark.covers("PKG-14")
@pytest.mark.parametrize("title", RECIPES)
def test_there_is_a_recipe_with_steps_and_a_program(repository: Path, title: str) -> None:
    page = (repository / "docs" / "recipes.md").read_text(encoding="utf-8")
    recipe = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    assert re.search(r"^1\. .*\n+(?:.*\n)*?2\. ", recipe, re.MULTILINE), "steps in order"
    [program] = re.findall(r"^```python(?: async)?\n(.*?)^```", recipe, re.MULTILINE | re.DOTALL)
    assert RECIPES[title] in program
    assert "assert " in program, "it says what comes out"
