"""Extensions: functions that extend an agent in this process, and commands that run as hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.extensions.api import Extension as Extension
    from mainspring.extensions.api import ExtensionAPI as ExtensionAPI
    from mainspring.extensions.api import ExtensionError as ExtensionError
    from mainspring.extensions.api import ExtensionSource as ExtensionSource
    from mainspring.extensions.api import FoundExtensions as FoundExtensions
    from mainspring.extensions.builtin import aliases as aliases
    from mainspring.extensions.builtin import guardrails as guardrails
    from mainspring.extensions.builtin import help_command as help_command
    from mainspring.extensions.context import ContextUsage as ContextUsage
    from mainspring.extensions.context import ExtensionContext as ExtensionContext
    from mainspring.extensions.context import NonInteractiveUI as NonInteractiveUI
    from mainspring.extensions.context import UserInterface as UserInterface
    from mainspring.extensions.discovery import find_extensions as find_extensions
    from mainspring.extensions.events import EVENTS as EVENTS
    from mainspring.extensions.events import AgentEndEvent as AgentEndEvent
    from mainspring.extensions.events import AgentStartEvent as AgentStartEvent
    from mainspring.extensions.events import BeforeRunEvent as BeforeRunEvent
    from mainspring.extensions.events import ContextEvent as ContextEvent
    from mainspring.extensions.events import ExtensionEvent as ExtensionEvent
    from mainspring.extensions.events import InputEvent as InputEvent
    from mainspring.extensions.events import SessionOpenEvent as SessionOpenEvent
    from mainspring.extensions.events import SessionShutdownEvent as SessionShutdownEvent
    from mainspring.extensions.events import ToolCallEvent as ToolCallEvent
    from mainspring.extensions.events import ToolResultEvent as ToolResultEvent
    from mainspring.extensions.events import TurnEndEvent as TurnEndEvent
    from mainspring.extensions.events import TurnStartEvent as TurnStartEvent
    from mainspring.extensions.plug import ExtensionRunner as ExtensionRunner
    from mainspring.extensions.plug import Extensions as Extensions
    from mainspring.extensions.registry import Command as Command
    from mainspring.extensions.registry import Shortcut as Shortcut

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
