"""Names of the built-in tools, and the tools as a list. Reading a name loads none of the tools."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.tools.tool import Tool

DEFAULT_TOOL_NAMES = (
    *("read_file", "write_file", "edit", "multi_edit", "glob", "grep", "list_files", "shell", "jobs", "fetch"),
    "todo_write",
)
"""Tools that a model is offered by default, in the order in which the model sees them."""

OPTIONAL_TOOL_NAMES = ("apply_patch", "todo_read", "ask_user", "present_plan")
"""Tools that are offered only on request: another way to edit, and tools that require a user."""

SAMPLE_TOOL_NAMES = ("hello", "greet", "search_books")
"""Sample tools."""

ALL_TOOL_NAMES = (*DEFAULT_TOOL_NAMES, *OPTIONAL_TOOL_NAMES, *SAMPLE_TOOL_NAMES)
"""All built-in tools."""

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
"""Common names in other programs, with the corresponding names here; accepted by the command line as tool names."""


def builtin_tools(*, include_optional: bool = False) -> list[Tool]:
    """Return the built-in tools.

    Args:
        include_optional: Whether to include the optional tools and the samples.
    """
    package = sys.modules[
        "mainspring.tools.builtin"
    ]  # exports the tools, and this function: an import would be circular
    return [getattr(package, name) for name in (ALL_TOOL_NAMES if include_optional else DEFAULT_TOOL_NAMES)]
