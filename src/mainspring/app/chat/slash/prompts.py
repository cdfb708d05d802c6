"""Prompts by name: the user's own commands in Markdown, skills, and prompts of MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mainspring.app.chat.slash.base import PromptSource, RenderedPrompt, SlashPrompt
from mainspring.app.chat.state import ChatState
from mainspring.errors import ConfigError
from mainspring.messages import Message

if TYPE_CHECKING:  # whoever has them has imported them
    from mainspring.mcp.prompts import McpPrompt
    from mainspring.mcp.server import McpServer
    from mainspring.skills.discovery import SkillCatalog

SKILL_PREFIX = "skill:"
"""How the name of a skill begins behind a slash."""


@runtime_checkable
class McpPlugLike(Protocol):
    """A plug with MCP servers."""

    servers: tuple[McpServer, ...]

    async def prompts(self) -> list[McpPrompt]:
        """The prompts of all servers that are ready."""
        ...


@runtime_checkable
class SkillsPlugLike(Protocol):
    """A plug with skills."""

    @property
    def catalog(self) -> SkillCatalog:
        """The skills."""
        ...


class CustomCommandPrompts(PromptSource):
    """``/name``: a Markdown file of the user's or the project's commands.

    Args:
        room: The chat.
    """

    def __init__(self, room: ChatState) -> None:
        self._room = room

    def offers(self) -> Sequence[SlashPrompt]:
        """The commands there are."""
        return [SlashPrompt(c.name, c.description, c.usage.partition(" ")[2]) for c in self._room.custom]

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """The prompt: commands in it are run, files attached.

        Raises:
            ConfigError: If an argument or a file is missing.
            PermissionDeniedError: If a rule does not let a command run or a file be read.
        """
        call = self._room.custom.call(f"/{name} {arguments}")
        if call is None:
            return None
        conversation = self._room.conversation
        model = conversation.choice.name
        text = await call.prompt(
            conversation.env,
            conversation.permissions,
            conversation.agent.tools.get("read_file"),
            plan=conversation.plan,
            provider=model.provider,
            model=model.id,
        )
        command = call.command
        return RenderedPrompt(text=text, model=command.model or "", tools=command.tool_names, allow=command.allowed)


class SkillPrompts(PromptSource):
    """``/skill:name text`` activates a skill, and says the text.

    Args:
        room: The chat.
    """

    def __init__(self, room: ChatState) -> None:
        self._room = room

    def offers(self) -> Sequence[SlashPrompt]:
        """The skills there are."""
        return [SlashPrompt(f"{SKILL_PREFIX}{name}", about, "[PROMPT]") for name, about in list_skills(self._room)]

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """Activate it.

        Raises:
            ConfigError: If there is none of that name, or too many are active.
            AgentError: If there are no skills here.
        """
        if not name.startswith(SKILL_PREFIX):
            return None
        skill = name.removeprefix(SKILL_PREFIX)
        await self._room.conversation.agent.activate_skill(skill)
        return RenderedPrompt(text=arguments.strip(), notice=f"the skill {skill} is active in the next run")


def list_skills(room: ChatState) -> list[tuple[str, str]]:
    """The names of skills, each with what it is for."""
    plug = next((p for p in room.conversation.agent.plugs if isinstance(p, SkillsPlugLike)), None)
    return [(skill.name, skill.description) for skill in plug.catalog.skills] if plug is not None else []


class McpPrompts(PromptSource):
    """``/mcp:server:prompt``: a prompt of an MCP server.

    Args:
        room: The chat.
    """

    def __init__(self, room: ChatState) -> None:
        self._room = room
        self._known: dict[str, McpPrompt] = {}

    def offers(self) -> Sequence[SlashPrompt]:
        """The prompts that are known; see `refresh`."""
        return [
            SlashPrompt(
                name, prompt.description, " ".join(_format_argument(a.name, a.required) for a in prompt.arguments)
            )
            for name, prompt in sorted(self._known.items())
        ]

    async def refresh(self) -> None:
        """Ask the servers that are ready what they have."""
        plug = find_mcp_plug(self._room)
        self._known = {prompt.command: prompt for prompt in await plug.prompts()} if plug is not None else {}

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """The prompt, filled in by its server.

        Raises:
            ConfigError: If there is none of that name, or an argument is missing.
            McpFailure: If the server gives none.
        """
        if not name.startswith("mcp:"):
            return None
        await self.refresh()
        prompt = next((p for command, p in self._known.items() if command.lower() == name), None)
        if prompt is None:
            known = ", ".join(f"/{each}" for each in sorted(self._known)) or "none"
            raise ConfigError(f"there is no prompt /{name}; there are {known}")
        messages: list[Message] = await prompt.messages(prompt.assign(arguments.split()))
        return RenderedPrompt(text="\n\n".join(message.text for message in messages))


def find_mcp_plug(room: ChatState) -> McpPlugLike | None:
    """The servers of the conversation, if it has any."""
    return next((p for p in room.conversation.agent.plugs if isinstance(p, McpPlugLike)), None)


def _format_argument(name: str, required: bool | None) -> str:
    return name.upper() if required else f"[{name.upper()}]"
