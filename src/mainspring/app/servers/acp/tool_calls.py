"""Calls of tools as an editor shows them: what kind they are, which files they are about, and what they change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from acp import schema

from mainspring.app.chat.types import FileDiff
from mainspring.app.servers.markdown import fenced
from mainspring.text import pluralize

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
Content = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

_KINDS: dict[str, Kind] = {
    "read_file": "read",
    "list_files": "search",
    "glob": "search",
    "grep": "search",
    "write_file": "edit",
    "edit": "edit",
    "multi_edit": "edit",
    "apply_patch": "edit",
    "shell": "execute",
    "jobs": "execute",
    "fetch": "fetch",
    "todo_write": "think",
    "todo_read": "think",
    "spawn": "think",
    "present_plan": "switch_mode",
}
_PLANS = frozenset({"todo_write"})
_STATES: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "completed",
}
MAX_TEXT_CHARS = 16_000
"""Characters of an argument that are passed on as they are."""


def tool_kind(tool: str) -> Kind:
    """What a tool does, in the words of the protocol."""
    return _KINDS.get(tool, "other")


def call_title(display: str, summary: str) -> str:
    """What a call is called."""
    return " ".join(f"{display} {summary}".split()) or "tool"


def call_locations(arguments: Mapping[str, Any], cwd: str) -> list[schema.ToolCallLocation]:
    """The file that a call is about."""
    path = arguments.get("path")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return []
    line = arguments.get("offset")
    first = line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 1 << 31 else None
    return [schema.ToolCallLocation(path=absolute_path(path, cwd), line=first)]


def diff_locations(diffs: Iterable[FileDiff], cwd: str) -> list[schema.ToolCallLocation]:
    """The files that a call has changed."""
    return [schema.ToolCallLocation(path=absolute_path(diff.path, cwd)) for diff in diffs]


def absolute_path(path: str, cwd: str) -> str:
    """A path as the protocol wants it."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def text_content(text: str) -> Content:
    """A text as a part of a call."""
    return schema.ContentToolCallContent(type="content", content=schema.TextContentBlock(type="text", text=text))


def output(text: str, hidden: int = 0) -> list[Content]:
    """What a call gave."""
    more = (
        [text_content(f"({pluralize(hidden, 'line in the middle is', 'lines in the middle are')} not shown)")]
        if hidden
        else []
    )
    return [text_content(fenced(text)), *more] if text else more


def diff_content(diffs: Iterable[FileDiff], cwd: str) -> list[Content]:
    """What a call changes: a part for each place in a file."""
    made: list[Content] = []
    for diff in diffs:
        path = absolute_path(diff.path, cwd)
        for hunk in diff.hunks:
            old, new = (_diff_side(hunk.lines, mark) for mark in "-+")
            made.append(
                schema.FileEditToolCallContent(
                    type="diff", path=path, old_text=None if diff.change == "create" else old, new_text=new
                )
            )
        notes = [diff.note] if diff.note else []
        if diff.left_out:
            notes.append(f"{pluralize(diff.left_out, 'line of the change is', 'lines of the change are')} not shown")
        if not diff.hunks and not notes:
            notes.append(diff.change)
        made += [text_content(f"{diff.path}: {note}") for note in notes]
    return made


def _diff_side(lines: Sequence[str], mark: str) -> str:
    kept = [line[1:] for line in lines if line[:1] in (" ", mark)]
    return "".join(f"{line}\n" for line in kept)


def plan_update(tool: str, arguments: Mapping[str, Any]) -> schema.AgentPlanUpdate | None:
    """The plan that a call makes known, if it does."""
    todos = arguments.get("todos")
    if tool not in _PLANS or not isinstance(todos, list):
        return None
    entries: list[schema.PlanEntry] = []
    for todo in cast("list[Any]", todos):
        given = cast("dict[str, Any]", todo) if isinstance(todo, dict) else {}
        content = given.get("content")
        if isinstance(content, str) and content.strip():
            state = _STATES.get(str(given.get("status")), "pending")
            entries.append(schema.PlanEntry(content=content.strip(), priority="medium", status=state))
    return schema.AgentPlanUpdate(session_update="plan", entries=entries)


def shorten_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are, but for long texts: the change of a file is shown as such."""
    return {
        key: f"{value[:MAX_TEXT_CHARS]}… ({len(value) - MAX_TEXT_CHARS} characters more)"
        if isinstance(value, str) and len(value) > MAX_TEXT_CHARS
        else value
        for key, value in arguments.items()
    }
