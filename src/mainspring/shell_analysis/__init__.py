"""Analysis of shell lines: the commands they run and the files and hosts they touch, or why a line cannot be parsed.

`mainspring.permissions` applies rules to the result. This package knows no rules and does no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.shell_analysis.commands import AnalyzedLine as AnalyzedLine, analyze as analyze
    from mainspring.shell_analysis.syntax import AnalyzedCommand as AnalyzedCommand

lazy_exports(
    __name__,
    {
        "commands": "AnalyzedLine analyze",
        "syntax": "AnalyzedCommand",
    },
)
