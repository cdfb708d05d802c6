"""The built-in tools: files, search and shell. Each can be used alone: ``await read_file(ctx, path="x")``."""

from mainspring.tools.builtin.catalog import CLASSIC_ALIASES, builtin_tools
from mainspring.tools.builtin.files import apply_patch, edit, multi_edit, read_file, write_file
from mainspring.tools.builtin.search import glob, grep, list_files
from mainspring.tools.builtin.terminal import jobs, shell
from mainspring.tools.builtin.web import fetch

__all__ = [
    "CLASSIC_ALIASES",
    "apply_patch",
    "builtin_tools",
    "edit",
    "fetch",
    "glob",
    "grep",
    "jobs",
    "list_files",
    "multi_edit",
    "read_file",
    "shell",
    "write_file",
]
