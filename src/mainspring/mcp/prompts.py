"""Prompts of servers, as data for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.errors import ConfigError
from mainspring.mcp.content import prompt_to_messages
from mainspring.mcp.server import McpServer
from mainspring.mcp.types import PromptArgument, PromptInfo
from mainspring.messages import Message


class McpPrompt:
    """A prompt that can be used as a command.

    Attributes:
        server: Server of the prompt.
        info: The prompt as its server describes it.
    """

    __slots__ = ("info", "server")

    def __init__(self, server: McpServer, info: PromptInfo) -> None:
        self.server = server
        self.info = info

    @property
    def command(self) -> str:
        """Name of the command, without the slash: ``mcp:docs:summary``."""
        return f"mcp:{self.server.name}:{self.info.name}"

    @property
    def description(self) -> str:
        """Description of the prompt."""
        return self.info.description or self.info.title

    @property
    def arguments(self) -> Sequence[PromptArgument]:
        """Arguments of the prompt."""
        return self.info.arguments

    def parse_arguments(self, words: Sequence[str]) -> dict[str, str]:
        """Assign the words after the command to arguments, in order; the last argument gets the rest.

        ``name=value`` assigns an argument by name.

        Raises:
            ConfigError: A required argument is missing, or too many words were passed.
        """
        names = [a.name for a in self.arguments]
        given: dict[str, str] = {}
        loose: list[str] = []
        for word in words:
            name, is_named, value = word.partition("=")
            if is_named and name in names:
                given[name] = value
            else:
                loose.append(word)
        missing_names = [n for n in names if n not in given]
        if loose and not missing_names:
            raise ConfigError(
                f"/{self.command} takes {len(names)} argument{'s' * (len(names) != 1)}, so {loose[0]!r} is too much"
            )
        for i, name in enumerate(missing_names):
            part = loose[i:] if i == len(missing_names) - 1 else loose[i : i + 1]
            if part:
                given[name] = " ".join(part)
        missing = [a.name for a in self.arguments if a.required and a.name not in given]
        if missing:
            raise ConfigError(f"/{self.command} needs {', '.join(missing)}")
        return given

    async def messages(self, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the filled-in prompt as messages for a run.

        Raises:
            McpError: The server did not return the prompt.
        """
        return prompt_to_messages(await self.server.get_prompt(self.info.name, arguments))
