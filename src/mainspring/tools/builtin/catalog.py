"""The built-in tools as lists."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

from mainspring.tools.tool import Tool

DEFAULT_TOOL_NAMES = (
    *("read_file", "write_file", "edit", "multi_edit", "glob", "grep", "list_files", "shell", "jobs", "fetch"),
    "todo_write",
)
"""What a model is offered, in the order in which it is told of them."""

OPTIONAL_TOOL_NAMES = ("apply_patch", "todo_read", "ask_user", "present_plan")
"""What it is offered only where somebody says so: another way to edit, and what needs somebody to answer."""

SAMPLE_TOOL_NAMES = ("hello", "greet", "search_books")
"""Examples."""

ALL_TOOL_NAMES = (*DEFAULT_TOOL_NAMES, *OPTIONAL_TOOL_NAMES, *SAMPLE_TOOL_NAMES)
"""All that there are."""

COMMON_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "read": "read_file",
        "write": "write_file",
        "list": "list_files",
        "bash": "shell",
        "task": "spawn",
        "todowrite": "todo_write",
        "todoread": "todo_read",
        "webfetch": "fetch",
    }
)
"""Names that other programs use, with ours; the command understands them where it takes the name of a tool."""


def builtin_tools(*, include_optional: bool = False) -> list[Tool]:
    """The built-in tools.

    Args:
        include_optional: Also those that are offered only by name, and the examples.
    """
    package = sys.modules[__name__.rpartition(".")[0]]  # It exports them; importing them here would tie them together.
    return [getattr(package, name) for name in (ALL_TOOL_NAMES if include_optional else DEFAULT_TOOL_NAMES)]
