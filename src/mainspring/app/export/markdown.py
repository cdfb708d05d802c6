"""A session as Markdown: the current branch first, then the abandoned branches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mainspring.app.export.format import (
    KIND_LABELS,
    call_headline,
    edit_diff,
    format_arguments,
    format_time,
    format_token_usage,
    format_usage_cost,
    message_origin,
)
from mainspring.app.workspace.saved_sessions import Transcript, TranscriptCall
from mainspring.sessions.transcript import TranscriptItem
from mainspring.text import escape_invisible

_FENCES = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)


def render_markdown(transcript: Transcript) -> str:
    """Render a session as Markdown.

    Args:
        transcript: The session, with secrets redacted.
    """
    usage = transcript.usage
    facts = [
        f"- Session: {_code(transcript.id)}",
        f"- Folder: {_code(transcript.cwd)}",
        f"- Started: {format_time(transcript.created)}",
        f"- Tokens: {format_token_usage(usage) or 'none'}; cost: {format_usage_cost(usage) or 'none'}",
        *[f"- Note: {_line(text)}" for text in transcript.problems],
    ]
    parts = [f"# {_line(transcript.title) or 'Session'}", "\n".join(facts)]
    parts += [_item(item) for item in transcript.items if item.active]
    inactive = [item for item in transcript.items if not item.active]
    if inactive:
        parts += ["---", "## Abandoned branches", *[_item(item) for item in inactive]]
    return "\n\n".join(parts) + "\n"


def _item(item: TranscriptItem) -> str:
    return "\n\n".join(_render_parts(item))


def _render_parts(item: TranscriptItem) -> Iterator[str]:
    facts = (
        item.model,
        message_origin(item),
        item.label and f"“{item.label}”",
        format_token_usage(item.usage),
        format_usage_cost(item.usage),
    )
    about = " · ".join(text for text in facts if text)
    yield f"### {KIND_LABELS[item.kind]}" + (f" ({_line(about)})" if about else "")
    if item.thinking:
        yield "> " + escape_invisible(item.thinking, prose=True).strip().replace("\n", "\n> ")
    if item.text:
        yield _close_code_block(escape_invisible(item.text, prose=True).rstrip())
    for image in item.images:
        yield f"[{_line(image.media_type)}, {len(image.data) * 3 // 4:,} bytes]"
    for call in item.calls:
        yield _call(call)
    if item.error:
        yield f"**Error:** {_line(item.error)}"


def _call(call: TranscriptCall) -> str:
    state = "no result" if call.output is None else "failed" if call.is_error else "ok"
    parts = [f"**{_line(call_headline(call))}** ({state})", _fence(format_arguments(call), "json")]
    difference = edit_diff(call)
    if difference:
        parts.append(_fence(difference, "diff"))
    elif call.output:
        parts.append(_fence(call.output))
    parts += [f"[{_line(image.media_type)}]" for image in call.images]
    return "\n\n".join(parts)


def _close_code_block(text: str) -> str:
    """Close a code block that the text leaves open, so that it does not include the following text."""
    opened = ""
    for match in _FENCES.finditer(text):
        fence, rest = match[1], match[2].strip()
        if not opened:
            opened = fence
        elif fence[0] == opened[0] and len(fence) >= len(opened) and not rest:
            opened = ""
    return f"{text}\n{opened}" if opened else text


def _fence(text: str, language: str = "") -> str:
    """Return a code block with a fence that is longer than any fence in the text."""
    text = escape_invisible(text, prose=True)
    max_length = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (max_length + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _line(text: str) -> str:
    return " ".join(escape_invisible(text, prose=True).split())


def _code(text: str) -> str:
    """Return a name as inline code, on one line and without backticks."""
    shown = escape_invisible(text).replace("`", "\\x60")
    return f"`{shown}`"
