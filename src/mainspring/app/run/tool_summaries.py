"""What each built-in tool does, in one line for users. The descriptions of the tools are written for models."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.text import truncate_to_fit
from mainspring.tools import Tool

TOOL_SUMMARIES: Mapping[str, str] = {
    "read_file": "Read a text file, an image, or a PDF",
    "write_file": "Create or replace a file",
    "edit": "Replace text in a file",
    "multi_edit": "Make several edits in one file, all or none",
    "glob": "Find files by name",
    "grep": "Search the contents of files with a regular expression",
    "list_files": "Show a folder as a tree",
    "shell": "Run a shell command, in the foreground or background",
    "jobs": "List, read, and stop background commands",
    "fetch": "Read a web page or a document as text",
    "todo_write": "Keep a list of tasks",
    "apply_patch": "Change several files with one patch, all or none",
    "todo_read": "Show the list of tasks",
    "ask_user": "Ask you a question",
    "present_plan": "Present a plan for your approval",
    "hello": "Sample: return a greeting",
    "greet": "Sample: greet a user",
    "search_books": "Sample: search a small library of books",
}
"""Summaries by name of the tool."""

_MAX_CHARS = 100


def summarize_tool(tool: Tool) -> str:
    """Return the summary of a tool in one line; for a tool that is not built in, the start of its description."""
    if tool.source == "builtin" and tool.name in TOOL_SUMMARIES:
        return TOOL_SUMMARIES[tool.name]
    return truncate_to_fit(" ".join(tool.description.split("\n\n")[0].split()), _MAX_CHARS, "...")
