"""Prompts of servers as commands: their words become arguments."""

import pytest

from mainspring.errors import ConfigError
from mainspring.mcp import InMemoryConnector, connect_mcp
from mainspring.mcp.prompts import McpPrompt
from mainspring.mcp.types import PromptArgument, PromptInfo
from tests.unit.mcp.harness import twin


async def prompt(*arguments: PromptArgument) -> McpPrompt:
    async with connect_mcp({"name": "s", "command": "-"}, connector=InMemoryConnector({"s": twin("echo")})) as server:
        return McpPrompt(server, PromptInfo(name="sum", title="Sum up", arguments=arguments))


@pytest.mark.covers("BYD-10")
async def test_words_become_arguments() -> None:
    made = await prompt(PromptArgument(name="topic", required=True), PromptArgument(name="style"))
    assert (made.command, made.description) == ("mcp:s:sum", "Sum up")
    assert made.parse_arguments(["trees"]) == {"topic": "trees"}
    assert made.parse_arguments(["trees", "short", "and", "dry"]) == {"topic": "trees", "style": "short and dry"}
    assert made.parse_arguments(["style=dry", "old", "trees"]) == {"style": "dry", "topic": "old trees"}
    with pytest.raises(ConfigError, match="/mcp:s:sum needs topic"):
        made.parse_arguments([])


async def test_too_many_words_are_told_of() -> None:
    made = await prompt()
    assert made.parse_arguments([]) == {}
    with pytest.raises(ConfigError, match="takes 0 arguments, so 'x' is too much"):
        made.parse_arguments(["x"])
