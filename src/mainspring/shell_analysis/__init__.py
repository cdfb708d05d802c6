"""Shell lines: the commands they run and the files and hosts they touch, or why a line is not understood.

Above: `mainspring.permissions`, which applies rules to the result. This package knows no rules and does no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.shell_analysis.commands import CommandLine as CommandLine
    from mainspring.shell_analysis.commands import Unit as Unit
    from mainspring.shell_analysis.commands import analyse as analyse

__all__, __getattr__ = exports(
    __name__,
    {
        "commands": "CommandLine Unit analyse",
    },
)
