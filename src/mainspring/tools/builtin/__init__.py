"""The built-in tools: files, search and shell. Each can be used alone: ``await read_file(ctx, path="x")``."""

from collections.abc import Mapping
from types import MappingProxyType

from mainspring.tools.builtin.files import edit, multi_edit, read_file, write_file
from mainspring.tools.builtin.search import glob, grep, list_files
from mainspring.tools.builtin.terminal import shell
from mainspring.tools.tool import Tool

CLASSIC_ALIASES: Mapping[str, str] = MappingProxyType({"read": "read_file", "write": "write_file", "bash": "shell"})
"""Names that other programs use, with ours; for ``tool_aliases``."""


def builtin_tools() -> list[Tool]:
    """All built-in tools, in the order in which a model is told of them."""
    return [read_file, write_file, edit, multi_edit, glob, grep, list_files, shell]


__all__ = [
    "CLASSIC_ALIASES",
    "builtin_tools",
    "edit",
    "glob",
    "grep",
    "list_files",
    "multi_edit",
    "read_file",
    "shell",
    "write_file",
]
