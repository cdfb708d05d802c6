"""Extensions: functions that extend an agent in this process, and commands that run as hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.extensions.api import (
        Extension as Extension,
        ExtensionAPI as ExtensionAPI,
        ExtensionError as ExtensionError,
        ExtensionSource as ExtensionSource,
        FoundExtensions as FoundExtensions,
    )
    from mainspring.extensions.builtin import aliases as aliases, guardrails as guardrails, help_command as help_command
    from mainspring.extensions.context import (
        ContextUsage as ContextUsage,
        ExtensionContext as ExtensionContext,
        NonInteractiveUI as NonInteractiveUI,
        UserInterface as UserInterface,
    )
    from mainspring.extensions.discovery import find_extensions as find_extensions
    from mainspring.extensions.events import (
        EVENTS as EVENTS,
        AgentEndEvent as AgentEndEvent,
        AgentStartEvent as AgentStartEvent,
        BeforeRunEvent as BeforeRunEvent,
        ContextEvent as ContextEvent,
        ExtensionEvent as ExtensionEvent,
        InputEvent as InputEvent,
        SessionOpenEvent as SessionOpenEvent,
        SessionShutdownEvent as SessionShutdownEvent,
        ToolCallEvent as ToolCallEvent,
        ToolResultEvent as ToolResultEvent,
        TurnEndEvent as TurnEndEvent,
        TurnStartEvent as TurnStartEvent,
    )
    from mainspring.extensions.plug import ExtensionRunner as ExtensionRunner, Extensions as Extensions
    from mainspring.extensions.registry import Command as Command, Shortcut as Shortcut

lazy_exports(
    __name__,
    {
        "api": "ExtensionAPI Extension ExtensionError ExtensionSource FoundExtensions",
        "builtin": "aliases guardrails help_command",
        "context": "ContextUsage ExtensionContext NonInteractiveUI UserInterface",
        "events": "EVENTS AgentEndEvent AgentStartEvent BeforeRunEvent ContextEvent ExtensionEvent InputEvent SessionShutdownEvent SessionOpenEvent ToolCallEvent ToolResultEvent TurnEndEvent TurnStartEvent",
        "discovery": "find_extensions",
        "plug": "Extensions ExtensionRunner",
        "registry": "Command Shortcut",
    },
)
