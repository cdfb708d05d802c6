"""Prompts of servers as commands: the typed words become arguments."""

import pytest

from mainspring.errors import ConfigError
from mainspring.mcp import InMemoryConnector, connect_mcp
from mainspring.mcp.prompts import McpPrompt
from mainspring.mcp.types import PromptArgument, PromptInfo
from tests.unit.mcp.harness import make_echo_server


async def make_prompt(*arguments: PromptArgument) -> McpPrompt:
    async with connect_mcp(
        {"name": "s", "command": "-"}, connector=InMemoryConnector({"s": make_echo_server("echo")})
    ) as server:
        return McpPrompt(server, PromptInfo(name="sum", title="Sum up", arguments=arguments))


@pytest.mark.covers("BYD-10")
async def test_words_are_assigned_to_prompt_arguments() -> None:
    mcp_prompt = await make_prompt(PromptArgument(name="topic", required=True), PromptArgument(name="style"))
    assert (mcp_prompt.command, mcp_prompt.description) == ("mcp:s:sum", "Sum up")
    assert mcp_prompt.parse_arguments(["trees"]) == {"topic": "trees"}
    assert mcp_prompt.parse_arguments(["trees", "short", "and", "dry"]) == {"topic": "trees", "style": "short and dry"}
    assert mcp_prompt.parse_arguments(["style=dry", "old", "trees"]) == {"style": "dry", "topic": "old trees"}
    with pytest.raises(ConfigError, match="/mcp:s:sum needs topic"):
        mcp_prompt.parse_arguments([])


async def test_too_many_words_are_reported() -> None:
    mcp_prompt = await make_prompt()
    assert mcp_prompt.parse_arguments([]) == {}
    with pytest.raises(ConfigError, match="takes 0 arguments, so 'x' is too much"):
        mcp_prompt.parse_arguments(["x"])
