"""Cache breakpoints, for hosts that hand them on to the models that want them, as OpenRouter does.

They stand at the end of three prefixes: the tools, the system text, the conversation. The bytes that are kept hold none, so
what repeats from turn to turn is the same but for them.
"""

from __future__ import annotations

from typing import Any

_MARK = {"type": "ephemeral"}
_MARK_JSON = b',"cache_control":{"type":"ephemeral"}'


def marked_item(item: dict[str, Any]) -> dict[str, Any]:
    """A message with a breakpoint at its end: on its last part, or on itself where it has no content."""
    content = item.get("content")
    if not content:
        return {**item, "cache_control": _MARK}
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**item, "content": [*parts[:-1], {**parts[-1], "cache_control": _MARK}]}


def marked_tool(tool: bytes) -> bytes:
    """An encoded tool with a breakpoint."""
    return tool[:-1] + _MARK_JSON + b"}"
