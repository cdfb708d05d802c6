"""Command hooks: an event is sent to a command as JSON, and its decision is read the same way."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.extensions.command_hooks.config import COMMAND_EVENTS as COMMAND_EVENTS
    from mainspring.extensions.command_hooks.config import DEFAULT_SECONDS as DEFAULT_SECONDS
    from mainspring.extensions.command_hooks.config import DEPTH as DEPTH
    from mainspring.extensions.command_hooks.config import GATES as GATES
    from mainspring.extensions.command_hooks.config import CommandEvent as CommandEvent
    from mainspring.extensions.command_hooks.config import CommandHook as CommandHook
    from mainspring.extensions.command_hooks.config import OnFailure as OnFailure
    from mainspring.extensions.command_hooks.plug import CommandHooks as CommandHooks
    from mainspring.extensions.command_hooks.protocol import HookOutput as HookOutput
    from mainspring.extensions.command_hooks.protocol import Payload as Payload
    from mainspring.extensions.command_hooks.protocol import Verdict as Verdict
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
