"""The built-in tools: files, search, shell, web, lists and questions. Each can be used alone: ``await read_file(ctx, path="x")``."""

from typing import Any

from mainspring.tools.builtin.catalog import BUILTIN_NAMES, CLASSIC_ALIASES, SAMPLES, builtin_tools
from mainspring.tools.builtin.files import apply_patch, edit, multi_edit, parse_outcomes, read_file, write_file
from mainspring.tools.builtin.search import glob, grep, list_files
from mainspring.tools.builtin.talk import ask_user, present_plan
from mainspring.tools.builtin.terminal import jobs, shell
from mainspring.tools.builtin.todos import todo_read, todo_write
from mainspring.tools.builtin.web import fetch

__all__ = [
    "BUILTIN_NAMES",
    "CLASSIC_ALIASES",
    "apply_patch",
    "ask_user",
    "builtin_tools",
    "edit",
    "fetch",
    "glob",
    "grep",
    "jobs",
    "list_files",
    "multi_edit",
    "parse_outcomes",
    "present_plan",
    "read_file",
    "shell",
    "todo_read",
    "todo_write",
    "write_file",
]


def __getattr__(name: str) -> Any:
    """The examples, which are made of functions when somebody asks for them."""
    if name in SAMPLES:
        from mainspring.tools.builtin import samples

        return getattr(samples, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
