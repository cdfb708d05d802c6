"""Built-in tools: files, search, shell, web, lists, and questions.

Each tool can be used alone: ``await read_file(ctx, path="x")``.
"""

from typing import Any

from mainspring.tools.builtin.apply_patch import apply_patch
from mainspring.tools.builtin.ask_user import ask_user
from mainspring.tools.builtin.edit import edit, multi_edit
from mainspring.tools.builtin.fetch import fetch
from mainspring.tools.builtin.glob import glob
from mainspring.tools.builtin.grep import grep
from mainspring.tools.builtin.jobs import jobs
from mainspring.tools.builtin.list_files import list_files
from mainspring.tools.builtin.present_plan import present_plan
from mainspring.tools.builtin.read_file import read_file
from mainspring.tools.builtin.shell import shell
from mainspring.tools.builtin.todos import todo_read, todo_write
from mainspring.tools.builtin.write_file import write_file
from mainspring.tools.names import ALL_TOOL_NAMES, COMMON_ALIASES, SAMPLE_TOOL_NAMES, builtin_tools

__all__ = [
    "ALL_TOOL_NAMES",
    "COMMON_ALIASES",
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
    "present_plan",
    "read_file",
    "shell",
    "todo_read",
    "todo_write",
    "write_file",
]


def __getattr__(name: str) -> Any:
    """Create the sample tools on first access."""
    if name in SAMPLE_TOOL_NAMES:
        from mainspring.tools.builtin import samples

        return getattr(samples, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
