"""Commands as hooks: what happens goes to a command as JSON, what it decides comes back the same way."""

from mainspring.extensions.command_hooks.model import DEFAULT_SECONDS, EVENTS, GATES, CommandEvent, CommandHook
from mainspring.extensions.command_hooks.payload import Payload
from mainspring.extensions.command_hooks.plug import CommandHooks
from mainspring.extensions.command_hooks.reply import HookOutput, Verdict
from mainspring.extensions.command_hooks.run import DEPTH, CommandRunner

__all__ = [
    "DEFAULT_SECONDS",
    "DEPTH",
    "EVENTS",
    "GATES",
    "CommandEvent",
    "CommandHook",
    "CommandHooks",
    "CommandRunner",
    "HookOutput",
    "Payload",
    "Verdict",
]
