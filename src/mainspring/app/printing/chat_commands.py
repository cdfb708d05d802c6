"""Slash commands of the chat in print mode: those that send a prompt run, and the others are errors that name the alternative."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from mainspring.app.chat.command_results import Picker, Text
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.message_queue import QueuedMessage, build_message
from mainspring.app.chat.project_commands import ProjectCommands
from mainspring.app.chat.prompt_sources import SKILL_PREFIX, McpPrompts, SkillPrompts
from mainspring.app.chat.runs import RunOverrides
from mainspring.app.chat.slash_commands import split_command_line
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.command_registry import CommandInvocation, resolve_command_call
from mainspring.errors import ConfigError
from mainspring.events import Notice
from mainspring.permissions import PermissionRequest, Reply

PROMPT_COMMANDS = ("init", "review")
"""Commands of the chat that send a prompt, so that they work without it."""

CHAT_COMMANDS: Mapping[str, str] = {
    "btw": "",
    "clear": "A run without --continue starts a new session.",
    "compact": "A conversation is compacted automatically before it fills the context window.",
    "config": "Use `mainspring config`.",
    "context": "",
    "copy": "",
    "cost": "Use `mainspring cost`.",
    "diff": "Use `git diff`.",
    "exit": "",
    "export": "Use `mainspring export`.",
    "fork": "Use --fork with --continue or --resume.",
    "jobs": "",
    "mcp": "Use `mainspring mcp`.",
    "memory": "Use `mainspring memory`.",
    "mode": "Use --plan or --accept-edits.",
    "model": "Use --model PROVIDER:MODEL.",
    "name": "Use `mainspring sessions name ID TITLE`.",
    "new": "A run without --continue starts a new session.",
    "permissions": "Use `mainspring permissions`.",
    "quit": "",
    "resume": "Use --resume NAME.",
    "rewind": "Use `mainspring rewind`.",
    "sessions": "Use `mainspring sessions`.",
    "skills": "Use `mainspring skills`.",
    "telemetry": "Use `mainspring telemetry status`.",
    "theme": "",
    "thinking": "Use --thinking LEVEL.",
    "tools": "Use `mainspring tools`.",
    "tree": "Use `mainspring sessions tree`.",
    "trust": "Use `mainspring trust`.",
    "vim": "",
}
"""Commands that only work in the chat, each with its alternative in a shell."""

_REPLACEABLE = (*PROMPT_COMMANDS, "diff")
"""Commands that an extension may replace, so that they are resolved when the extensions are loaded."""
_PROMPT_PREFIXES = (SKILL_PREFIX, "mcp:")


class CommandPrompt(Struct, frozen=True):
    """The prompt of a command.

    Attributes:
        text: The prompt; empty if the command has nothing to send.
        tools: Names of the only tools of its run; None for all.
        reply: Response without a run, for example, because nothing changed that could be reviewed.
        has_mentions: Whether the files that the text mentions have yet to be attached.
    """

    text: str = ""
    tools: tuple[str, ...] | None = None
    reply: str = ""
    has_mentions: bool = False


def resolve_slash_command(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str]
) -> tuple[LaunchOptions, CommandInvocation | None]:
    """Return the custom command that a prompt calls, if any, and the run options with its requirements. Blocking.

    Raises:
        ConfigError: If the prompt is a command that only works in the chat, or the settings are invalid.
    """
    name, _ = split_command_line(options.prompt)
    prompts = (name,) if name.startswith(_PROMPT_PREFIXES) else ()
    options, call = resolve_command_call(options, report, environ, (*PROMPT_COMMANDS, *CHAT_COMMANDS, *prompts))
    if call is None and name not in _REPLACEABLE:
        _reject_chat_command(name)
    return options, call


def _reject_chat_command(name: str) -> None:
    if name in CHAT_COMMANDS:
        alternative = f" {CHAT_COMMANDS[name]}".rstrip()
        raise ConfigError(
            f"/{name} is a command of the chat and does not work with -p.{alternative} To send the text to the model, put a word before it."
        )


async def render_chat_command(
    line: str, conversation: OpenConversation, report: Callable[[Notice], object]
) -> CommandPrompt | None:
    """Render a command of the chat that sends a prompt: ``/init``, ``/review``, a skill, or a prompt of an MCP server.

    Returns:
        The prompt, or None for any other line.

    Raises:
        ConfigError: If an argument is missing or invalid, or the command only works in the chat.
        MainspringError: If the prompt cannot be rendered.
    """
    name, arguments = split_command_line(line)
    current = CurrentConversation()
    current.replace(conversation)
    if name in _REPLACEABLE:
        extensions = conversation.agent.extensions
        if extensions is not None and extensions.has_pending:
            await extensions.prepare()
        if name in {command.name for command in current.extension_commands}:
            return None
        _reject_chat_command(name)
        return await _render_project_command(name, arguments, current, report)
    if name.startswith("mcp:"):
        await conversation.agent.warmup()
    for source in (SkillPrompts(current), McpPrompts(current)):
        rendered = await source.render(name, arguments)
        if rendered is not None:
            return CommandPrompt(rendered.text or f"Follow the skill {name.partition(':')[2]}.", has_mentions=True)
    return None


async def _render_project_command(
    name: str, arguments: str, current: CurrentConversation, report: Callable[[Notice], object]
) -> CommandPrompt:
    started: list[tuple[QueuedMessage, RunOverrides]] = []
    commands = ProjectCommands(current, lambda message, overrides: started.append((message, overrides)))
    [command] = [each for each in commands.commands() if each.name == name]
    result = await command.run(arguments)
    if isinstance(result, Picker):
        if not result.choices:
            raise ConfigError(result.empty)
        raise ConfigError(f"{result.title}: use {' or '.join(choice.line for choice in result.choices[:3])}.")
    if not started:
        return CommandPrompt(reply=result.text if isinstance(result, Text) else "")
    [(message, overrides)] = started
    built = await build_message(message, current.conversation, _deny, report)
    return CommandPrompt(built.text, overrides.tools)


async def _deny(request: PermissionRequest) -> Reply:
    """Deny a file that needs approval: print mode cannot ask."""
    return Reply(allow=False)
