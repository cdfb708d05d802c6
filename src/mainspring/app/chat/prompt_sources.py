"""Prompts that are typed as slash commands: custom commands in Markdown, skills, and prompts of MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.workspace.command_registry import CustomCommands, commands_root
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.messages import Message

if TYPE_CHECKING:  # a conversation with skills or servers has imported them
    from mainspring.mcp.prompts import McpPrompt
    from mainspring.mcp.server import McpServer
    from mainspring.skills.discovery import SkillCatalog

SKILL_PREFIX = "skill:"
"""Prefix of the slash commands of skills."""


class SlashPrompt(Struct, frozen=True):
    """A prompt that can be sent by name.

    Attributes:
        name: The name after the slash: ``review``, ``mcp:github:issue``.
        summary: One line that describes it.
        arguments: The arguments, as shown to the user.
    """

    name: str
    summary: str = ""
    arguments: str = ""


class RenderedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that is ready to be sent.

    Attributes:
        text: The text for the model; empty if the command only has an effect.
        model: The model for its run, as ``provider:model``; empty for the model of the chat.
        tools: The only tools of its run; None for all.
        allow: Rules that apply to its run.
        notice: A notice for the user.
    """

    text: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()
    notice: str = ""


@runtime_checkable
class PromptSource(Protocol):
    """Offers prompts by name."""

    def list_prompts(self) -> Sequence[SlashPrompt]:
        """Return the prompts that are known now."""
        ...

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """Render a prompt. Return None for the name of another source.

        Raises:
            MainspringError: If the prompt cannot be rendered.
        """
        ...


@runtime_checkable
class McpPlugLike(Protocol):
    """The part of the MCP plugin that a chat uses."""

    servers: tuple[McpServer, ...]

    async def prompts(self) -> list[McpPrompt]:
        """Return the prompts of all servers that are ready."""
        ...


@runtime_checkable
class SkillsPlugLike(Protocol):
    """The part of the skills plugin that a chat uses."""

    @property
    def catalog(self) -> SkillCatalog:
        """The skills."""
        ...


class CustomCommandPrompts(PromptSource):
    """``/name``: a Markdown file in the commands folder of the user or the project.

    Args:
        current: The conversation.
        reserved_names: Returns the names of built-in commands, which a file cannot replace.
    """

    def __init__(self, current: CurrentConversation, reserved_names: Callable[[], tuple[str, ...]]) -> None:
        self._current = current
        self._reserved_names = reserved_names
        self._commands = CustomCommands()

    async def attach(self, conversation: OpenConversation) -> None:
        """Find the commands of the folder of a conversation."""
        cwd, home = conversation.env.cwd, conversation.settings.home

        def find() -> CustomCommands:
            trusted = TrustStore(home).covers(commands_root(cwd, home))
            return CustomCommands.find(cwd, home, trusted=trusted, reserved=self._reserved_names())

        self._commands = await asyncio.to_thread(find)

    def list_prompts(self) -> Sequence[SlashPrompt]:
        """Return the custom commands."""
        return [SlashPrompt(c.name, c.description, c.usage.partition(" ")[2]) for c in self._commands]

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """Render a command: run the shell commands in it and attach its files.

        Raises:
            ConfigError: If an argument or a file is missing.
            PermissionDeniedError: If a rule denies a shell command or a file.
        """
        call = self._commands.call(f"/{name} {arguments}")
        if call is None:
            return None
        conversation = self._current.conversation
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
        return RenderedPrompt(text=text, model=command.model or "", tools=command.tool_names, allow=command.allow_rules)


class SkillPrompts(PromptSource):
    """``/skill:name text`` activates a skill and sends the text.

    Args:
        current: The conversation.
    """

    def __init__(self, current: CurrentConversation) -> None:
        self._current = current

    def list_prompts(self) -> Sequence[SlashPrompt]:
        """Return the skills."""
        skills = list_skills(self._current)
        return [SlashPrompt(f"{SKILL_PREFIX}{name}", description, "[PROMPT]") for name, description in skills]

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """Activate a skill.

        Raises:
            ConfigError: If the skill is unknown or too many skills are active.
            AgentError: If the conversation has no skills.
        """
        if not name.startswith(SKILL_PREFIX):
            return None
        skill = name.removeprefix(SKILL_PREFIX)
        await self._current.agent.activate_skill(skill)
        return RenderedPrompt(text=arguments.strip(), notice=f"Skill {skill} activated for the next run.")


def list_skills(current: CurrentConversation) -> list[tuple[str, str]]:
    """Return the name and description of each skill."""
    plug = next((p for p in current.agent.plugs if isinstance(p, SkillsPlugLike)), None)
    return [(skill.name, skill.description) for skill in plug.catalog.skills] if plug is not None else []


class McpPrompts(PromptSource):
    """``/mcp:server:prompt``: a prompt of an MCP server.

    Args:
        current: The conversation.
    """

    def __init__(self, current: CurrentConversation) -> None:
        self._current = current
        self._known: dict[str, McpPrompt] = {}

    def list_prompts(self) -> Sequence[SlashPrompt]:
        """Return the prompts that the last `refresh` found."""
        return [
            SlashPrompt(
                name, prompt.description, " ".join(_format_argument(a.name, a.required) for a in prompt.arguments)
            )
            for name, prompt in sorted(self._known.items())
        ]

    async def refresh(self) -> None:
        """Request the prompts of all servers that are ready."""
        plug = find_mcp_plug(self._current)
        self._known = {prompt.command: prompt for prompt in await plug.prompts()} if plug is not None else {}

    async def render(self, name: str, arguments: str) -> RenderedPrompt | None:
        """Have the server render a prompt.

        Raises:
            ConfigError: If the prompt is unknown or an argument is missing.
            McpFailure: If the server returns an error.
        """
        if not name.startswith("mcp:"):
            return None
        await self.refresh()
        prompt = next((p for command, p in self._known.items() if command.lower() == name), None)
        if prompt is None:
            known = ", ".join(f"/{each}" for each in sorted(self._known))
            hint = (
                f"Use {known}."
                if known
                else "No MCP server offers prompts. List the servers with /mcp, or `mainspring mcp` in a shell."
            )
            raise ConfigError(f"Unknown prompt: /{name}. {hint}")
        messages: list[Message] = await prompt.messages(prompt.parse_arguments(arguments.split()))
        return RenderedPrompt(text="\n\n".join(message.text for message in messages))


def find_mcp_plug(current: CurrentConversation) -> McpPlugLike | None:
    """Return the MCP plugin of the conversation, if it has one."""
    return next((p for p in current.agent.plugs if isinstance(p, McpPlugLike)), None)


def _format_argument(name: str, required: bool | None) -> str:
    return name.upper() if required else f"[{name.upper()}]"
