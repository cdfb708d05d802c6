"""The built-in tools as a list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

from mainspring.tools.tool import Tool

NAMES = ("read_file", "write_file", "edit", "multi_edit", "glob", "grep", "list_files", "shell")
"""In the order in which a model is told of them."""

CLASSIC_ALIASES: Mapping[str, str] = MappingProxyType({"read": "read_file", "write": "write_file", "bash": "shell"})
"""Names that other programs use, with ours; the command understands them where it takes the name of a tool."""


def builtin_tools() -> list[Tool]:
    """All built-in tools."""
    package = sys.modules[__name__.rpartition(".")[0]]  # It exports them; importing them here would tie them together.
    return [getattr(package, name) for name in NAMES]
