"""Command hooks: an event is sent to a command as JSON, and its decision is read the same way."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.extensions.command_hooks.config import (
        COMMAND_EVENTS as COMMAND_EVENTS,
        DEFAULT_SECONDS as DEFAULT_SECONDS,
        DEPTH as DEPTH,
        GATES as GATES,
        CommandEvent as CommandEvent,
        CommandHook as CommandHook,
        OnFailure as OnFailure,
    )
    from mainspring.extensions.command_hooks.plug import CommandHooks as CommandHooks
    from mainspring.extensions.command_hooks.protocol import (
        HookOutput as HookOutput,
        Payload as Payload,
        Verdict as Verdict,
    )
    from mainspring.extensions.command_hooks.runner import HookCommandRunner as HookCommandRunner

lazy_exports(
    __name__,
    {
        "config": "DEFAULT_SECONDS DEPTH COMMAND_EVENTS GATES CommandEvent CommandHook OnFailure",
        "protocol": "Payload HookOutput Verdict",
        "plug": "CommandHooks",
        "runner": "HookCommandRunner",
    },
)
