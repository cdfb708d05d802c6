"""Results of slash commands as Markdown, for clients that display it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainspring.app.chat.command_results import (
    Changes,
    Clipboard,
    CommandResult,
    Fields,
    Picker,
    Table,
    Text,
    UiSetting,
)
from mainspring.events import FileDiff
from mainspring.text import pluralize


def result_to_markdown(shown: CommandResult | None) -> str:
    """Return a result as Markdown for the conversation, or an empty string for an empty result."""
    match shown:
        case Text(text=text, title=title, markdown=markdown):
            return _titled(title, text if markdown else fence(text))
        case Fields(fields=fields, title=title):
            return _titled(
                title, "\n".join(f"- **{_escape_markdown(name)}:** {_escape_markdown(value)}" for name, value in fields)
            )
        case Table(columns=columns, rows=rows, title=title, empty=empty):
            return _titled(title, _table(columns, rows) if rows else empty or "none")
        case Picker(title=title, choices=choices, empty=empty):
            lines: list[str] = []
            for choice in choices:
                facts = "; ".join(filter(None, ("now" if choice.current else "", choice.detail)))
                label = _escape_markdown(choice.label) + (f" ({_escape_markdown(facts)})" if facts else "")
                lines.append(f"{'  ' * choice.depth}- {label}: `{choice.line}`")
            return _titled(title, "\n".join(lines) or empty or "none")
        case Changes(text=text, diffs=diffs):
            return "\n\n".join([text, *[fence(format_diff(diff), "diff") for diff in diffs]])
        case Clipboard(text=text):
            return text
        case UiSetting(key=key, value=value):
            return f"{key.capitalize()} set to {value}."
        case _:
            return ""


def fence(text: str, language: str = "") -> str:
    """Return a fenced code block that no line of the text can close."""
    if not text:
        return ""
    max_length = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (max_length + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def format_diff(diff: FileDiff) -> str:
    """Return the change of a file as text."""
    lines = [f"{diff.change} {diff.path}"]
    for hunk in diff.hunks:
        lines += [hunk.header, *hunk.lines]
    if diff.left_out:
        lines.append(f"({pluralize(diff.left_out, 'line of the change is', 'lines of the change are')} not shown)")
    return "\n".join(lines)


def _titled(title: str, text: str) -> str:
    return "\n\n".join(part for part in (f"**{_escape_markdown(title)}**" if title else "", text) if part)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(_escape_markdown(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _escape_markdown(text: str) -> str:
    return " ".join(text.split())
