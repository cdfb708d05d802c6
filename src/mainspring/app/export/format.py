"""Formatting that the HTML and the Markdown export share."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, cast

from mainspring.app.run.events import format_cost
from mainspring.app.workspace.saved_sessions import TranscriptCall
from mainspring.messages import Usage
from mainspring.sessions.transcript import TranscriptItem
from mainspring.text import escape_invisible, truncate_end

KIND_LABELS = {
    "user": "User",
    "assistant": "Assistant",
    "system": "System",
    "compaction": "Compacted",
    "branch": "Branch",
    "model": "Model changed",
    "pause": "Waiting for approval",
    "error": "Error",
    "stop": "Stopped",
    "custom": "Note",
}
"""Display name of each kind of item."""


def format_time(when: datetime) -> str:
    """Format a time in UTC, because an export is read on other machines."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def format_usage_cost(usage: Usage | None) -> str:
    """Format a cost; an unknown price is not shown as zero."""
    if usage is None:
        return ""
    if usage.cost is None:
        return "price unknown" if usage.total_tokens else ""
    return format_cost(usage.cost.total)


def format_token_usage(usage: Usage | None) -> str:
    """Format the input and output tokens, and the cached share."""
    if usage is None or not usage.total_tokens:
        return ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    return f"{usage.prompt_tokens:,} in{cached}, {usage.output_tokens:,} out"


def format_arguments(call: TranscriptCall) -> str:
    """Format the arguments of a tool call with indentation."""
    if isinstance(call.input, str):
        return call.input
    return json.dumps(call.input, ensure_ascii=False, indent=2, default=str)


def call_headline(call: TranscriptCall) -> str:
    """Format a tool call in one line: the tool and its most important argument."""
    if isinstance(call.input, str):
        return call.name
    for name in ("command", "path", "file_path", "pattern", "url", "query", "prompt"):
        value = call.input.get(name)
        if isinstance(value, str) and value.strip():
            line = " ".join(escape_invisible(value, prose=True).split())
            return f"{call.name} {truncate_end(line, 100)}"
    return call.name


def edit_diff(call: TranscriptCall) -> str:
    """Return the diff of an edit, or an empty string."""
    details: Any = call.details
    found = cast("dict[str, Any]", details).get("diff") if isinstance(details, dict) else None
    return found if isinstance(found, str) else ""


def message_origin(item: TranscriptItem) -> str:
    """Return the origin of a message in the role user that the user did not write."""
    return {"steer": "steering", "follow_up": "follow-up", "synthetic": "added by the program"}.get(item.source, "")
