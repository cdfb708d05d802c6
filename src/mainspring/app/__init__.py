"""Front ends: each converts input of users or programs into commands, and events into output."""

from __future__ import annotations

from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.app.commands.cost import cost_report as cost_report
    from mainspring.app.workspace.command_registry import CustomCommands as CustomCommands
    from mainspring.app.workspace.paths import UserPaths as UserPaths

lazy_exports(
    __name__,
    {
        "commands.cost": "cost_report",
        "workspace.command_registry": "CustomCommands",
        "workspace.paths": "UserPaths",
    },
)
